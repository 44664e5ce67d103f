"""One kernel's trouble at the stop is its own."""

from __future__ import annotations

import errno
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, Saved
from gpucommons.labextension.hibernation import saving
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.keeping_limits import Limits
from gpucommons.labextension.hibernation.records import BufferedMessage, Record
from gpucommons.labextension.hibernation.reporting import TELLING_S, telling_seconds
from gpucommons.labextension.hibernation.saving import SAVE_S, saving_seconds
from gpucommons.labextension.server_context import ServerContext
from tests.labextension.hibernation.server_state import record_of


def keeper(folder: Path) -> Keeper:
    made = Keeper.open(
        folder,
        limits=Limits(),
        make_tree=lambda place: HibernatableTree(place, Criu(command=(), version="")),
        hindrance=Future(),
    )
    assert made is not None
    return made


async def test_what_goes_wrong_with_one_kernel_leaves_the_others_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, saved = keeper(tmp_path), []

    async def save(_server: object, _keeper: Keeper, one: Record, *_: object) -> None:
        if one.kernel_id == "k1":
            raise OSError(errno.ENOSPC, "No space left on device")
        saved.append(one.kernel_id)

    def describe(_server: object, kernel_id: str, **_: Any) -> Record:
        return record_of(kernel_id)

    monkeypatch.setattr(saving, "_save", save)
    monkeypatch.setattr(saving, "describe", describe)
    monkeypatch.setattr(saving, "hibernatable", lambda _: ["k1", "k2"])
    monkeypatch.setattr(saving, "_refused", lambda *_: {})

    assert await saving.save_all(None, of) == ()

    assert saved == ["k2"]
    assert (tmp_path / "kept.json").exists()
    (loss,) = of.losses
    assert (loss.kernel_id, loss.because) == (
        "k1",
        "Saving it went wrong (No space left on device).",
    )


def test_who_wants_nothing_kept_has_nothing_saved_and_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = keeper(tmp_path)
    monkeypatch.setattr(saving, "describe", lambda _server, kernel_id: record_of(kernel_id))
    monkeypatch.setattr(saving, "hibernatable", lambda _: ["k1"])

    assert saving.save_none(None, of) == ()

    assert [(loss.kernel_id, loss.because) for loss in of.losses] == [("k1", saving.CHOSEN)]


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, SAVE_S),
        # Kernels of a server on one machine end their saves by themselves.
        ({"GPUCOMMONS_STOP_SECONDS": "11"}, SAVE_S),
        # In a pod that is killed variables of what could not be saved need their time.
        ({"GPUCOMMONS_STOP_SECONDS": "60", "GPUCOMMONS_STOP_ENDS_KERNELS": "1"}, 52),
        ({"GPUCOMMONS_STOP_SECONDS": "5", "GPUCOMMONS_STOP_ENDS_KERNELS": "1"}, 1),
    ],
)
def test_saving_leaves_time_for_variables_where_kernels_are_killed(
    environ: dict[str, str], seconds: float
) -> None:
    killed_s = ServerContext.from_environment(environ).kernels_killed_s

    assert saving_seconds(killed_s, 8.0) == seconds


async def test_what_a_kernel_says_until_it_stands_still_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, said = keeper(tmp_path), [BufferedMessage(channel="iopub", parts=["00"])]

    class Tree:
        def save(self, _seconds: float, **_: object) -> Saved:
            said.append(BufferedMessage(channel="iopub", parts=["01"]))
            return Saved(image_bytes=1, seconds=0.1)

    def describe(_server: object, kernel_id: str, *, with_buffer: bool = False) -> Record:
        state = "busy" if len(said) == 1 else "idle"
        change = {"buffer": list(said) if with_buffer else [], "execution_state": state}
        return record_of(kernel_id).model_copy(update=change)

    done = MagicMock()
    done.provisioner = SimpleNamespace(tree=Tree(), wait=AsyncMock())
    managed = MagicMock(get_kernel=lambda _: done, _kernel_buffers={})
    server = SimpleNamespace(kernel_manager=managed)
    monkeypatch.setattr(saving, "describe", describe)
    monkeypatch.setattr(saving, "hibernatable", lambda _: ["k1"])
    monkeypatch.setattr(saving, "_refused", lambda *_: {})

    await saving.save_all(server, of)

    noted = of.record("k1")
    assert noted is not None
    assert [one.parts for one in noted.buffer] == [["00"], ["01"]]
    assert noted.execution_state == "idle"


async def test_all_kernels_share_one_bound_and_what_was_looked_at_before_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, asked = keeper(tmp_path), []
    clock = SimpleNamespace(now_s=3_000.0)

    def refusals(*_: object) -> dict[str, str]:
        clock.now_s += 100
        return {}

    class Tree:
        def save(self, seconds: float, *, let_go_s: float) -> Refused:
            asked.append((seconds, let_go_s))
            return Refused(because="Saving it took too long.", alive=True)

    kernel = SimpleNamespace(stop_restarter=lambda: None, provisioner=SimpleNamespace(tree=Tree()))
    server = SimpleNamespace(kernel_manager=SimpleNamespace(get_kernel=lambda _: kernel))
    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    monkeypatch.setattr(saving, "describe", lambda _server, kernel_id, **_: record_of(kernel_id))
    monkeypatch.setattr(saving, "hibernatable", lambda _: ["k1", "k2"])
    monkeypatch.setattr(saving, "_refused", refusals)

    assert await saving.save_all(server, of, within_s=SAVE_S) == ()
    # CRIU has let go by then of a kernel that came too late: variables of others are stored after it.
    assert asked == [(15, 5), (15, 5)]
    # Nothing is asked to be done in no time at all.
    await saving.save_all(server, of, within_s=60)
    assert asked[2:] == [(0.75, 0.25), (0.75, 0.25)]
    assert {loss.because for loss in of.losses} == {"Saving it took too long."}


@pytest.mark.parametrize(
    ("stop_seconds", "since_stop_s", "within_s"),
    [(8, 2.0, 5.0), (8, 7.5, TELLING_S), (8, None, TELLING_S), (None, 2.0, TELLING_S)],
    ids=["all saved", "late", "variables are stored after it", "nobody kills it"],
)
def test_a_busy_scheduler_has_the_rest_of_a_stop_to_hear_what_is_kept(
    stop_seconds: int | None, since_stop_s: float | None, within_s: float
) -> None:
    assert telling_seconds(stop_seconds, since_stop_s) == within_s

"""A kernel that waits for another start of its server is nowhere said to be gone."""

from __future__ import annotations

import errno
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.labextension.hibernation import saving, waking
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.keeping_limits import Limits
from tests.labextension.hibernation.server_state import record_of


async def test_a_kernel_waits_also_where_none_can_be_started_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hindrance: Future[str | None] = Future()
    hindrance.set_result("There is no CRIU here.")
    keeper = Keeper.open(
        tmp_path,
        limits=Limits(),
        make_tree=lambda place: HibernatableTree(place, Criu(command=(), version="")),
        hindrance=hindrance,
    )
    assert keeper is not None

    async def start_kernel(**_: Any) -> None:
        raise OSError("no such kernelspec")

    server = SimpleNamespace(
        kernel_manager=SimpleNamespace(start_kernel=start_kernel),
        session_manager=SimpleNamespace(get_kernel_env=lambda _path, _name: {}),
    )
    monkeypatch.setattr(waking, "_hindrances", lambda _keeper, _kernel_id: (None, None))

    assert await waking._start(server, keeper, record_of("k1")) is None

    (said,) = keeper.losses
    assert said.because == "There is no CRIU here."
    assert said.kept_until_ms > 0
    keeper.close()


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_kernel_whose_start_fails_is_lost_only_where_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    """A disk that is full when its server starts has no room for the image's new ports."""
    able: Future[str | None] = Future()
    able.set_result(None)
    image = SimpleNamespace(made_ms=5) if is_whole else None
    keeper = Keeper.open(
        tmp_path,
        limits=Limits(),
        make_tree=lambda _: SimpleNamespace(image=lambda: image),  # type: ignore[arg-type,return-value]
        hindrance=able,
    )
    assert keeper is not None

    async def start_kernel(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    server = SimpleNamespace(
        kernel_manager=SimpleNamespace(start_kernel=start_kernel),
        session_manager=SimpleNamespace(get_kernel_env=lambda _path, _name: {}),
    )
    monkeypatch.setattr(waking, "_hindrances", lambda _keeper, _kernel_id: (None, None))

    assert await waking._start(server, keeper, record_of("k1")) is None

    (said,) = keeper.losses
    assert "could not be started again" in said.because
    assert (said.kept_until_ms > 0) == is_whole
    keeper.close()


def test_what_waits_counts_among_what_may_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside it are other servers of the user: in pytest's own folder those of other tests.
    keeper = Keeper.open(
        tmp_path / "server",
        limits=replace(Limits(), most_bytes=10),
        make_tree=lambda _: SimpleNamespace(image=lambda: SimpleNamespace(bytes=6)),  # type: ignore[arg-type,return-value]
        hindrance=Future(),
    )
    assert keeper is not None
    kernel = SimpleNamespace(provisioner=SimpleNamespace(pid=1))
    server = SimpleNamespace(kernel_manager=SimpleNamespace(get_kernel=lambda _: kernel))
    monkeypatch.setattr(saving, "_memory_bytes", lambda _pid: 5)
    free = SimpleNamespace(free=1 << 50)
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: free)
    assert saving._refused(server, keeper, {"k2": record_of("k2")}) == {}

    keeper.waiting.add("k1")

    assert saving._refused(server, keeper, {"k2": record_of("k2")}).keys() == {"k2"}
    keeper.close()

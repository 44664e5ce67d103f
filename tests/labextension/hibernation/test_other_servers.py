"""Folders of a user's other servers: they can cost this server nothing, and this one costs them nothing."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.hibernation import hibernation, other_servers, saving
from gpucommons.labextension.hibernation.hibernation import Hibernation
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.keeping_limits import DAY_MS, Limits
from tests.labextension.hibernation.server_state import record_of


def keeper(folder: Path, *, patience_s: float = 0) -> Keeper | None:
    return Keeper.open(
        folder,
        limits=Limits(),
        make_tree=lambda place: HibernatableTree(place, Criu(command=(), version="")),
        hindrance=Future(),
        patience_s=patience_s,
    )


def opened(folder: Path) -> Keeper:
    made = keeper(folder)
    assert made is not None
    return made


def leave(folder: Path, noted_ms: int) -> None:
    """A server that is gone, with one kernel."""
    of = opened(folder)
    of.note(record_of("k1", noted_ms))
    of.close()


def test_a_folder_that_cannot_be_read_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = opened(tmp_path / "own")
    for name in ("bad", "good"):
        leave(tmp_path / name, 1)

    def images_below(folder: Path, _make_tree: object) -> list[Any]:
        if folder.name == "bad":
            raise PermissionError
        return [SimpleNamespace(bytes=7)]

    monkeypatch.setattr(other_servers, "images_below", images_below)

    assert other_servers.kept_elsewhere_bytes(of) == 7


def test_what_is_over_is_removed_and_said_although_another_folder_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = opened(tmp_path / "own")
    for name in ("a", "b", "c"):
        leave(tmp_path / name, 1)
    ask = other_servers.has_kernels

    def has_kernels(folder: Path) -> bool:
        if folder.name == "b":
            raise PermissionError
        return ask(folder)

    monkeypatch.setattr(other_servers, "has_kernels", has_kernels)

    other_servers.remove_old(of)

    for name, left in (("a", []), ("b", ["k1"]), ("c", [])):
        other = opened(tmp_path / name)
        assert other.kernel_ids() == left
        assert [one.kernel_id for one in other.losses] == ([] if left else ["k1"])
        assert not (tmp_path / name / "over").exists()


def test_a_folder_where_nothing_is_over_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = opened(tmp_path / "own")
    leave(tmp_path / "other", wall_clock_ms())
    taken: list[Path] = []
    monkeypatch.setattr(Keeper, "open", lambda folder, **_: taken.append(folder))

    other_servers.remove_old(of)

    assert taken == []


def test_what_was_allowed_when_it_was_saved_counts_not_what_the_next_server_is_told(
    tmp_path: Path,
) -> None:
    of = opened(tmp_path / "own")
    two_days_ago = wall_clock_ms() - 2 * DAY_MS
    for name, days in (("short", 1), ("long", 3)):
        other = opened(tmp_path / name)
        other.note(record_of("k1", two_days_ago, kept_days=days))
        other.close()
    of.limits = Limits(days=2)

    other_servers.remove_old(of)

    short, long = opened(tmp_path / "short"), opened(tmp_path / "long")
    assert (short.kernel_ids(), long.kernel_ids()) == ([], ["k1"])
    assert [one.because for one in short.losses] == ["It was kept for one day, and that is over."]


def test_the_days_begin_with_the_image_where_a_kernel_saved_itself_long_after_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = opened(tmp_path)
    saved_ms = wall_clock_ms()
    image = SimpleNamespace(made_ms=saved_ms, bytes=7)
    monkeypatch.setattr(HibernatableTree, "image", lambda _: image)
    of.note(record_of("k1", saved_ms - 30 * DAY_MS, kept_days=3))

    (kept,) = of.kept()

    assert kept.kept_until_ms == saved_ms + 3 * DAY_MS


def test_a_server_has_its_folder_while_what_was_over_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = opened(tmp_path / "own")
    leave(tmp_path / "other", 1)
    had: list[Keeper | None] = []
    monkeypatch.setattr(other_servers, "remove_over", lambda folder: had.append(keeper(folder)))

    other_servers.remove_old(of)

    assert [one is not None for one in had] == [True]


def test_a_server_that_starts_waits_for_who_has_its_folder_for_a_moment(tmp_path: Path) -> None:
    remover = opened(tmp_path)
    assert keeper(tmp_path) is None

    done = threading.Timer(0.05, remover.close)
    done.start()

    assert keeper(tmp_path, patience_s=60) is not None
    done.join()


async def test_kernels_come_back_while_other_folders_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    async def nothing(*_: object) -> list[str]:
        return []

    async def told(_kept: object) -> None:
        looked.set()

    waited: list[bool] = []
    monkeypatch.setattr(hibernation, "remove_old", lambda _: waited.append(looked.wait(60)))
    monkeypatch.setattr(hibernation, "keep_notes", nothing)
    monkeypatch.setattr(hibernation, "wake_all", nothing)

    await Hibernation(None, opened(tmp_path), None).run(told)

    assert waited == [True]


async def test_each_kernel_is_said_to_be_lost_where_saving_went_wrong_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def save_all(_server: object, of: Keeper, _within_s: float) -> tuple[()]:
        of.lose(record_of("k1"), "It is said already.")
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(hibernation, "save_all", save_all)
    monkeypatch.setattr(saving, "hibernatable", lambda _: ["k1", "k2"])
    monkeypatch.setattr(saving, "describe", lambda _server, kernel_id: record_of(kernel_id))
    of = opened(tmp_path)

    kept = await asyncio.wait_for(Hibernation(None, of, SimpleNamespace()).stop(), 60)

    assert kept == ()
    assert [(one.kernel_id, one.because) for one in of.losses] == [
        ("k1", "It is said already."),
        ("k2", "Saving it went wrong (Permission denied)."),
    ]

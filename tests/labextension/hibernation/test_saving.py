"""One kernel's trouble at the stop is its own."""

from __future__ import annotations

import errno
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.labextension.hibernation import saving
from gpucommons.labextension.hibernation.keeper import Keeper
from gpucommons.labextension.hibernation.limits import Limits
from gpucommons.labextension.hibernation.records import Record
from tests.labextension.hibernation.kernel_records import record


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

    async def save(_server: object, _keeper: Keeper, one: Record, _refusal: str | None) -> None:
        if one.kernel_id == "k1":
            raise OSError(errno.ENOSPC, "No space left on device")
        saved.append(one.kernel_id)

    def describe(_server: object, kernel_id: str, **_: Any) -> Record:
        return record(kernel_id)

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
    monkeypatch.setattr(saving, "describe", lambda _server, kernel_id: record(kernel_id))
    monkeypatch.setattr(saving, "hibernatable", lambda _: ["k1"])

    assert saving.save_none(None, of) == ()

    assert [(loss.kernel_id, loss.because) for loss in of.losses] == [("k1", saving.CHOSEN)]

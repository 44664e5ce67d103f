"""Stored variables lie where nobody else can put or swap them, and go when their time is over."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.labextension.variables.folders import Folders, StoredVariables
from gpucommons.labextension.variables.inside import NotKept
from gpucommons.labextension.variables.keeper import seconds_left, variables_report

ONE, TWO = (f"018f0000-0000-4000-8000-00000000000{n}" for n in (1, 2))
HOUR_MS = 3600_000


def about(kernel_id: str = ONE, **fields: object) -> StoredVariables:
    stored = StoredVariables(
        kernel_id=kernel_id,
        owner="ann",
        server_name="",
        path="a.ipynb",
        kept=("x",),
        lost=(),
        size_bytes=10,
        made_ms=1,
        until_ms=1000,
    )
    return replace(stored, **fields)  # type: ignore[arg-type] # fields of any type


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path, owner="ann")


def test_what_is_stored_is_listed_until_its_time_is_over(folders: Folders) -> None:
    folders.make(ONE)
    folders.finish(about())
    assert folders.listed() == [about()]
    assert folders.size_bytes() == 10
    folders.remove_old(999)
    assert folders.one(ONE) == about()
    folders.remove_old(1000)
    assert folders.one(ONE) is None
    assert not (folders.root / ONE).exists()


def test_what_was_stored_of_the_same_notebook_before_goes(folders: Folders) -> None:
    for kernel_id, path in ((ONE, "a.ipynb"), (TWO, "a.ipynb")):
        folders.make(kernel_id)
        folders.finish(about(kernel_id, path=path))
    assert folders.listed() == [about(TWO)]


def test_of_kernels_without_a_notebook_and_other_servers_all_stays(folders: Folders) -> None:
    for kernel_id, server in ((ONE, ""), (TWO, "second")):
        folders.make(kernel_id)
        folders.finish(about(kernel_id, server_name=server))
    assert len(folders.listed()) == 2


def test_what_another_user_of_the_account_stored_is_not_shown(folders: Folders) -> None:
    folders.make(ONE)
    folders.finish(about(owner="bob"))
    assert folders.listed() == []


def test_a_folder_that_others_may_write_or_a_link_is_refused(
    folders: Folders, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "gpucommons").symlink_to(elsewhere)
    with pytest.raises(NotKept, match="no folder"):
        folders.make(ONE)
    (tmp_path / "gpucommons").unlink()
    (tmp_path / "gpucommons").mkdir()
    (tmp_path / "gpucommons").chmod(0o777)
    with pytest.raises(NotKept, match="not this account's alone"):
        folders.make(ONE)


def test_what_others_may_read_or_is_damaged_is_passed_over(folders: Folders) -> None:
    folders.make(ONE)
    folders.finish(about())
    record = folders.root / ONE / "about.json"
    record.chmod(0o644)
    assert folders.listed() == []
    record.chmod(0o600)
    for damaged in ("{", "[" * 100_000):
        record.write_text(damaged, encoding="utf-8")
        assert folders.listed() == []


def test_what_a_killed_server_left_half_goes_but_not_what_is_being_written(
    folders: Folders,
) -> None:
    half = folders.make(ONE)
    now_ms = int(half.stat().st_mtime * 1000)
    folders.remove_old(now_ms)
    assert half.exists()
    folders.remove_old(now_ms + HOUR_MS + 1000)
    assert not half.exists()


def test_names_that_are_no_kernels_are_left_alone(folders: Folders, tmp_path: Path) -> None:
    folders.make(ONE)
    (folders.root / "mine").mkdir()
    folders.remove("../..")
    folders.remove_old(1 << 60)
    assert (folders.root / "mine").exists()
    assert os.listdir(tmp_path) == ["gpucommons"]  # noqa: PTH208 - names alone


@pytest.mark.parametrize(
    ("until_killed", "seconds"), [(None, 5.0), (10, 5.0), (6, 3.0), (5, 2.0), (4, 0.0), (1, 0.0)]
)
def test_storing_takes_no_longer_than_the_server_has(
    until_killed: int | None, seconds: float
) -> None:
    assert seconds_left(5.0, until_killed) == seconds


def test_what_is_kept_is_reported_in_numbers_and_nothing_not_at_all() -> None:
    assert variables_report([]) is None
    assert variables_report([about(kept=())]) is None
    report = variables_report([about(), about(TWO, kept=("y", "z"), until_ms=500)])
    assert report is not None
    assert (report.variables, report.variable_bytes, report.until_ms) == (3, 20, 500)

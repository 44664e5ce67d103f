"""Small files appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpucommons.scheduler.files.durable_files import write_once, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == ["file"]


def test_a_link_in_its_place_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"untouched")
    (tmp_path / "file").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "target").read_bytes() == b"untouched"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_the_first_writer_wins(tmp_path: Path) -> None:
    write_once(tmp_path / "key", b"first")
    write_once(tmp_path / "key", b"second")
    assert (tmp_path / "key").read_bytes() == b"first"
    assert names(tmp_path) == ["key"]


@pytest.mark.parametrize("write", [write_whole, write_once])
def test_a_crash_while_writing_leaves_no_half_file(
    write: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(_descriptor: int) -> None:
        raise OSError

    monkeypatch.setattr(os, "fsync", power_cut)
    with pytest.raises(OSError):  # noqa: PT011 - the one above
        write(tmp_path / "key", b"secret")  # type: ignore[operator] # one of the two above
    assert not (tmp_path / "key").exists()

"""The lock of a tree's folder, which is looked at by others."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation import folder as layout

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such locks there")


def test_a_tree_that_starts_waits_for_who_only_looks(tmp_path: Path) -> None:
    looking = layout.lock(tmp_path)
    assert looking is not None
    assert layout.lock(tmp_path) is None

    looked = threading.Timer(0.05, os.close, [looking])
    looked.start()
    held = layout.lock(tmp_path, patience_s=60)

    assert held is not None
    os.close(held)
    looked.join()


def test_two_that_look_at_once_see_no_tree_and_one_that_starts_waits_for_both(
    tmp_path: Path,
) -> None:
    import fcntl  # noqa: PLC0415 - not on Windows

    (tmp_path / layout.LOCK).touch()
    with (tmp_path / layout.LOCK).open("r+b") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not layout.is_held(tmp_path)
        assert layout.lock(tmp_path) is None


def test_a_tree_that_lives_keeps_its_folder(tmp_path: Path) -> None:
    lives = layout.lock(tmp_path)
    assert lives is not None

    assert layout.lock(tmp_path, patience_s=0.05) is None
    assert layout.is_held(tmp_path)
    os.close(lives)
    assert not layout.is_held(tmp_path)


def test_who_stands_for_the_last_tree_is_known_by_its_folder(tmp_path: Path) -> None:
    assert layout.begun_by(tmp_path) is None
    layout.begin(tmp_path, 12345)
    layout.begin(tmp_path, 7)
    assert layout.begun_by(tmp_path) == 7
    for content in ("", "7 8", "-1", "\N{ARABIC-INDIC DIGIT SEVEN}"):
        (tmp_path / layout.BEGUN).write_text(content, encoding="utf-8")
        assert layout.begun_by(tmp_path) is None


def test_no_link_in_its_place_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / layout.BEGUN).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        layout.begin(tmp_path, 7)
    assert (tmp_path / "elsewhere").read_text() == ""

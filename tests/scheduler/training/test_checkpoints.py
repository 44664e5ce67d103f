"""A checkpoint is complete or it does not exist."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from gpucommons.scheduler.training import checkpoints


def test_a_checkpoint_bears_its_final_name_only_when_the_block_has_ended(tmp_path: Path) -> None:
    with checkpoints.writing(tmp_path, 3) as folder:
        (folder / "state").write_bytes(b"weights")
        assert checkpoints.complete_steps(tmp_path) == ()

    assert checkpoints.complete_steps(tmp_path) == (3,)
    assert (tmp_path / "step-3" / "state").read_bytes() == b"weights"


def test_a_failed_write_leaves_no_complete_checkpoint(tmp_path: Path) -> None:
    def half() -> None:
        with checkpoints.writing(tmp_path, 3) as folder:
            (folder / "state").write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()

    assert checkpoints.complete_steps(tmp_path) == ()


def test_leftovers_of_a_killed_attempt_do_not_enter_the_next_write(tmp_path: Path) -> None:
    (tmp_path / ".step-3.partial").mkdir()
    (tmp_path / ".step-3.partial" / "old").write_bytes(b"junk")

    with checkpoints.writing(tmp_path, 3) as folder:
        (folder / "state").write_bytes(b"weights")

    assert [path.name for path in (tmp_path / "step-3").iterdir()] == ["state"]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        with checkpoints.writing(tmp_path, 3) as folder:
            (folder / "state").write_bytes(content)

    assert (tmp_path / "step-3" / "state").read_bytes() == b"second"


def test_a_step_is_complete_while_what_it_replaces_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "old")
    seen: list[tuple[int, ...]] = []
    really = shutil.rmtree

    def watched(path: Path, **options: Any) -> None:
        if path.is_dir():
            seen.append(checkpoints.complete_steps(tmp_path))
        really(path, **options)

    monkeypatch.setattr(shutil, "rmtree", watched)
    save(tmp_path, "new")
    assert seen == [(5,)]
    assert (tmp_path / "step-5" / "weights").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-5"]


def save(root: Path, text: str) -> None:
    with checkpoints.writing(root, 5) as folder:
        (folder / "weights").write_text(text)


@pytest.mark.skipif(sys.platform != "linux", reason="two renames elsewhere")
def test_there_is_no_moment_without_the_step_that_is_saved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "old")

    def renamed(path: Path, _to: Path) -> None:
        pytest.fail(f"{path.name} is gone for a moment")

    monkeypatch.setattr(Path, "rename", renamed)
    save(tmp_path, "new")
    assert (tmp_path / "step-5" / "weights").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["step-5"]


def test_where_names_cannot_be_swapped_a_step_is_replaced_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "old")
    monkeypatch.setattr(checkpoints, "_exchange", lambda _one, _other: False)
    save(tmp_path, "new")
    assert (tmp_path / "step-5" / "weights").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["step-5"]


def test_the_hash_sees_names_and_contents_but_not_links(tmp_path: Path) -> None:
    first, second, third = tmp_path / "step-1", tmp_path / "step-2", tmp_path / "step-3"
    for folder in (first, second, third):
        folder.mkdir()
    (first / "a").write_bytes(b"x")
    (second / "b").write_bytes(b"x")
    (third / "a").write_bytes(b"x")
    (third / "link").symlink_to("/etc/passwd")

    assert checkpoints.measure(first) != checkpoints.measure(second)
    assert checkpoints.measure(first) == checkpoints.measure(third)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10, 9):
        with checkpoints.writing(tmp_path, step):
            pass

    checkpoints.drop_older(tmp_path, keep=2)

    assert checkpoints.complete_steps(tmp_path) == (9, 10)


def test_a_folder_without_a_final_name_is_never_resumed_from(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a complete checkpoint"):
        checkpoints.step_of(tmp_path / ".step-3.partial")

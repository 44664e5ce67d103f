"""Links from a job's folder to large files of the home: as the user, and never out of the home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucommons.scheduler.files.confined_files import Refused
from gpucommons.scheduler.working_folder.home_links import link_left_out


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "project" / "checkpoints" / "run").mkdir(parents=True)
    (folder / "project" / "data.bin").write_text("data")
    (folder / "project" / "checkpoints" / "run" / "last.ckpt").write_text("saved")
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_files_are_linked_and_folders_are_the_jobs_own(home: Path, work: Path) -> None:
    assert link_left_out(work, home, "project", ["data.bin", "checkpoints"]) == 2
    assert (work / "data.bin").read_text() == "data"
    assert (work / "checkpoints" / "run" / "last.ckpt").read_text() == "saved"
    # What the job adds is its own.
    (work / "checkpoints" / "run" / "next.ckpt").write_text("new")
    assert not (home / "project" / "checkpoints" / "run" / "next.ckpt").exists()


def test_what_is_there_already_stays(home: Path, work: Path) -> None:
    (work / "data.bin").write_text("the job's")
    assert link_left_out(work, home, "project", ["data.bin"]) == 0
    assert (work / "data.bin").read_text() == "the job's"


@pytest.mark.parametrize(
    ("below", "path"),
    [
        ("project", "../outside"),
        ("..", "secret"),
        ("project", "link"),
        ("project", "linked/secret"),
        ("linked", "secret"),
        ("project", "gone"),
        ("project", "pipe"),
        ("project", "."),
    ],
)
def test_nothing_outside_of_the_home_is_linked(
    home: Path, work: Path, tmp_path: Path, below: str, path: str
) -> None:
    (tmp_path / "secret").write_text("s")
    (home / "project" / "link").symlink_to(tmp_path / "secret")
    (home / "project" / "linked").symlink_to(tmp_path)
    (home / "linked").symlink_to(tmp_path)
    os.mkfifo(home / "project" / "pipe")
    if path == ".":
        link_left_out(work, home, below, [path])
    else:
        with pytest.raises(Refused):
            link_left_out(work, home, below, [path])
    assert not any("secret" in p.name or p.name in ("link", "pipe") for p in work.rglob("*"))


def test_links_inside_of_a_folder_are_passed_by(home: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (home / "project" / "checkpoints" / "link").symlink_to(tmp_path / "secret")
    (home / "project" / "checkpoints" / "up").symlink_to(tmp_path)
    link_left_out(work, home, "project", ["checkpoints"])
    assert sorted(p.name for p in (work / "checkpoints").iterdir()) == ["run"]

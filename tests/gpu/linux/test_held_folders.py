"""What a killed process left in the folder for temporary files goes with the next one that begins."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpucommons.gpu.linux.held_folders import held_folder

HOLDS = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from gpucommons.gpu.linux.held_folders import held_folder
with held_folder("gctest-") as folder:
    open(folder + "/socket", "w").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def holder(below: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLDS, str(below)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_goes_with_the_next_and_what_one_holds_stays(
    below: Path,
) -> None:
    with holder(below) as killed, holder(below) as lives:
        left, held = folder_of(killed), folder_of(lives)
        killed.kill()
        killed.wait()
        assert left.exists()
        with held_folder("gctest-") as mine:
            assert not left.exists()
            assert (held / "socket").exists()
            assert Path(mine).parent == below
        assert not Path(mine).exists()
        lives.communicate()
        assert not held.exists()


def test_neither_links_nor_folders_of_other_names_nor_new_ones_are_touched(below: Path) -> None:
    (below / "other").mkdir()
    (below / "other" / "file").touch()
    (below / "gctest-link").symlink_to(below / "other")
    (below / "gctest-new").mkdir()
    with held_folder("gctest-"):
        pass
    assert (below / "other" / "file").exists()
    assert (below / "gctest-link").is_symlink()
    assert (below / "gctest-new").exists()

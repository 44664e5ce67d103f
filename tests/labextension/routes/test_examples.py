"""The examples come as files of the user's own; what is there already stays as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager

from gpucommons.labextension.routes.examples import SHIPPED, copy_examples
from gpucommons.scheduler.errors import Conflict


def contents(root: Path) -> FileContentsManager:
    return FileContentsManager(root_dir=str(root))


async def test_all_shipped_examples_are_copied(tmp_path: Path) -> None:
    answer = await copy_examples(contents(tmp_path))

    shipped = sorted(each.name for each in SHIPPED.iterdir() if each.is_file())
    assert answer.copied == shipped
    assert answer.first == "gpu-examples/first_job.py"
    for name in shipped:
        assert (tmp_path / "gpu-examples" / name).read_text() == (SHIPPED / name).read_text()


async def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "gpu-examples" / "first_job.py"
    mine.parent.mkdir()
    mine.write_text("print('mine')\n")

    answer = await copy_examples(contents(tmp_path))

    assert mine.read_text() == "print('mine')\n"
    assert "first_job.py" not in answer.copied
    assert (await copy_examples(contents(tmp_path))).copied == []


async def test_a_file_with_the_folders_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gpu-examples").write_text("notes")

    with pytest.raises(Conflict, match="rename it"):
        await copy_examples(contents(tmp_path))
    assert (tmp_path / "gpu-examples").read_text() == "notes"


def test_the_first_example_runs_with_python_alone_and_goes_on_from_what_it_saved(
    tmp_path: Path,
) -> None:
    """Its pauses are for who watches; here nobody does."""
    source = (SHIPPED / "first_job.py").read_text().replace("time.sleep(1)", "pass")
    (tmp_path / "job.py").write_text(source.replace("EPOCHS = 20", "EPOCHS = 3"))
    first = run(tmp_path)
    (tmp_path / "job.py").write_text(source)
    second = run(tmp_path)

    assert first.count("loss") == 3
    assert second.startswith("goes on after epoch 3\nepoch 4 of 20")


def run(folder: Path) -> str:
    command = [sys.executable, "-I", "job.py"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout

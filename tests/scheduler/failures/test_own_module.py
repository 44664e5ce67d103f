"""A module that is among the job's own files needs no installation: it is run as a module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.scheduler.failures import Failure, headline

INSTALL = "The environment of the job lacks it: install it there"


def failed(script: str, missing: str, *, files: tuple[str, ...] = (), taken_from: str = "") -> str:
    tail = (
        f'Traceback (most recent call last):\n  File "{script}", line 1, in <module>\n    import x\n'
        f"ModuleNotFoundError: No module named '{missing}'\n"
    )
    return headline(Failure(tail=tail, exit_code=1, files=files, taken_from=taken_from))


@pytest.mark.parametrize(
    ("script", "missing", "files", "taken_from", "module"),
    [
        ("/home/ann/7/work/examples/mnist.py", "examples", (), "", "examples.mnist"),
        ("/home/ann/7/work/a/b/train.py", "a.c", (), "", "a.b.train"),
        ("/home/ann/7/work/mnist.py", "examples", ("mnist.py",), "examples", "examples.mnist"),
        ("/home/ann/7/work/scripts/train.py", "src", ("src", "scripts"), "", "scripts.train"),
        ("/home/ann/7/work/scripts/train.py", "data", ("data.py", "scripts"), "", "scripts.train"),
    ],
)
def test_a_module_among_the_jobs_files_is_run_as_one(
    script: str, missing: str, files: tuple[str, ...], taken_from: str, module: str
) -> None:
    said = failed(script, missing, files=files, taken_from=taken_from)
    assert INSTALL not in said
    above = module.partition(".")[0]
    assert (
        f"run it as a module from the folder above {above} (gpucommons submit -m {module};" in said
    )


@pytest.mark.parametrize(
    ("script", "missing", "files", "taken_from"),
    [
        ("/home/ann/7/work/train.py", "torch", ("train.py",), "project"),
        # The folder lies above the job's own files, or is found already.
        ("/home/data/7/work/train.py", "data", ("train.py",), "project"),
        ("/home/ann/7/work/train.py", "src", ("src", "train.py"), "project"),
        ("/home/ann/7/work/my-project/train.py", "my", (), ""),
        ("", "examples", ("examples",), "examples"),
    ],
)
def test_what_is_not_there_is_still_to_be_installed(
    script: str, missing: str, files: tuple[str, ...], taken_from: str
) -> None:
    assert INSTALL in failed(script, missing, files=files, taken_from=taken_from)


def test_what_is_advised_runs(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "examples"
    folder.mkdir(parents=True)
    (folder / "datasets.py").write_text("")
    (folder / "mnist.py").write_text("from examples import datasets\nprint('well')\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-u", *words],
            cwd=folder.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    said = headline(Failure(tail=run("examples/mnist.py").stderr, exit_code=1))
    assert "gpucommons submit -m examples.mnist" in said
    assert run("-m", "examples.mnist").stdout == "well\n"

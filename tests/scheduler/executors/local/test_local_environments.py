"""Attempts in environments of the user's, as real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launches import a_launch, ended, lines

from gpucommons.scheduler.executors.local.local import LocalExecutor

CODE = """
import os, shutil, sys
from gpucommons.scheduler import training
print(sys.prefix)
print(shutil.which("tool"))
print(os.environ.get("VIRTUAL_ENV"))
print(training.current().resume_step())
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    folder = (tmp_path / "env").resolve()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "bin" / "tool").write_text("#!/bin/sh\necho tool of $VIRTUAL_ENV\n")
    (folder / "bin" / "tool").chmod(0o755)
    return folder


def test_a_script_finds_its_environment_and_what_lets_it_be_resumed(
    executor: LocalExecutor, environment: Path
) -> None:
    launch = a_launch("python", "-c", CODE, environment=str(environment))
    executor.start(launch)
    assert ended(executor).exit_code == 0, lines(executor, launch)
    assert lines(executor, launch) == [
        str(environment), str(environment / "bin" / "tool"), str(environment), "0",
    ]  # fmt: skip


def test_a_program_of_the_environment_is_found_by_its_name(
    executor: LocalExecutor, environment: Path
) -> None:
    launch = a_launch("tool", environment=str(environment))
    executor.start(launch)
    assert ended(executor).exit_code == 0
    assert lines(executor, launch) == [f"tool of {environment}"]


@pytest.mark.parametrize("what", ["gone", "another"])
def test_an_environment_that_vanished_or_is_another_one_now_is_said_on_the_page(
    executor: LocalExecutor, environment: Path, what: str
) -> None:
    launch = a_launch("python", "-c", "print(1)", environment=str(environment))
    environment.rename(environment.with_name("moved"))
    if what == "another":
        environment.symlink_to(environment.with_name("moved"))
    executor.start(launch)
    end = ended(executor)
    assert end.start_failed
    assert "has vanished or changed since this job was submitted" in end.text


def test_large_files_of_the_home_are_linked_before_the_command_starts(
    executor: LocalExecutor, home: Path
) -> None:
    (home / "project").mkdir(parents=True)
    (home / "project" / "data.bin").write_text("data")
    launch = a_launch(
        "python", "-c", "print(open('data.bin').read())", links=("data.bin",), links_from="project"
    )
    executor.start(launch)
    assert ended(executor).exit_code == 0
    assert lines(executor, launch) == ["data"]


def test_a_linked_file_that_is_gone_is_said_and_nothing_starts(executor: LocalExecutor) -> None:
    launch = a_launch("python", "-c", "1", links=("gone.bin",), links_from="project")
    executor.start(launch)
    end = ended(executor)
    assert end.start_failed
    assert "gone.bin" in end.text

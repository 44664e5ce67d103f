"""A real CRIU, and real programs to save and wake with it.

Where there is none the tests say so and skip; REQUIRE_CRIU=1 makes that a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.criu import Criu, find_criu
from gpucommons.gpu.hibernation.tree import HibernatableTree

NONE_HERE = "no CRIU 4.2 or newer (make setup-hibernation)"
Start = Callable[[list[str]], subprocess.Popen[str]]


@pytest.fixture(scope="session")
def criu() -> Criu:
    found = find_criu(os.environ) if sys.platform == "linux" else None
    if found is None:
        if os.environ.get("REQUIRE_CRIU") == "1":
            pytest.fail(NONE_HERE)
        pytest.skip(NONE_HERE)
    return found


@pytest.fixture
def tree(criu: Criu, tmp_path: Path) -> HibernatableTree:
    folder = tmp_path / "tree"
    folder.mkdir(mode=0o700)
    return HibernatableTree(folder, criu)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a command with a pipe to what it prints; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", code]


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()

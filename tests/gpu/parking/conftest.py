"""Real processes on a pretended card whose memory can be parked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

Program = subprocess.Popen[str]
Start = Callable[..., Program]


@pytest.fixture
def start(parking: Any, parking_driver: Path, parking_card: Any) -> Iterator[Start]:
    """Starts programs that use the card; each has said its first line. All are killed in the end."""
    started: list[Program] = []

    def start(*words: str, **env: str) -> Program:
        program = subprocess.Popen(
            parking.command(parking_driver, *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=parking_card.env(**env),
        )  # fmt: skip
        started.append(program)
        assert line(program) == "0 0000"
        return program

    yield start
    for program in started:
        with suppress(ProcessLookupError):
            os.kill(program.pid, 9)
        program.communicate()


def ask(program: Program) -> None:
    """Have it do another step."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def line(program: Program) -> str:
    """What it says."""
    assert program.stdout is not None
    return program.stdout.readline().strip()

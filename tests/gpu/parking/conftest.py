"""Drivers that can park, and one that cannot; a pretended card; real processes on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import _module

Program = subprocess.Popen[str]
Start = Callable[..., Program]


@pytest.fixture(scope="session")
def parking_card() -> Any:
    """``fake_cuda/parking_card.py``."""
    path = Path(__file__).parents[1] / "fake_cuda" / "parking_card.py"
    return _module("fake_cuda_parking_card", path)


@pytest.fixture(scope="session")
def driver(
    needs_compiler: None, parking_card: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A driver as r580."""
    made: Path = parking_card.build(tmp_path_factory.mktemp("fake-driver"))
    return made


@pytest.fixture
def card(parking_card: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A card of 1 GiB that this process sees, too."""
    card = parking_card.Card(tmp_path / "card")
    monkeypatch.setenv("FAKE_CUDA_CARD", str(card.folder))
    return card


@pytest.fixture
def start(parking_card: Any, driver: Path, card: Any) -> Iterator[Start]:
    """Starts programs that use the card; each has said its first line. All are killed in the end."""
    started: list[Program] = []

    def start(*words: str, **env: str) -> Program:
        program = subprocess.Popen(
            parking_card.command(driver, *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=card.env(**env),
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

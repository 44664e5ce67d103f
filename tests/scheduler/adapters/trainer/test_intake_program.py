"""The program that hands TrainJobs in: it answers its probe while it serves, and ends well."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from pathlib import Path

import pytest

from gpucommons.scheduler.adapters.trainer import __main__ as program
from tests.harness.free_ports import free_port


def test_the_probe_is_answered_while_it_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port, answers = free_port(), []

    def ask() -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            return bytes(answer.read())

    async def serve(_file: Path, _told: program.OperatorSettings) -> None:
        answers.append(await asyncio.to_thread(ask))

    monkeypatch.setattr(program, "serve", serve)
    words = ["--settings", str(tmp_path / "x.yaml"), "--scheduler-url", "http://127.0.0.1:1"]
    monkeypatch.setattr(sys, "argv", ["trainer", *words, "--health-port", str(port)])
    assert program.main() == 0
    assert answers == [b'{"ok":true}\n']

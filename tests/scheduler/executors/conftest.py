"""A local executor on this machine, with a home of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def executor(tmp_path: Path, home: Path) -> Iterator[LocalExecutor]:
    made = LocalExecutor(
        LocalSettings(
            state_dir=tmp_path / "state",
            home_of=lambda _user: home,
            nodes=tuple,
            snapshot_path=lambda sha256: tmp_path / f"{sha256}.tar",
            environ={"PATH": os.environ["PATH"], "SERVICE_SECRET": "hidden"},
            max_log_bytes=4096,
        )
    )
    yield made
    made.close()

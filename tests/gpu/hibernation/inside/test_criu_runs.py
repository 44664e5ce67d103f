"""CRIU whose time is over is asked to let go of what it holds, and not killed while it does."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.inside import criu_runs, pid_one, saving
from gpucommons.gpu.hibernation.inside.criu_runs import Patience
from gpucommons.gpu.hibernation.inside.gpu_memory import OnHost
from gpucommons.gpu.hibernation.inside.tree_settings import TreeSettings

#: Goes on for a while after it may write no more, as CRIU does on a busy machine.
_SLOW = """
import pathlib, resource, sys, time
while resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0:
    time.sleep(0.01)
time.sleep(float(sys.argv[2]))
pathlib.Path(sys.argv[1]).touch()
sys.exit(1)
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root has rights to hand on"
)


def _settings(folder: Path, has_let_go: Path, needs_s: float) -> TreeSettings:
    command = (sys.executable, "-c", _SLOW, str(has_let_go), str(needs_s))
    return TreeSettings(folder=folder, wake=False, command=(), criu=command)


def test_one_that_takes_long_to_let_go_is_waited_for(tmp_path: Path) -> None:
    has_let_go = tmp_path / "has-let-go"
    settings = _settings(tmp_path, has_let_go, 3)
    begun = time.monotonic()

    done = criu_runs.criu(settings, ["dump"], tmp_path, Patience(timeout_s=0.1))

    assert done.late
    assert not done.ok
    assert has_let_go.exists()
    assert time.monotonic() - begun < 60


def test_it_is_not_waited_for_beyond_the_end_that_was_said(tmp_path: Path) -> None:
    has_let_go = tmp_path / "has-let-go"
    settings = _settings(tmp_path, has_let_go, 15)
    patience = Patience(timeout_s=0.1, ends_at_s=time.monotonic() + 0.5)

    done = criu_runs.criu(settings, ["dump"], tmp_path, patience)

    assert done.late
    assert done.seconds < 15
    assert not has_let_go.exists()


def test_a_save_asks_for_an_end_after_its_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float]] = []

    def criu(_s: object, _a: object, _i: object, patience: Patience, **_: object) -> criu_runs.Run:
        asked.append((patience.timeout_s, patience.ends_at_s - time.monotonic()))
        return criu_runs.Run(ok=False, seconds=patience.timeout_s, late=True)

    monkeypatch.setattr(criu_runs, "criu", criu)
    monkeypatch.setattr(saving.checks_before_save, "mapped_slice", lambda: None)
    monkeypatch.setattr(saving.checks_before_save, "unsavable_process", lambda: None)
    monkeypatch.setattr(saving, "_go_on", lambda: None)
    settings = _settings(tmp_path, tmp_path, 0)
    bounds = pid_one._bounds({"save_within_s": 100, "let_go_s": 50})

    told = saving.save(settings, os.getpid(), pipes={}, bounds=bounds, on_host=OnHost())

    assert "refused" in told
    [(timeout_s, let_go_by_s)] = asked
    assert timeout_s == pytest.approx(100, abs=20)
    assert let_go_by_s == pytest.approx(150, abs=20)

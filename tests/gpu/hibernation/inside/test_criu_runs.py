"""CRIU whose time is over is asked to let go of what it holds, and not killed while it does."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.inside import criu_runs
from gpucommons.gpu.hibernation.inside.tree_settings import TreeSettings

#: Goes on for a while after it may write no more, as CRIU does on a busy machine.
_SLOW = """
import pathlib, resource, sys, time
while resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0:
    time.sleep(0.01)
time.sleep(3)
pathlib.Path(sys.argv[1]).touch()
sys.exit(1)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root has rights to hand on"
)
def test_one_that_takes_long_to_let_go_is_waited_for(tmp_path: Path) -> None:
    has_let_go = tmp_path / "has-let-go"
    settings = TreeSettings(
        folder=tmp_path,
        wake=False,
        command=(),
        criu=(sys.executable, "-c", _SLOW, str(has_let_go)),
    )
    begun = time.monotonic()

    done = criu_runs.criu(settings, ["dump"], tmp_path, timeout_s=0.1)

    assert done.late
    assert not done.ok
    assert has_let_go.exists()
    assert time.monotonic() - begun < 60

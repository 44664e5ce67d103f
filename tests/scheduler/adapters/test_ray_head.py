"""What a cell begins beside its kernel for Ray is gone when the cell does not get far."""

from __future__ import annotations

import io
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from gpucommons.scheduler.adapters.ray import cluster


def test_a_head_that_is_not_waited_for_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    head: Any = SimpleNamespace(stdin=io.StringIO(), stdout=SimpleNamespace(readline=interrupted))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: head)
    with pytest.raises(KeyboardInterrupt):
        cluster._started("127.0.0.1:1")
    assert head.stdin.closed

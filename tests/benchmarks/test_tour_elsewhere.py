"""The tour's plays as other accounts: their figures come back as the tour wrote them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.tour import elsewhere
from benchmarks.tour.timeline import TourFailedError


def test_figures_of_each_play_stand_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def played(words: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        results.write(Path(words[-1]), [{"rows": ["D9"], "without": "--kept" in words}])
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", played)

    found = elsewhere.play({"one": ("--kept",), "other": ()})

    assert found == {
        "one": {"rows": ["D9"], "without": True},
        "other": {"rows": ["D9"], "without": False},
    }


def test_a_play_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 1))

    with pytest.raises(TourFailedError, match="one: a row does not hold"):
        elsewhere.play({"one": ()})

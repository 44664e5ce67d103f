"""What the tours wait for has come when it is there: figures and checks rest on it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.tour.timeline import TourFailedError, wait_for


@pytest.mark.parametrize("nothing", [None, False, [], {}, ""])
def test_what_is_empty_is_waited_for(nothing: Any) -> None:
    answers = iter([nothing, nothing, ["step 1"]])
    assert wait_for("a line", lambda: next(answers), every_s=0) == ["step 1"]


@pytest.mark.parametrize("nothing", [None, False, []])
def test_what_never_comes_is_named(nothing: Any) -> None:
    with pytest.raises(TourFailedError, match="a line: not within 0 s"):
        wait_for("a line", lambda: nothing, timeout_s=0, every_s=0)


def test_a_nought_is_an_answer() -> None:
    assert wait_for("seconds", lambda: 0.0, timeout_s=0) == 0

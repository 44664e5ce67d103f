"""What people are told about one wait: a window and how right such windows were, or why none."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.core.counterfactuals import Way
from gpucommons.scheduler.core.types import Millis, TeamName
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.windows import (
    Calibration,
    Unknown,
    Window,
    calibrated,
    said_from,
    said_to,
)

_WHY_NOT = {
    Unknown.HISTORY: "too little is known about how long the work in its way runs",
    Unknown.NOT_IN_SIGHT: "not in sight within two weeks",
    Unknown.CALIBRATION: "past estimates were wrong too often",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """When a wait ends if nothing ends before its time limit."""

    #: From the forecast's ``made_ms``, rounded up as people speak.
    length_ms: int
    #: Whose time limit that is; None where the one who waits may not know.
    holder: str | None

    @property
    def text(self) -> str:
        """``at the latest in about 2 h, when digits-7's time limit ends``."""
        length = words.span(self.length_ms, self.length_ms)
        return f"at the latest in {length}, when {self.holder or 'another job'}'s time limit ends"


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """The likely start of one waiting workload."""

    made_ms: Millis
    #: Lengths from ``made_ms``, rounded as people speak; None where it is unknown.
    window: Window | None = None
    unknown: Unknown | None = None
    #: Where it is unknown and a time limit says at least this.
    bound: Bound | None = None
    #: Teams whose notebooks are all that it waits for without an end in sight.
    notebooks_of: tuple[TeamName, ...] = ()
    #: Where it is unknown: it would start after so long if what is idle stays so and is returned.
    #: No promise, as an idle notebook may be used again.
    if_idle_ms: int | None = None
    #: Of ten past windows of such waits, so many were right; None before that can be said.
    right_of_ten: int | None = None
    #: Changes with which it would start now.
    ways: tuple[Way, ...] = ()

    @property
    def text(self) -> str:
        """One sentence: ``Likely 10–25 min (past estimates right 8 of 10).``."""
        if self.window is None:
            why = _behind(self.notebooks_of) or _WHY_NOT[self.unknown or Unknown.HISTORY]
            bound = "" if self.bound is None else f"; {self.bound.text}"
            return f"Likely start unknown: {why}{self._if_idle()}{bound}."
        past = (
            ""
            if self.right_of_ten is None
            else f" (past estimates right {self.right_of_ten} of 10)"
        )
        return f"Likely {words.span(self.window.from_ms, self.window.to_ms)}{past}."

    def _if_idle(self) -> str:
        if self.if_idle_ms is None:
            return ""
        return f"; in {words.span(self.if_idle_ms, self.if_idle_ms)} if what is idle stays idle"


def _behind(teams: tuple[TeamName, ...]) -> str:
    """``nlp's notebooks hold GPUs …``; empty where no team is named."""
    owners = " and ".join(f"{team}'s" for team in teams)
    return f"{owners} notebooks hold the GPUs for as long as they are used" if owners else ""


def told(
    raw: Window | None, calibration: Calibration, made_ms: Millis, *, endless: bool
) -> Forecast:
    """What to say, from what the futures gave and how right they were before."""
    if raw is None:
        unknown = Unknown.HISTORY if endless else Unknown.NOT_IN_SIGHT
        return Forecast(made_ms=made_ms, unknown=unknown)
    if calibration.off:
        return Forecast(made_ms=made_ms, unknown=Unknown.CALIBRATION)
    window = window_to_show(raw, calibration)
    return Forecast(made_ms=made_ms, window=window, right_of_ten=calibration.right_of_ten)


def window_to_show(raw: Window, calibration: Calibration) -> Window:
    """The window as people read it, were it shown."""
    window = calibrated(raw, calibration)
    from_ms, to_ms = said_from(window.from_ms), said_to(window.to_ms)
    return Window(from_ms=from_ms, median_ms=window.median_ms, to_ms=max(from_ms, to_ms))

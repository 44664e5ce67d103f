"""What people are told about one wait: a window and how right such windows were; a wide range and how
little it rests on; or why there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import (
    Millis,
    Reason,
    ReasonClass,
    TeamName,
    WorkloadId,
)
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.estimating import Lengths
from gpucommons.scheduler.forecast.windows import (
    HORIZON_MS,
    Basis,
    Calibration,
    Unknown,
    calibrated,
    open_window,
    raw_window,
    said_from,
    said_to,
    widest,
)
from gpucommons.scheduler.store.estimates import Window

#: Of who waits for one of these, what was submitted would have to change.
_NEVER = frozenset({ReasonClass.NEVER, ReasonClass.KIND, ReasonClass.MISCONFIGURED})
#: Where no end of others' work has to do with it.
_NOT_FOR_OTHERS = {
    Unknown.NEVER: "It does not start as it was submitted.",
    Unknown.NODES: "Likely start unknown: nobody knows when its nodes take work again.",
    Unknown.POLICY: "Likely start unknown: a rule or the budget of its team keeps it waiting.",
}
_TOO_LITTLE = "too little is known about how long the work in its way runs"


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
    #: What the window rests on.
    basis: Basis = Basis.KNOWN
    unknown: Unknown | None = None
    #: Where little is known and a time limit says at least this.
    bound: Bound | None = None
    #: Teams whose notebooks are all that it waits for without an end in sight.
    notebooks_of: tuple[TeamName, ...] = ()
    #: Where little is known: it would start after so long if what is idle stays so and is returned.
    #: No promise, as an idle notebook may be used again.
    if_idle_ms: int | None = None
    #: Of ten past windows of such waits, so many were right; None before that can be said.
    right_of_ten: int | None = None
    #: Changes with which it would start now.
    ways: tuple[Counterfactual, ...] = ()

    @property
    def span(self) -> str:
        """The window in a few words: ``10–25 min``, ``between 5 min and 3 h``; empty without one."""
        window = self.window
        if window is None:
            return ""
        if self.basis is Basis.KNOWN:
            return words.span(window.from_ms, window.to_ms)
        return words.wide(window.from_ms, window.to_ms, horizon_ms=HORIZON_MS)

    @property
    def note(self) -> str:
        """How far the window is to be trusted, in a few words; empty where that is not known yet."""
        if self.basis is Basis.WRONG:
            return "past estimates were often wrong"
        if self.basis is Basis.THIN:
            behind = _behind(self.notebooks_of)
            return f"few notebooks to judge by: {behind}" if behind else "few jobs to judge by"
        right = self.right_of_ten
        return "" if right is None else f"past estimates right {right} of 10"

    @property
    def text(self) -> str:
        """One sentence: ``Likely 10–25 min (past estimates right 8 of 10).``."""
        bound = "" if self.bound is None else f"; {self.bound.text}"
        if self.window is None:
            if self.unknown is Unknown.NOT_IN_SIGHT:
                return f"Likely not within two weeks{bound}."
            if self.unknown in _NOT_FOR_OTHERS:
                return _NOT_FOR_OTHERS[self.unknown]
            why = _behind(self.notebooks_of) or _TOO_LITTLE
            return f"Likely start unknown: {why}{self._if_idle()}{bound}."
        if self.basis is Basis.KNOWN:
            return f"Likely {self.span} ({self.note})." if self.note else f"Likely {self.span}."
        return f"Likely {self.span}, {self.note}{self._if_idle()}{bound}."

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
        return Forecast(made_ms=made_ms, window=_said(widest(raw)), basis=Basis.WRONG)
    window = window_to_show(raw, calibration)
    return Forecast(made_ms=made_ms, window=window, right_of_ten=calibration.right_of_ten)


def told_of(lengths: Lengths, workload_id: WorkloadId, calibration: Calibration) -> Forecast:
    """What to say of one wait. ``calibration`` is that of such waits, known or thin."""
    raw, thin = foreseen(lengths, workload_id)
    if raw is None or not thin:
        return told(raw, calibration, lengths.made_ms, endless=bool(lengths.endless))
    window = _said(widest(raw)) if calibration.off else window_to_show(raw, calibration)
    return Forecast(made_ms=lengths.made_ms, window=window, basis=Basis.THIN)


def bounded(said: Forecast, bound: Bound) -> Forecast:
    """The same with what time limits say: no range ends later than that."""
    window = said.window
    if window is not None and window.to_ms > bound.length_ms:
        from_ms = min(window.from_ms, words.rounded_down(bound.length_ms))
        window = replace(window, from_ms=from_ms, to_ms=bound.length_ms)
    return replace(said, window=window, bound=bound)


def in_view_of(said: Forecast, reason: Reason | None) -> Forecast:
    """The same; where its reason is that no end of others' work lets it start, that."""
    code = None if reason is None else reason.code
    if code is ReasonClass.NODES:
        unknown = Unknown.NODES
    elif code is ReasonClass.POLICY:
        unknown = Unknown.POLICY
    elif code in _NEVER:
        unknown = Unknown.NEVER
    else:
        return said
    return Forecast(made_ms=said.made_ms, unknown=unknown, ways=said.ways)


def foreseen(lengths: Lengths, workload_id: WorkloadId) -> tuple[Window | None, bool]:
    """What the futures gave for one wait, and whether that rests on typical run times."""
    raw = raw_window(lengths.waits[workload_id])
    if raw is not None:
        return raw, False
    return open_window(lengths.thin.get(workload_id, ())), True


def window_to_show(raw: Window, calibration: Calibration) -> Window:
    """The window as people read it, were it shown."""
    return _said(calibrated(raw, calibration))


def _said(window: Window) -> Window:
    from_ms, to_ms = said_from(window.from_ms), said_to(window.to_ms)
    return Window(from_ms=from_ms, median_ms=window.median_ms, to_ms=max(from_ms, to_ms))

"""How long things run: what ended runs say about one that runs, or has yet to run.

Runs that are still going count as well, as *at least so long* (product-limit estimate): without
them a history of a few days would know only the short runs, and promise too much.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import (
    Attempt,
    Kind,
    Millis,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
)
from gpucommons.scheduler.models.fields import base_name

#: Below so many ended runs their quantiles are noise: the tenth part of 20 is two runs.
MIN_ENDED = 20
#: So many must have run longer than the one in question already has.
MIN_AT_RISK = 5

_NEVER_RAN = frozenset({State.CANCELLED, State.FAILED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """Whose runs a run resembles: its family first, then its user's, its team's, all of a kind."""

    kind: Kind
    team: TeamName
    user: UserName
    family: str

    @property
    def circles(self) -> tuple[tuple[str, ...], ...]:
        """From the narrowest to the widest."""
        kind, team, user = str(self.kind), str(self.team), str(self.user)
        return ((kind, team, user, self.family), (kind, team, user), (kind, team), (kind,))


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A workload's time on its devices, all attempts together, and what it asked for."""

    like: Likeness
    ran_ms: int
    #: False: still going, so at least so long.
    ended: bool = True
    submitted_ms: Millis = Millis(0)
    #: What was asked, to be asked for again in a future; without what only a process needs.
    spec: Spec | None = None


def likeness(workload: Workload) -> Likeness:
    """What a workload resembles. ``digits-7`` is of the family ``digits``."""
    spec = workload.spec
    return Likeness(kind=spec.kind, team=spec.team, user=spec.owner, family=base_name(spec.name))


def ran_ms(workload: Workload, now_ms: Millis) -> int:
    """How long its attempts ran, the current one up to now."""
    return sum(attempt_ms(attempt, now_ms) for attempt in workload.attempts)


def attempt_ms(attempt: Attempt, now_ms: Millis) -> int:
    """How long one attempt ran; a lease's from its grant on."""
    since = attempt.reserved_ms if attempt.started_ms is None else attempt.started_ms
    return max(0, (now_ms if attempt.ended_ms is None else attempt.ended_ms) - since)


def run_of(workload: Workload, now_ms: Millis) -> Run | None:
    """What a workload teaches; None for one that never ran."""
    length = ran_ms(workload, now_ms)
    if not workload.attempts or (length == 0 and workload.state in _NEVER_RAN):
        return None
    return Run(
        like=likeness(workload),
        ran_ms=length,
        ended=is_final(workload),
        submitted_ms=workload.submitted_ms,
        spec=_slim(workload.spec),
    )


def _slim(spec: Spec) -> Spec:
    """The part of a request that the core decides on."""
    roles = tuple(replace(role, command=()) for role in spec.roles)
    return replace(spec, roles=roles, env={}, secrets={}, labels={}, snapshot=None)


class Curve:
    """The share of like runs that last longer than a time."""

    def __init__(self, runs: Iterable[tuple[int, bool]]) -> None:
        """From pairs of length and whether the run has ended."""
        ordered = sorted(runs)
        self._lengths = [length for length, _ in ordered]
        self.ended = sum(ended for _, ended in ordered)
        self._times: list[int] = []
        self._survive: list[float] = []
        share, at_risk = 1.0, len(ordered)
        for length, alike in groupby(ordered, key=lambda run: run[0]):
            group = [ended for _, ended in alike]
            if any(group):
                share *= 1 - sum(group) / at_risk
                self._times.append(length)
                self._survive.append(share)
            at_risk -= len(group)

    def at_risk(self, ran: int) -> int:
        """How many ran longer than this."""
        return len(self._lengths) - bisect_right(self._lengths, ran)

    def length_ms(self, ran: int, share: float) -> int | None:
        """The length that ``share`` of those that ran so long do not pass; None = longer than any
        that has ended.
        """
        first = bisect_right(self._times, ran)
        alive = self._survive[first - 1] if first else 1.0
        target = alive * (1 - share)
        low, high = first, len(self._times)
        while low < high:
            middle = (low + high) // 2
            if self._survive[middle] <= target:
                high = middle
            else:
                low = middle + 1
        return self._times[low] if low < len(self._times) else None


class History:
    """All runs that are known, in circles of likeness."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs: dict[tuple[str, ...], list[tuple[int, bool]]] = defaultdict(list)
        for run in runs:
            for circle in run.like.circles:
                self._runs[circle].append((run.ran_ms, run.ended))
        self._curves: dict[tuple[str, ...], Curve] = {}

    def curve(self, like: Likeness, ran: int) -> Curve | None:
        """The narrowest circle that knows enough about runs that lasted so long already."""
        for circle in like.circles:
            curve = self._curve(circle)
            if curve.ended >= MIN_ENDED and curve.at_risk(ran) >= MIN_AT_RISK:
                return curve
        return None

    def few(self, like: Likeness) -> tuple[int, ...]:
        """The lengths of the ended runs of the narrowest circle that has any."""
        for circle in like.circles:
            found = tuple(length for length, ended in self._runs.get(circle, ()) if ended)
            if found:
                return found
        return ()

    def _curve(self, circle: tuple[str, ...]) -> Curve:
        if circle not in self._curves:
            self._curves[circle] = Curve(self._runs.get(circle, ()))
        return self._curves[circle]

    def known(self, kind: Kind) -> int:
        """How many runs of a kind have ended."""
        return self._curve((str(kind),)).ended


def lengths(runs: Sequence[Run]) -> list[int]:
    """Lengths of the ended ones, for reports."""
    return sorted(run.ran_ms for run in runs if run.ended)

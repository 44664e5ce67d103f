"""How much longer one workload will hold its devices, from the best that is known of it.

Its own progress (so many steps of so many, at this pace) says more than others' runs; runs like it
say more than its time limit; a limit alone says only what cannot be. Where none of these is known,
what is typical stands in for it, for those alone who would otherwise be told nothing: what rests on
it is called a range with little to judge by.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import REPORTED, Millis, Workload
from gpucommons.scheduler.core.queue.run_time_limit import run_left
from gpucommons.scheduler.forecast.runs import Curve, History, attempt_ms, likeness, ran_ms
from gpucommons.scheduler.forecast.typical import Typical, typical

#: A pace is believed after so many steps.
_MIN_STEPS = 2
#: Paces change, runs fail or stop early: the rest may take so much less or more than it says.
_PACE_SPREAD = 0.1
#: Of notebooks that were told when they will be returned, so many are.
_RETURNED = 0.75


class Basis(StrEnum):
    """What an outlook rests on."""

    PROGRESS = "progress"
    HISTORY = "history"
    LIMIT = "limit"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """The rest of one workload's run, as a distribution."""

    basis: Basis
    #: Those of one group end early or late together: runs of one family do.
    group: str
    #: What it has done already and need not do again.
    done_ms: int = 0
    #: By its own pace.
    paced_ms: int | None = None
    curve: Curve | None = None
    #: Its attempt is stopped after so long.
    limit_ms: int | None = None
    #: An idle notebook is returned then, unless its user comes back.
    returned_ms: int | None = None
    #: What is typical, for where the rest says nothing; None where nothing will end it.
    typical: Typical | None = None

    def left_ms(self, share: float, *, thin: bool = False) -> int | None:
        """The time that it needs no longer than in ``share`` of the cases; None = not in sight.

        ``thin``: what is typical stands in where nothing else is known.
        """
        if self.returned_ms is not None:
            if share <= _RETURNED:
                return self.returned_ms
            share = (share - _RETURNED) / (1 - _RETURNED)
        known = [ms for ms in (self._left(share), self.limit_ms) if ms is not None]
        if not known and thin and self.typical is not None:
            return self.typical.left_ms(share)
        return min(known, default=None)

    def _left(self, share: float) -> int | None:
        if self.paced_ms is not None:
            return round(self.paced_ms * (1 + _PACE_SPREAD * (2 * share - 1)))
        if self.curve is not None:
            length = self.curve.length_ms(self.done_ms, share)
            return None if length is None else length - self.done_ms
        if self.limit_ms is not None:
            # Any time up to the limit is as good as any other.
            return round(self.limit_ms * share)
        return None


def outlook(workload: Workload, cluster: Cluster, history: History) -> Outlook:
    """What is known of the rest of a workload's run."""
    now_ms = cluster.now_ms
    if _on_lost_node(workload, cluster):
        return Outlook(basis=Basis.NOTHING, group=workload.workload_id)
    limit_ms = _limit_left(workload, cluster)
    paced_ms = _paced_left(workload, now_ms)
    if paced_ms is not None:
        group = workload.workload_id  # its own pace owes nothing to others
        return Outlook(basis=Basis.PROGRESS, group=group, paced_ms=paced_ms, limit_ms=limit_ms)
    done_ms = _done(workload, now_ms)
    like = likeness(workload)
    curve = history.curve(like, done_ms)
    few = history.few(like)
    basis = Basis.HISTORY if curve is not None else Basis.NOTHING
    if curve is None and limit_ms is not None:
        basis = Basis.LIMIT
    return Outlook(
        basis=basis,
        group="/".join(like.circles[0]),
        done_ms=done_ms,
        curve=curve,
        limit_ms=limit_ms,
        returned_ms=returned_left(workload, now_ms),
        typical=typical(workload.spec.kind, few, done_ms, limit_ms),
    )


def _on_lost_node(workload: Workload, cluster: Cluster) -> bool:
    """What ran on a lost node counts as running until an admin fences it."""
    placements = () if workload.current is None else workload.current.placements
    nodes = (cluster.nodes.get(placement.node_id) for placement in placements)
    return any(node is not None and node.state is NodeState.LOST for node in nodes)


def _done(workload: Workload, now_ms: Millis) -> int:
    """Work that stands: what runs now, and what was saved before it."""
    current = workload.current
    if workload.checkpoint is not None:
        return ran_ms(workload, now_ms)
    return 0 if current is None else attempt_ms(current, now_ms)


def _paced_left(workload: Workload, now_ms: Millis) -> int | None:
    """The steps that are left, at the pace of the attempt that reported them."""
    progress = workload.progress
    if progress is None or progress.total_steps is None:
        return None
    reporting = [
        (attempt, attempt.started_ms)
        for attempt in workload.attempts
        if attempt.started_ms is not None and attempt.started_ms < progress.at_ms
    ]
    if not reporting:
        return None
    attempt, started_ms = reporting[-1]
    if progress.source != REPORTED and attempt.number > 1 and attempt.resumed_from is None:
        # It may have gone on from files of its own, from a step that nobody knows.
        return None
    steps = progress.step - (0 if attempt.resumed_from is None else attempt.resumed_from.step)
    if steps < _MIN_STEPS:
        return None
    spent_ms = progress.at_ms - started_ms
    if attempt is workload.current:
        left_ms = (progress.total_steps - progress.step) * spent_ms // steps
        return max(0, left_ms - (now_ms - progress.at_ms))
    saved = 0 if workload.checkpoint is None else workload.checkpoint.step
    return max(0, (progress.total_steps - saved) * spent_ms // steps)


def _limit_left(workload: Workload, cluster: Cluster) -> int | None:
    left = None if is_lease(workload) else run_left(cluster, workload)
    attempt = workload.current
    if left is None or attempt is None or attempt.started_ms is None:
        return left
    return max(0, attempt.started_ms + left - cluster.now_ms)


def returned_left(
    workload: Workload, now_ms: Millis, idle_after_ms: int | None = None
) -> int | None:
    """When an idle notebook is returned unless it is used: as announced, else by the rule.

    Without a rule, only what was announced: its user may be back long before the rule says so.
    """
    idleness = workload.idleness
    if workload.current is None or idleness is None:
        return None
    if idleness.returns_ms is not None:
        return max(0, idleness.returns_ms - now_ms)
    if idleness.idle_since_ms is None or idle_after_ms is None:
        return None
    ruled_ms = max(idleness.idle_since_ms + idle_after_ms, idleness.kept_until_ms)
    return max(0, ruled_ms - now_ms)

"""All futures of a cluster, played one cycle at a time, so that whoever plays can pace it.

The real core decides in every one of them, so a forecast cannot disagree with the policy; only the
ends of runs are made up. Time is fine now and coarse later: nobody is told seconds of next week,
and a future costs at most a few hundred cycles, however much happens in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_final, is_lease
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, TeamName, WorkloadId
from gpucommons.scheduler.forecast.arrivals import Arrival, Arriving, nothing_arrives
from gpucommons.scheduler.forecast.futures import FUTURES, shared
from gpucommons.scheduler.forecast.remaining_time import Basis, Outlook, outlook, returned_left
from gpucommons.scheduler.forecast.runs import History
from gpucommons.scheduler.forecast.windows import HORIZON_MS, raw_window
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation

_HOUR_MS = 3_600_000
#: What a restart costs is in the history of those that were restarted.
_HERE = Conditions(restart_ms=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How far and how finely to look."""

    futures: int = FUTURES
    horizon_ms: int = HORIZON_MS
    #: Cycles of one future; the grid needs about 330 for two weeks.
    cycles: int = 350
    #: Ends that are closer together than this part of the time until then share a cycle.
    coarse: float = 0.04
    finest_ms: int = 1_000
    #: No cycle stands for more: a device whose run ended within it idles until it is over, and where runs
    #: are shorter than that, the futures get less done than the machines would.
    longest_ms: int = 4 * _HOUR_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedNode:
    """A node that an autoscaler was asked for and that takes no work yet."""

    since_ms: Millis
    #: It was missing when whoever leads now looked first: it may have been asked for before that.
    or_earlier: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class UpcomingNode:
    """A node that an autoscaler was asked for, and when it is likely to take work."""

    node: Node
    at_ms: Millis


#: Live workloads up to which a budget holds. Many runs average out by themselves: where hundreds
#: end, few futures differ, and their cycles cost more.
_BUDGETS = (
    (300, Budget()),
    (3_000, Budget(futures=5, cycles=180, coarse=0.1, finest_ms=10_000)),
)
_LARGEST = Budget(futures=3, cycles=60, coarse=0.2, finest_ms=60_000, longest_ms=16 * _HOUR_MS)


def budget_for(cluster: Cluster) -> Budget:
    """As much as a round may cost on a cluster of this size."""
    live = len(cluster.workloads)
    return next((budget for most, budget in _BUDGETS if live <= most), _LARGEST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """How long everybody who waits will wait, in each future; None = longer than was looked."""

    made_ms: Millis
    waits: Mapping[WorkloadId, tuple[int | None, ...]] = field(default_factory=dict)
    #: Workloads of whose end nothing is known: who waits for them waits for ever, here.
    endless: frozenset[WorkloadId] = frozenset()
    #: For those of whom that says no end: the same with typical run times for what is not known.
    thin: Mapping[WorkloadId, tuple[int | None, ...]] = field(default_factory=dict)


def waiting(cluster: Cluster) -> tuple[WorkloadId, ...]:
    """Who waits for devices."""
    workloads = cluster.workloads.values()
    return tuple(sorted(w.workload_id for w in workloads if w.state in WAITING_STATES))


def estimate(  # noqa: PLR0913 - what is known of the future
    cluster: Cluster,
    history: History,
    budget: Budget,
    *,
    wanted: Sequence[WorkloadId] | None = None,
    arriving: Arriving = nothing_arrives,
    upcoming: Sequence[UpcomingNode] = (),
) -> Generator[None, None, Lengths]:
    """Play all futures; yields after every cycle, returns the lengths of everybody wanted.

    Whoever has no end in sight in them is played again, with what is typical for whatever has no
    known end: those who have one are told nothing that rests on it.
    """
    wanted = waiting(cluster) if wanted is None else wanted
    outlooks = {
        one.workload_id: outlook(one, cluster, history)
        for one in cluster.workloads.values()
        if not is_final(one)
    }
    all_futures = _Futures(
        cluster=cluster, outlooks=outlooks, budget=budget, arriving=arriving, upcoming=upcoming
    )
    waits = yield from all_futures.played(wanted, thin=False)
    without = [one for one in wanted if raw_window(waits[one]) is None]
    thin = (yield from all_futures.played(without, thin=True)) if without else {}
    return Lengths(
        made_ms=cluster.now_ms,
        waits=waits,
        endless=frozenset(i for i, one in outlooks.items() if one.basis is Basis.NOTHING),
        thin=thin,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Futures:
    """One cluster, to be played on as often as there are futures."""

    cluster: Cluster
    outlooks: Mapping[WorkloadId, Outlook]
    budget: Budget
    arriving: Arriving
    upcoming: Sequence[UpcomingNode]

    def played(
        self, wanted: Sequence[WorkloadId], *, thin: bool
    ) -> Generator[None, None, Mapping[WorkloadId, tuple[int | None, ...]]]:
        """The lengths of the waits of everybody wanted, one per future."""
        starts: list[Mapping[WorkloadId, Millis]] = []
        now_ms, in_sight = self.cluster.now_ms, wanted
        for number in range(self.budget.futures):
            if not in_sight:
                break
            ends = self._ends(number, thin=thin)
            future = Simulation(self.cluster.apart(), now_ms=now_ms, conditions=_HERE, left_ms=ends)
            _bring(future, self.upcoming)
            arrivals = iter(self.arriving(number))
            starts.append((yield from _starts(future, in_sight, self.budget, arrivals)))
            # The end of a window needs a start in each future; a thin one is content with most.
            in_sight = wanted if thin and starts[-1] else tuple(starts[-1])
        starts += [{}] * (self.budget.futures - len(starts))
        return {one: tuple(_length(found.get(one), now_ms) for found in starts) for one in wanted}

    def _ends(self, number: int, *, thin: bool) -> dict[WorkloadId, int | None]:
        """How much longer everything runs, in this future."""
        futures = self.budget.futures
        return {
            i: one.left_ms(shared(i, one.group, number, futures), thin=thin)
            for i, one in self.outlooks.items()
        }


def _starts(
    future: Simulation,
    wanted: Sequence[WorkloadId],
    budget: Budget,
    coming: Iterator[Arrival],
) -> Generator[None, None, Mapping[WorkloadId, Millis]]:
    """Play one future until everybody wanted has started."""
    from_ms, missing = future.now_ms, list(wanted)
    found: dict[WorkloadId, Millis] = {}
    _submit(future, coming, from_ms)
    for _ in range(budget.cycles):
        next_ms = future.next_ms()
        if not missing or next_ms is None or next_ms > from_ms + budget.horizon_ms:
            break
        gap_ms = max(budget.finest_ms, round((next_ms - from_ms) * budget.coarse))
        gap_ms = min(gap_ms, budget.longest_ms)
        # The first cycle is now: what the cluster's own next cycle would do.
        step_ms = Millis(next_ms + (gap_ms if next_ms > from_ms else 0))
        _submit(future, coming, step_ms)
        future.step(step_ms)
        yield
        started = [one for one in missing if _holds(future.cluster, one)]
        # Where nothing tells, at the first that the cycle stands for.
        found.update({one: future.vacated.begun.get(one, next_ms) for one in started})
        missing = [one for one in missing if one not in found]
    return found


def _bring(future: Simulation, upcoming: Sequence[UpcomingNode]) -> None:
    for one in upcoming:
        future.at(max(one.at_ms, future.now_ms), one.node)


def _submit(future: Simulation, coming: Iterator[Arrival], until_ms: Millis) -> None:
    """Submit what comes by then and the next one, by which the future knows when it goes on.

    All at once would cost more than most futures, which end long before most arrivals.
    """
    for one in coming:
        future.submit(one.at_ms, one.spec, one.run_ms)
        if one.at_ms > until_ms:
            return


def _holds(cluster: Cluster, workload_id: WorkloadId) -> bool:
    workload = cluster.workloads.get(workload_id)
    return workload is None or workload.current is not None


def _length(start_ms: Millis | None, now_ms: Millis) -> int | None:
    return None if start_ms is None else start_ms - now_ms


def if_nothing_ends_early(
    cluster: Cluster,
    wanted: Sequence[WorkloadId],
    budget: Budget,
    *,
    idle_after_ms: int | None = None,
    upcoming: Sequence[UpcomingNode] = (),
) -> Generator[None, None, Mapping[WorkloadId, Millis]]:
    """The starts if everything runs up to its limit; who waits for what has none is left out.

    With a rule for idle notebooks: also those if what is idle now stays so until it is returned.
    """
    limits = _limits(cluster, idle_after_ms)
    future = Simulation(cluster.apart(), now_ms=cluster.now_ms, conditions=_HERE, left_ms=limits)
    _bring(future, upcoming)
    return (yield from _starts(future, wanted, budget, iter(())))


def _limits(cluster: Cluster, idle_after_ms: int | None) -> dict[WorkloadId, int | None]:
    nothing = History(())
    live = [one for one in cluster.workloads.values() if not is_final(one)]
    limits = {one.workload_id: outlook(one, cluster, nothing).limit_ms for one in live}
    return limits if idle_after_ms is None else {**limits, **returns(cluster, idle_after_ms)}


def returns(cluster: Cluster, idle_after_ms: int) -> Mapping[WorkloadId, int]:
    """After how long idle notebooks are returned, if they stay idle."""
    live = (one for one in cluster.workloads.values() if is_lease(one) and not is_final(one))
    found = {one.workload_id: returned_left(one, cluster.now_ms, idle_after_ms) for one in live}
    return {one: left_ms for one, left_ms in found.items() if left_ms is not None}


def at_a_limit(
    cluster: Cluster, starts: Mapping[WorkloadId, Millis], *, idle_after_ms: int | None = None
) -> Mapping[WorkloadId, WorkloadId]:
    """Of those starts, the ones at the very moment at which what runs now is at its limit."""
    limits = _limits(cluster, idle_after_ms)
    ends = {
        cluster.now_ms + left: one
        for one, left in limits.items()
        if left is not None and cluster.workloads[one].current is not None
    }
    return {one: ends[start] for one, start in starts.items() if start in ends}


def endless_notebooks(
    cluster: Cluster, wanted: WorkloadId, lengths: Lengths
) -> tuple[TeamName, ...]:
    """Whose notebooks are all without a known end where one waits; none where jobs are, too.

    A notebook waits for those of its own team alone: others are never in its way, and jobs go.
    """
    waits = cluster.workloads[wanted]
    pools = frozenset(waits.spec.pools)
    holding = [
        one
        for one in (cluster.workloads[i] for i in sorted(lengths.endless) if i != wanted)
        if one.current is not None and not pools.isdisjoint(one.spec.pools)
    ]
    if is_lease(waits):
        holding = [one for one in holding if is_lease(one) and one.spec.team == waits.spec.team]
    if not all(is_lease(one) for one in holding):
        return ()
    return tuple(sorted({one.spec.team for one in holding}))

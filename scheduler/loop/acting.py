"""The loop's hands: carries decisions to executors and brings back what they see.

Whatever an executor does wrong stays here. Acts are repeated every cycle while they are due, so an
act that failed is simply tried again, and the log says so once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.actions import (
    Act,
    AnnounceStop,
    RestartServer,
    SignalAttempt,
    SpareAttempt,
    StartAttempt,
    StartServer,
    StopServer,
)
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    Cluster,
    MemoryReported,
    NodesObserved,
    Observation,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    Millis,
    Parked,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.executors.base import Executor, Found, Launch

_LOG = logging.getLogger(__name__)

#: Nodes change seldom, and asking for them costs a call to each machine.
NODES_EVERY_MS = 5_000
_NODES_AGAIN_MS = 3_600_000
#: From this HTTP status on it was our failure, below it was a refusal.
_OUR_FAILURE = 500
_MAX_COMPLAINTS = 1_000
_OF_SERVERS = (StartServer, StopServer, RestartServer)

#: Carries out what the hub must do for a lease.
ServerActs = Callable[[StartServer | StopServer | RestartServer, Workload], None]

#: Workload and current attempt of every attempt that is not over.
Current = Mapping[AttemptId, tuple[Workload, Attempt]]
#: Parked notebooks, each with what it goes back to.
ParkedLeases = Sequence[tuple[Workload, Parked]]


class _Remembered:
    """The answer about the cluster that was asked for last: every cycle asks several times."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[WorkloadId, Workload], Current, ParkedLeases] = ({}, {}, ())

    def of(self, workloads: Mapping[WorkloadId, Workload]) -> tuple[Current, ParkedLeases]:
        known, before, parked_before = self._last
        if known is workloads:
            return before, parked_before
        # Of a hundred thousand few have changed, and only those are looked at.
        was = known.get
        changed = [one for key, one in workloads.items() if was(key) is not one]
        touched = {one.workload_id for one in changed}
        if len(workloads) - len(touched - known.keys()) != len(known):
            touched |= known.keys() - workloads.keys()
        found = dict(before)
        for workload_id in touched:
            ended = known[workload_id].current if workload_id in known else None
            if ended is not None:
                found.pop(ended.attempt_id, None)
        parked = [one for one in parked_before if one[0].workload_id not in touched]
        for workload in changed:
            attempt = workload.current
            if attempt is not None:
                found[attempt.attempt_id] = (workload, attempt)
            elif workload.parked is not None:
                parked.append((workload, workload.parked))
        self._last = (workloads, found, parked)
        return found, parked


_REMEMBERED = _Remembered()


def current_attempts(cluster: Cluster) -> Current:
    """Every attempt that is not over."""
    return _REMEMBERED.of(cluster.workloads)[0]


def parked_leases(cluster: Cluster) -> ParkedLeases:
    """Notebooks whose servers live on and hold no device."""
    return _REMEMBERED.of(cluster.workloads)[1]


def executor_of(cluster: Cluster, attempt: Attempt) -> str | None:
    """Who runs an attempt: the executor of its nodes' pool."""
    for placement in attempt.placements:
        node = cluster.nodes.get(placement.node_id)
        pool = None if node is None else cluster.pools.get(node.pool)
        if pool is not None:
            return pool.executor
    return None


@dataclass(kw_only=True)
class Acting:
    """All executors, and what they were told and have told."""

    executors: Mapping[str, Executor]
    token_of: Callable[[AttemptId], str]
    api_url: str
    on_server_act: ServerActs
    #: Starts that were refused for good, to be observed as ended.
    _refused: list[AttemptEnded] = field(default_factory=list)
    _nodes: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    _nodes_due_ms: Millis = Millis(0)
    _nodes_again_ms: Millis = Millis(0)
    #: The last complaint about each thing, so that the log says it once.
    _complaints: dict[str, str] = field(default_factory=dict)

    # --- after a restart ---------------------------------------------------------------------

    def adopt(self, cluster: Cluster) -> tuple[AttemptEnded, ...]:
        """Let executors take over what runs; returns the ends of what is gone without a trace.

        An attempt that was still starting and left no trace is not gone: its start is repeated.
        """
        gone: list[AttemptEnded] = []
        # Of an earlier lead.
        self._refused.clear()
        self.look_again()
        for name, executor in self.executors.items():
            known = [
                attempt
                for workload, attempt in current_attempts(cluster).values()
                if not is_lease(workload) and executor_of(cluster, attempt) == name
            ]
            found = {live.attempt_id for live in executor.adopt(known)}
            gone += (
                AttemptEnded(
                    attempt_id=attempt.attempt_id,
                    exit_code=None,
                    text="It was gone when the scheduler came back",
                )
                for attempt in known
                if attempt.attempt_id not in found
                and attempt.state in (AttemptState.RUNNING, AttemptState.STOPPING)
            )
        return tuple(gone)

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """What executors find of attempts that began since then, whoever knows them."""
        return tuple(one for executor in self.executors.values() for one in executor.since(at_ms))

    # --- seeing ------------------------------------------------------------------------------

    def see(self, cluster: Cluster, now_ms: Millis) -> tuple[Observation, ...]:
        """What is new: of nodes where they changed, of attempts what the cluster does not know."""
        current = current_attempts(cluster)
        seen: list[Observation] = list(self._see_nodes(now_ms))
        for executor in self.executors.values():
            try:
                observed = executor.observe()
            except Exception as error:  # noqa: BLE001 - one executor must not stop the others
                self._complain(f"{executor.name} observes nothing", error)
                continue
            seen += (
                one
                for one in observed
                # Most are told again and again: that an attempt has begun, which is on record.
                if not (
                    type(one) is AttemptStarted
                    and (known := current.get(one.attempt_id)) is not None
                    and known[1].started_ms is not None
                )
                and self._is_news(executor, one, current)
            )
        seen += self._refused
        self._refused.clear()
        return tuple(seen)

    def _see_nodes(self, now_ms: Millis) -> Iterator[Observation]:
        if now_ms < self._nodes_due_ms:
            return
        self._nodes_due_ms = Millis(now_ms + NODES_EVERY_MS)
        # Nodes that are gone for long are forgotten when others are told, if nothing else changes.
        again = now_ms >= self._nodes_again_ms
        if again:
            self._nodes_again_ms = Millis(now_ms + _NODES_AGAIN_MS)
        for name, executor in self.executors.items():
            try:
                nodes = executor.nodes()
            except Exception as error:  # noqa: BLE001 - not knowing is not losing a node
                self._complain(f"{name} does not know its nodes", error)
                continue
            if self._nodes.get(name) != nodes or again:
                self._nodes[name] = nodes
                yield NodesObserved(executor=name, nodes=nodes)

    def _is_news(self, executor: Executor, seen: Observation, current: Current) -> bool:
        if isinstance(seen, NodesObserved):
            return True
        workload_attempt = current.get(seen.attempt_id)
        if workload_attempt is None:
            # Committed before a crash, but not yet forgotten.
            if isinstance(seen, AttemptEnded):
                self._forget(executor, seen.attempt_id)
            return False
        if isinstance(seen, AttemptStarted):
            return workload_attempt[1].started_ms is None
        if isinstance(seen, MemoryReported):
            known = workload_attempt[1].hibernation
            # Of one that cannot be saved nobody wants to know it.
            if known is None or known.hindrance:
                return False
            return known.memory_mib != seen.memory_mib
        return True

    def look_again(self) -> None:
        """What was seen last was not committed: tell everything anew."""
        self._nodes.clear()
        self._nodes_due_ms = Millis(0)

    # --- after a commit ----------------------------------------------------------------------

    def forget_ended(self, seen: Sequence[Observation], before: Cluster, after: Cluster) -> None:
        """Executors may drop what is now on record as ended."""
        ended = {one.attempt_id for one in seen if isinstance(one, AttemptEnded)}
        if not ended:
            return
        # In this order: the last answer is remembered, and asked for again in this cycle.
        known = current_attempts(before)
        still = current_attempts(after)
        for attempt_id in ended - still.keys():
            if attempt_id not in known:
                continue
            executor = self.executors.get(executor_of(after, known[attempt_id][1]) or "")
            if executor is not None:
                self._forget(executor, attempt_id)

    def _forget(self, executor: Executor, attempt_id: AttemptId) -> None:
        try:
            executor.forget(attempt_id)
        except Exception as error:  # noqa: BLE001 - it will be reported, and forgotten, again
            self._complain(f"{executor.name} cannot forget {attempt_id}", error)

    def perform(self, acts: Sequence[Act], cluster: Cluster, now_ms: Millis) -> None:
        """Carry out what is due."""
        if not acts:
            return
        current = current_attempts(cluster)
        for act in acts:
            try:
                self._perform(act, cluster, current, now_ms)
            except Exception as error:  # noqa: BLE001 - due again in the next cycle
                self._complain(f"{act} failed", error)

    def _perform(self, act: Act, cluster: Cluster, current: Current, now_ms: Millis) -> None:
        if isinstance(act, _OF_SERVERS):
            self.on_server_act(act, cluster.workloads[act.workload_id])
            return
        workload, attempt = current[act.attempt_id]
        executor = self.executors.get(executor_of(cluster, attempt) or "")
        if executor is None:
            message = f"No executor runs {attempt.attempt_id}: its pool or node is unknown here."
            raise LookupError(message)
        match act:
            case StartAttempt():
                self._start(executor, workload, attempt)
            case AnnounceStop():
                executor.announce(attempt)
            case SpareAttempt():
                executor.spare(attempt)
            case SignalAttempt():
                executor.signal(attempt, now_ms=now_ms)

    def _start(self, executor: Executor, workload: Workload, attempt: Attempt) -> None:
        try:
            executor.start(
                Launch(
                    workload=workload,
                    attempt=attempt,
                    token_of=self.token_of,
                    api_url=self.api_url,
                )
            )
        except SchedulerError as error:
            if error.status >= _OUR_FAILURE:
                raise
            self._refused.append(
                AttemptEnded(
                    attempt_id=attempt.attempt_id,
                    exit_code=None,
                    start_failed=True,
                    text=str(error),
                )
            )

    def refused_something(self) -> bool:
        """Whether the next cycle has ends to hear of."""
        return bool(self._refused)

    def _complain(self, what: str, error: Exception) -> None:
        if len(self._complaints) > _MAX_COMPLAINTS:
            self._complaints.clear()
        if self._complaints.get(what) != str(error):
            self._complaints[what] = str(error)
            _LOG.error("%s: %s", what, error, exc_info=error)

    def rest(self) -> None:
        """Another replica leads: executors order nothing more."""
        for executor in self.executors.values():
            executor.rest()

    def close(self) -> None:
        """Let go of executors' threads; what runs keeps running."""
        for executor in self.executors.values():
            executor.close()

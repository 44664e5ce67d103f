"""Objects that no record stands behind: ended attempts' leftovers, and what another scheduler made.

A scheduler that was frozen may still make a Job for an attempt that its successor has ended. Its pods
wait behind the gate, which only the one that leads opens, until the Job is found here and removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable, Set
from functools import partial

from gpucommons.scheduler.core.model.types import AttemptId, Millis
from gpucommons.scheduler.executors.base import Found
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders, Turn
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import Trace
from gpucommons.scheduler.ids import made_ms

_LOG = logging.getLogger(__name__)

#: Beats between two searches.
_EVERY = 10


class Strangers:
    """Removes what nobody answers for. Used with the lock held."""

    def __init__(self, view: ClusterView, orders: Orders, requests: Requests) -> None:
        self._view = view
        self._orders = orders
        self._requests = requests
        self._beats = 0
        #: Seen by the last search: what is seen twice was not just being made.
        self._suspects: set[AttemptId] = set()

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """Attempts that began since then, of which the API has a Job."""
        cache = self._view.cache
        return tuple(
            _found(attempt_id, trace)
            for attempt_id in cache
            if made_ms(attempt_id) >= at_ms and (trace := cache.of(attempt_id)).jobs
        )

    def end(self, strangers: Iterable[AttemptId]) -> None:
        """End what nobody knows, at once."""
        for attempt_id in strangers:
            trace = self._view.cache.get(attempt_id)
            if trace is None:
                continue
            if _is_left(trace):
                if _is_live(trace):
                    _LOG.warning("attempt %s runs, but nobody knows it: it is removed", attempt_id)
                self._remove(attempt_id, trace)
            self._bury(attempt_id, trace)

    def clear_away(self, attempt_id: AttemptId) -> None:
        """Remove a stopped attempt's Job; one that ended by itself stays for its log."""
        trace = self._view.cache.get(attempt_id)
        if trace is None:
            return
        if _ended_by_itself(trace):
            self._view.cache.drop(attempt_id)
        else:
            self._remove_jobs(attempt_id, trace)

    def beat(
        self,
        known: Collection[AttemptId],
        buried: Container[AttemptId],
        current: Callable[[], Set[AttemptId]] | None,
    ) -> Set[AttemptId]:
        """Search now and then; returns attempts that are known here and not on record as live."""
        self._orders.tidy()
        self._beats += 1
        if self._beats % _EVERY:
            return frozenset()
        on_record = None if current is None else current()
        found = {
            attempt_id
            for attempt_id in self._view.cache
            if not (attempt_id in known if on_record is None else attempt_id in on_record)
            and (_is_left(trace := self._view.cache.of(attempt_id)) or trace.living())
        }
        if on_record is not None:
            # Of those that were fenced nothing may be left here but what is remembered.
            found |= {attempt_id for attempt_id in known if attempt_id not in on_record}
        certain, self._suspects = found & self._suspects, found
        for attempt_id in tuple(certain):
            if attempt_id in buried:
                # Its end is on record, and its removal was ordered: perhaps in vain.
                certain.discard(attempt_id)
                self.clear_away(attempt_id)
        self.end(certain)
        return certain

    def _remove(self, attempt_id: AttemptId, trace: Trace) -> None:
        self._remove_jobs(attempt_id, trace, Turn.NEW)
        for pod in trace.living():
            if not pod.deleting:
                hurry = partial(self._requests.hurry, pod, grace_s=1)
                self._orders.give((attempt_id, "remove", pod.uid), hurry, _told)

    def _remove_jobs(self, attempt_id: AttemptId, trace: Trace, turn: Turn = Turn.TIDY) -> None:
        for job in trace.jobs.values():
            if not job.deleting:
                work = partial(self._requests.delete_job, job.namespace, job.name)
                key = (attempt_id, "remove", job.name)
                self._orders.give(key, work, _told, turn=turn)

    def _bury(self, attempt_id: AttemptId, trace: Trace) -> None:
        """Remove pods of nodes that nobody hears of: not on record as live, so these are fenced."""
        for pod in trace.living():
            node = self._view.nodes.get(pod.node or "")
            if pod.deleting and pod.node is not None and (node is None or not node.ready):
                work = partial(self._requests.bury, pod)
                self._orders.give((attempt_id, "bury", pod.uid), work, _told)


def _found(attempt_id: AttemptId, trace: Trace) -> Found:
    job = next(iter(trace.jobs.values()))
    return Found(
        attempt_id=attempt_id,
        job_id=job.workload,
        name=f"a job of {job.owner}",
        running=bool(trace.living()),
        succeeded=all(one.finished == "Complete" for one in trace.jobs.values()),
    )


def _ended_by_itself(trace: Trace) -> bool:
    """Nobody stopped it, and nothing of it runs: its pods stay with their logs until its Job goes.

    The cluster may not have called its Job finished yet: it does so some time after the last pod.
    """
    unfinished = [job for job in trace.jobs.values() if job.finished is None]
    if not unfinished:
        return True
    if any(job.suspended or job.deleting for job in unfinished) or trace.living():
        return False
    return any(pod.uid not in trace.gone for pod in trace.pods.values())


def _is_left(trace: Trace) -> bool:
    """There is something of it to be removed that is not on its way out."""
    if _ended_by_itself(trace):
        return False
    if any(job.finished is None and not job.deleting for job in trace.jobs.values()):
        return True
    return any(not pod.deleting for pod in trace.living())


def _is_live(trace: Trace) -> bool:
    """It runs, or could: more than the Job of one that was stopped is there."""
    stopped = all(job.suspended or job.finished is not None for job in trace.jobs.values())
    return bool(trace.living()) or not stopped


def _told(error: ApiError | None) -> None:
    """The next search tries again."""

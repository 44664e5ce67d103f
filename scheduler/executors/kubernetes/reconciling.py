"""From what is wanted and what is seen to orders: the same after every event, call and restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpucommons.scheduler.core.model.types import Attempt, AttemptId
from gpucommons.scheduler.executors.kubernetes.api_server.connection import NOT_FOUND, ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders, Turn
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import is_refusal
from gpucommons.scheduler.executors.kubernetes.attempts import observed_state, sentences
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Failing, Seen
from gpucommons.scheduler.executors.kubernetes.attempts.records import Record
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import JobFiles
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import LayOut
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import Trace
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen, read_job

#: A kill time so much earlier than the pods' own grace gives is worth a request.
_EARLIER_MS = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Hands:
    """What a driver works with."""

    orders: Orders
    requests: Requests
    view: ClusterView
    files: JobFiles
    #: UUIDs that reservations hold for a worker; None while they do not hold all of it.
    devices_of: Callable[[Attempt, int], tuple[str, ...] | None]
    #: Called with the lock held after an order's answer: look again.
    again: Callable[[AttemptId], None]
    #: A worker is about to end: its log will go with it.
    before_end: Callable[[Attempt, int, PodSeen], None]
    now_ms: Callable[[], int]


class Driver:
    """Gives the orders that are due for one attempt. Used with the lock held."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    def drive(self, record: Record, trace: Trace | None) -> None:
        """Order what is due now."""
        if record.ended is not None:
            return
        seen = record.seen(trace)
        record.drop_refused(seen)
        if record.to_ask:
            self._ask(record, seen)
        elif record.to_suspend:
            self._stop(record, seen)
        elif record.laid_out:
            self._lift(record, seen)

    def is_busy(self, attempt_id: AttemptId) -> bool:
        """Whether an order that makes something is under way."""
        return self._hands.orders.flying((attempt_id, "make"))

    # --- starting ----------------------------------------------------------------------------

    def make(self, record: Record, plan: LayOut) -> bool:
        """Order that an attempt's objects be made; False where that was just refused, or is under way.

        Of an earlier lead, that is: its answer reaches no record of this one.
        """
        attempt_id = record.attempt.attempt_id
        hands = self._hands

        def work() -> None:
            hands.files.ready(plan.launch)
            made = hands.requests.make(plan)
            with hands.view.lock:
                for body in made:
                    job = read_job(body)
                    trace = hands.view.cache.of(attempt_id)
                    # The watch may have been faster, and know more.
                    if job is not None and job.name not in trace.jobs:
                        trace.jobs[job.name] = job

        def done(error: ApiError | None) -> None:
            with hands.view.lock:
                if error is None:
                    record.laid_out = True
                elif error.try_again:
                    record.due_again = True
                    return  # the loop asks again, not we at once
                else:
                    record.failing = Failing(sentences.refused(error.message))
                hands.again(attempt_id)

        return hands.orders.give((attempt_id, "make"), work, done, turn=Turn.NEW)

    def _ask(self, record: Record, seen: Seen) -> None:
        """Read its Jobs once more: they are watched beside its pods, and may be heard of later."""
        attempt_id, hands = record.attempt.attempt_id, self._hands
        namespace = record.namespace or next(iter(seen.pods.values())).namespace

        def work() -> None:
            found = {name: hands.requests.job(namespace, name) for name in seen.job_names}
            with hands.view.lock:
                trace = hands.view.cache.of(attempt_id)
                for name, body in found.items():
                    job = None if body is None else read_job(body)
                    if job is None:
                        trace.jobs.pop(name, None)
                    else:
                        trace.jobs[name] = job

        def done(error: ApiError | None) -> None:
            with hands.view.lock:
                record.asked = error is None or not error.try_again
                if record.asked:
                    hands.again(attempt_id)

        hands.orders.give((attempt_id, "ask"), work, done)

    def _lift(self, record: Record, seen: Seen) -> None:
        due = list(observed_state.to_lift(seen, record.lifted))
        devices = {rank: self._hands.devices_of(record.attempt, rank) for rank, _ in due}
        if any(found is None for found in devices.values()):
            record.due_again = True
            return
        for rank, pod in due:
            node = record.attempt.placements[rank].node_id
            work = partial(
                self._hands.requests.lift,
                pod,
                record.attempt,
                rank,
                self._hands.view.node_selector(node),
                devices[rank] or (),
            )
            if self._give(record, ("lift", pod.uid), work, partial(self._lifted, record, pod)):
                record.lifted.add(pod.uid)
            else:
                record.due_again = True

    def _lifted(self, record: Record, pod: PodSeen, error: ApiError | None) -> None:
        if error is None:
            return
        record.lifted.discard(pod.uid)
        if not error.try_again and error.status != NOT_FOUND:
            record.failing = Failing(sentences.refused(error.message), again=True)

    # --- stopping ----------------------------------------------------------------------------

    def _stop(self, record: Record, seen: Seen) -> None:
        if self.is_busy(record.attempt.attempt_id):
            return
        living = record.living(seen)
        for job in seen.job_names:
            found = seen.jobs.get(job)
            if found is None and (job in record.absent or record.namespace is None):
                record.absent.add(job)
            elif found is None or not (found.suspended or found.finished or found.deleting):
                of_job = [pod for pod in living if pod.job == job]
                grace_s = None if found is None else self._earlier(record, found.grace_s)
                self._suspend(record, job, of_job, grace_s)
        self._hurry(record, seen)

    def _hurry(self, record: Record, seen: Seen) -> None:
        """End what no Job ends, or not in time."""
        now_ms = self._hands.now_ms()
        late = record.kill_ms is not None and now_ms >= record.kill_ms
        record.pressed_ms = now_ms if late else None
        for pod in observed_state.to_hurry(seen, record.kill_ms, now_ms):
            key = (pod.uid, late)
            if key in record.hurried:
                continue
            left_ms = 0 if record.kill_ms is None else record.kill_ms - now_ms
            grace_s = max(1, -(-left_ms // 1000))
            work = partial(self._hands.requests.hurry, pod, grace_s=min(grace_s, pod.grace_s))
            then = partial(self._hurried, record, key)
            if self._give(record, ("hurry", pod.uid), work, then):
                # Else it was just refused, or is under way: it is due again.
                record.hurried.add(key)

    @staticmethod
    def _hurried(record: Record, key: tuple[str, bool], error: ApiError | None) -> None:
        if error is not None:
            record.hurried.discard(key)

    def _suspend(
        self, record: Record, job: str, living: list[PodSeen], grace_s: int | None
    ) -> None:
        for pod in living:
            if pod.started:
                self._hands.before_end(record.attempt, record.ranks[pod.job, pod.index], pod)
        requests, namespace = self._hands.requests, record.namespace or ""

        def work() -> None:
            for pod in living if grace_s is not None else ():
                requests.hurry(pod, grace_s=grace_s or 1)
            requests.suspend(namespace, job)

        self._give(record, ("suspend", job), work, partial(self._suspended, record, job))

    def _suspended(self, record: Record, job: str, error: ApiError | None) -> None:
        if error is None:
            record.signalled = True
            self._hands.view.cache.suspended(record.attempt.attempt_id, job)
        elif error.status == NOT_FOUND:
            record.absent.add(job)

    def _earlier(self, record: Record, grace_s: int) -> int | None:
        """The grace that its kill time leaves, where that is worth a request for each pod.

        It must come before the pods are told to end: a kubelet does not shorten a grace that it has
        begun to give.
        """
        if record.kill_ms is None:
            return None
        left_ms = record.kill_ms - self._hands.now_ms()
        if left_ms > grace_s * 1000 - _EARLIER_MS:
            return None
        # 0 would only take the pod out of the books, whatever runs.
        return max(1, -(-left_ms // 1000))

    def _give(
        self,
        record: Record,
        key: tuple[object, ...],
        work: Callable[[], None],
        then: Callable[[ApiError | None], None],
    ) -> bool:
        attempt_id, view = record.attempt.attempt_id, self._hands.view

        def done(error: ApiError | None) -> None:
            with view.lock:
                if error is not None and is_refusal(error):
                    record.refused[key] = error.message
                else:
                    record.refused.pop(key, None)
                then(error)
                if error is None or not error.try_again:
                    self._hands.again(attempt_id)
                else:
                    record.due_again = True

        return self._hands.orders.give((attempt_id, *key), work, done)

"""Attempts as Indexed Jobs. The loop's calls only note what is wanted; watches bring what is.

From both follows what is due, the same after every event, every call and every restart, so that a
request that was lost, refused for a moment or made by a scheduler that died is simply due again.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.state import Observation
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Millis,
    NodeId,
    WorkerPlacement,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Bound, Found, Launch, Live
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.attempt_workqueue import AttemptWorkqueue
from gpucommons.scheduler.executors.kubernetes.attempts import api_refusals, observed_state
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Remains
from gpucommons.scheduler.executors.kubernetes.attempts.records import Record
from gpucommons.scheduler.executors.kubernetes.attempts.witnesses import Witnesses
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView, Hears
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import StrayNotebooks
from gpucommons.scheduler.executors.kubernetes.cluster_state.offered_nodes import offer_of
from gpucommons.scheduler.executors.kubernetes.cluster_state.orphans import Strangers
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.logs import PodLogs
from gpucommons.scheduler.executors.kubernetes.loop_wakeup import EVERY_S, LoopWakeup
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import expected_of, lay_out
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import Trace
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen, Why
from gpucommons.scheduler.executors.kubernetes.reconciling import Driver, Hands
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.files.log_reader import LogChunk

_LOG = logging.getLogger(__name__)

#: Ends that are on record, remembered so that nothing of theirs starts again.
_BURIED = 10_000
_NEWS_PER_S = 4_000


class KubernetesExecutor:
    """See :class:`gpucommons.scheduler.executors.base.Executor`."""

    name = "kubernetes"

    def __init__(
        self, connection: Connection, settings: KubernetesSettings, around: Around | None = None
    ) -> None:
        self._settings = settings
        self._around = around = Around() if around is None else around
        self._lock = threading.RLock()
        self._records: dict[AttemptId, Record] = {}
        self._buried: OrderedDict[AttemptId, None] = OrderedDict()
        self._workqueue = AttemptWorkqueue(self._look_now)
        hears = Hears(changed=self._workqueue.soon, warned=self._warned, nodes_changed=self._touch)
        self._view = ClusterView(connection, settings, self._lock, hears)
        self._orders = Orders(leading=around.leading)
        self._logs = PodLogs(connection, around.logs)
        requests = Requests(connection)
        self._driver = Driver(
            Hands(
                orders=self._orders,
                requests=requests,
                view=self._view,
                files=around.files,
                devices_of=self._devices_of,
                again=self._workqueue.soon,
                before_end=self._before_end,
                now_ms=around.now_ms,
            )
        )
        self._offer = offer_of(connection, settings, around, self._view, self._orders)
        self.scale_up, self.why_no_nodes = self._offer.scale_up, self._offer.why_no_nodes
        self._strangers = Strangers(self._view, self._orders, requests)
        self._strays = StrayNotebooks(self._orders, requests, remove_in=settings.hub_namespace)
        self._witnesses = Witnesses(
            around.reading,
            hold_ms=settings.vanished_hold_s * 1000,
            now_ms=around.now_ms,
            leading=around.leading,
            heard=self._look_now,
        )
        self._wakeup: LoopWakeup | None = None
        self.connection = connection

    # --- the cluster -------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """See the protocol.

        Raises
        ------
        Unavailable
            When the cluster was never seen: not knowing a node is not losing it.
        """
        self._open()
        with self._lock:
            return self._offer.nodes()

    def _open(self) -> None:
        self._view.open()
        self._offer.open()
        if self._wakeup is None:
            self._wakeup = LoopWakeup(self._around.on_change, self._beat, every_s=self._pace_s)

    def bound_to(self, placement: WorkerPlacement) -> Bound | None:
        """Which cards a placement's slots are; None while that is not known."""
        with self._lock:
            found = self._offer.bound_to(placement)
            if found is None and self._wakeup is not None:
                self._wakeup.beat()  # somebody waits for a card to be held, or let go
            return found

    def isolation_of(self, pool: Pool) -> str | None:
        """How another system keeps a pool's slices apart; None where we make them."""
        with self._lock:
            return self._offer.isolation_of(pool)

    def why_not(self, pool: Pool, milli_gpu: int) -> str | None:
        """Why a pool makes no slices of this size; None where it does."""
        with self._lock:
            return self._offer.why_not(pool, milli_gpu)

    def cards(self) -> Mapping[DeviceId, DeviceId]:
        """The UUID of every slot that is held."""
        with self._lock:
            return self._offer.cards()

    def has_pod(self, slice_id: SliceId) -> bool:
        """Whether a notebook's pod that has this slice is not over, as far as is known."""
        with self._lock:
            pods = self._view.notebooks.values()
            return not self._view.is_open or any(pod.slice_id == slice_id for pod in pods)

    def troubles(self) -> Mapping[str, str]:
        """What an admin should know, by what it is about: ``NODE/…``, ``pools/…``, ``jobs/…``."""
        with self._lock:
            return {
                **self._strays.sentences,
                **self._offer.sentences(),
                **api_refusals.by_kind(self._records.values()),
            }

    def refusals(self) -> Mapping[WorkloadId, str]:
        """What the cluster refuses to do for jobs, for their owners."""
        with self._lock:
            return api_refusals.by_workload(self._records.values())

    def agents(self) -> Mapping[NodeId, str]:
        """Address of each node's agent."""
        with self._lock:
            return self._offer.agents()

    def _devices_of(self, attempt: Attempt, rank: int) -> tuple[str, ...] | None:
        found = self.bound_to(attempt.placements[rank])
        return None if found is None else found.visible_devices

    def _touch(self) -> None:
        if (wakeup := self._wakeup) is not None:
            wakeup.touch()

    def _pace_s(self) -> float:
        """While thousands start at once, their news come in batches."""
        with self._lock:
            starting = sum(not one.started for one in self._records.values())
        return EVERY_S + min(1.0, starting / _NEWS_PER_S)

    # --- starting ----------------------------------------------------------------------------

    def start(self, launch: Launch) -> None:
        """See the protocol.

        Raises
        ------
        BadRequest
            When the job's environment is none of this cluster's, or its pool makes no such slices.
        Unavailable
            While what must be known of its nodes is not.
        """
        attempt = launch.attempt
        if self._knows(attempt):
            return
        self._open()
        with self._lock:
            if attempt.attempt_id in self._buried:
                return
            record = self._record(attempt)
            # Only now: what could not be laid out is due again.
            record.due_again = record.may_be_made and not self._make(record, launch)
            self._look(attempt.attempt_id)

    def _make(self, record: Record, launch: Launch) -> bool:
        pool = self._around.pool_of_node(launch.attempt.placements[0].node_id)
        plan = lay_out(launch, self._settings, pool, self._around.files, self._view.nodes)
        record.namespace = plan.way.namespace
        record.expected = expected_of(plan)
        return self._driver.make(record, plan)

    def _knows(self, attempt: Attempt) -> bool:
        """Nothing is new in what is asked, and nothing of it was in vain."""
        known = self._records.get(attempt.attempt_id)
        return known is not None and not known.due_again and known.attempt.stop == attempt.stop

    def _record(self, attempt: Attempt) -> Record:
        record = self._records.get(attempt.attempt_id)
        if record is None:
            pool = self._around.pool_of_node(attempt.placements[0].node_id)
            record = Record(attempt=attempt, now_ms=self._around.now_ms)
            self._records[attempt.attempt_id] = record
            record.grace_s = record.grace_s if pool is None else -(-pool.grace_ms // 1000)
            if (trace := self._view.cache.get(attempt.attempt_id)) is not None:
                record.take_over(trace)
        elif record.attempt.stop != attempt.stop:
            record.attempt = attempt
        return record

    # --- stopping ----------------------------------------------------------------------------

    def announce(self, attempt: Attempt) -> None:
        """See the protocol. Each worker's pod asks the scheduler itself for what is announced to it."""
        self._note(attempt)

    def spare(self, attempt: Attempt) -> None:
        """See the protocol."""
        self._note(replace(attempt, stop=None))

    def _note(self, attempt: Attempt) -> None:
        with self._lock:
            record = self._records.get(attempt.attempt_id)
            if record is not None:
                record.attempt = attempt

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol."""
        kill_ms = now_ms if attempt.stop is None else attempt.stop.kill_ms
        known = self._records.get(attempt.attempt_id)
        told = known is not None and known.stopped and not known.is_late(now_ms)
        if told and self._knows(attempt):
            return  # as above; from its kill time on its end is pressed for now and then
        self._open()
        with self._lock:
            if attempt.attempt_id in self._buried:
                return
            record = self._record(attempt)
            record.due_again = False
            record.stopped = True
            record.kill_ms = min(kill_ms, kill_ms if record.kill_ms is None else record.kill_ms)
            self._look(attempt.attempt_id)

    def _before_end(self, attempt: Attempt, rank: int, pod: PodSeen) -> None:
        if self._settings.keep_stopped_logs:
            self._logs.keep(attempt.attempt_id, rank, pod)

    # --- looking -----------------------------------------------------------------------------

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """See the protocol."""
        self._open()
        with self._lock:
            return self._strangers.since(at_ms)

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """See the protocol."""
        self._open()
        with self._lock:
            ours, found = {attempt.attempt_id for attempt in known}, []
            for attempt in known:
                trace = self._view.cache.get(attempt.attempt_id)
                if (record := self._found(attempt, trace)) is not None:
                    self._look(attempt.attempt_id)
                    found.append(Live(attempt_id=attempt.attempt_id, running=record.ended is None))
            self._strangers.end(one for one in self._view.cache if one not in ours)
        return tuple(found)

    def _found(self, attempt: Attempt, trace: Trace | None) -> Record | None:
        """The record of what is left of an attempt; one that had not run is begun anew if that is safe."""
        record = self._record(attempt)
        if trace is not None and not trace.bare:
            return record
        # Everything was just seen: they are not there.
        record.absent.update(record.seen(trace).job_names)
        record.doubtful = attempt.started_ms is None
        return None if record.doubtful else record

    def observe(self) -> tuple[Observation, ...]:
        """See the protocol."""
        with self._lock:
            return tuple(one for record in self._records.values() for one in record.told)

    def _look_now(self, attempt_id: AttemptId) -> None:
        with self._lock:
            self._look(attempt_id)

    def _look(self, attempt_id: AttemptId) -> None:
        """Something about an attempt changed: see what it means and what is due."""
        record, trace = self._records.get(attempt_id), self._view.cache.get(attempt_id)
        if record is None:
            self._view.cache.drop(attempt_id)
            return
        before = record.told, record.doubtful
        believes = partial(self._believes, record.attempt)
        record.look(record.seen(trace), believes, busy=self._driver.is_busy(attempt_id))
        absent = len(record.absent)
        if self._around.leading():
            self._driver.drive(record, trace)
        else:
            record.due_again = True
        if len(record.absent) > absent:
            # That may have settled it: there was nothing to end.
            record.look(record.seen(trace), believes, busy=self._driver.is_busy(attempt_id))
        if (record.told, record.doubtful) != before:
            # To be told, or to be started now that nothing of it can run.
            self._touch()

    def _believes(self, attempt: Attempt, remains: Remains) -> bool:
        if not remains.ended and not self._view.answers(remains.node, self._around.now_ms() / 1000):
            return False
        return self._witnesses.believe(attempt, remains)

    def _warned(self, attempt_id: AttemptId, why: Why) -> None:
        record = self._records.get(attempt_id)
        if record is not None and not record.started:
            record.warning = why
            self._workqueue.soon(attempt_id)

    def _beat(self) -> None:
        """Once a second: what only time brings about."""
        if not self._around.leading():
            return
        now_ms = self._around.now_ms()
        with self._lock:
            waiting = [one for one in self._records.items() if one[1].waits_for_time(now_ms)]
            patience_ms = self._settings.patience_s * 1000
            linger_ms = self._settings.linger_s * 1000
            for attempt_id, record in waiting:
                record.lose_patience(now_ms, patience_ms=patience_ms, linger_ms=linger_ms)
                self._workqueue.now(attempt_id)
            self._offer.beat()
            if self._view.notebooks:
                self._strays.look(self._view.notebooks, self._around.leases(), now_ms=now_ms)
            for attempt_id in self._strangers.beat(
                self._records, self._buried, self._around.current
            ):
                self._records.pop(attempt_id, None)
                self._witnesses.forget(attempt_id)

    def forget(self, attempt_id: AttemptId) -> None:
        """See the protocol."""
        with self._lock:
            self._records.pop(attempt_id, None)
            self._witnesses.forget(attempt_id)
            self._buried[attempt_id] = None
            while len(self._buried) > _BURIED:
                self._buried.popitem(last=False)
            self._strangers.clear_away(attempt_id)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """See the protocol."""
        places = {found: place for place, found in observed_state.of_ranks(attempt).items()}
        with self._lock:
            trace = self._view.cache.get(attempt.attempt_id) if rank in places else None
            pod = None if trace is None else trace.there(places[rank])
        place = (attempt.attempt_id, rank)
        return self._logs.read(place, pod, offset=offset, limit_bytes=limit_bytes)

    def rest(self) -> None:
        """See the protocol. What is seen stays in sight; who is to do what is the leader's."""
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            wakeup.close()
        with self._lock:
            self._records.clear()
            self._witnesses.clear()

    def close(self) -> None:
        """See the protocol."""
        if self._wakeup is not None:
            self._wakeup.close()
        self._workqueue.close()
        self._orders.close()
        self._witnesses.close()
        self._logs.close()
        self._view.close()

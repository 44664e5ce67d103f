"""Attempts as TrainJobs that are resumed and suspended: Trainer and JobSet make their pods, not we.

Each pod of a training waits at our scheduling gate, so that whoever resumes a TrainJob by hand starts
nothing. A look after every event finds what is due by :mod:`.resume_and_suspend`; requests come from one thread,
so that the loop waits for none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.adapters.settings_file import read_file
from gpucommons.scheduler.adapters.trainer import manifests, resume_and_suspend, trainjobs
from gpucommons.scheduler.adapters.trainer.cluster_view import ClusterView
from gpucommons.scheduler.adapters.trainer.resume_and_suspend import Verdict
from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
from gpucommons.scheduler.adapters.trainer.trainjobs import Document
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptSignalled,
    AttemptStarted,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, AttemptState, Millis, Workload
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.base import Found, Launch, Live
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    Connection,
)
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.logs import PodLogs
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen
from gpucommons.scheduler.executors.plugin import Offer
from gpucommons.scheduler.files.log_reader import LogChunk
from gpucommons.scheduler.operator.objects import ObjectRef, ref_of
from gpucommons.scheduler.threads.repeating import Troubles, repeat

_LOG = logging.getLogger(__name__)
#: Between two looks, where nothing happens: kill times pass without an event.
_LOOK_S = 1.0


@dataclass(kw_only=True, slots=True)
class Order:
    """What is wanted of one attempt, and what was told of it."""

    attempt: Attempt
    #: None of what was taken over: it is only to be stopped, or seen to its end.
    workload: Workload | None = None
    #: The TrainJob that it is for; None where we make it, or none was found.
    ref: ObjectRef | None = None
    #: The watch has seen it, or it was taken over: from then on its absence there is its end.
    made: bool = False
    #: The job of its runtime that is placed.
    target: str = ""
    #: Uids of its pods when its TrainJob was last seen: they may outlive it. None = never seen.
    pods: frozenset[str] | None = None
    stopped: bool = False
    #: Why it can never run.
    refusal: str = ""
    told: dict[type[Observation], Observation] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Nothing is due any more."""
        return AttemptEnded in self.told


class TrainJobExecutor:
    """See :class:`gpucommons.scheduler.executors.base.Executor`."""

    name = "trainjob"

    def __init__(self, offer: Offer, connection: Connection | None = None) -> None:
        self._offer = offer
        self._settings = read_file(offer.settings, TrainerSettings, executor=self.name)
        self._connection = connect() if connection is None else connection
        self._requests = Requests(self._connection)
        self._logs = PodLogs(self._connection, None, container=trainjobs.NODE)
        self._orders: dict[AttemptId, Order] = {}
        self._due, self._stopping = threading.Event(), threading.Event()
        self._odd = Troubles("looking at a TrainJob")
        self._view = ClusterView(self._connection, self._settings, self._due.set)
        self._thread = threading.Thread(target=self._work, name="trainjobs", daemon=True)
        self._thread.start()

    def nodes(self) -> tuple[Node, ...]:
        """See the protocol."""
        self._view.wait()
        return self._view.nodes(self._offer.pools())

    # --- what is wanted ----------------------------------------------------------------------

    def start(self, launch: Launch) -> None:
        """See the protocol.

        Raises
        ------
        BadRequest
            When a job of ours needs what a TrainJob cannot bring, or its team may not pay there.
        """
        attempt, workload = launch.attempt, launch.workload
        if attempt.attempt_id in self._orders:
            return
        ref = trainjobs.ref_in(workload.spec.labels)
        if ref is None:
            manifests.check(workload.spec, self._settings)
        else:
            trainjobs.check_team(workload.spec.team, ref.namespace, self._settings)
        self._orders[attempt.attempt_id] = Order(attempt=attempt, workload=workload, ref=ref)
        self._due.set()

    def announce(self, attempt: Attempt) -> None:
        """See the protocol: its pods are not ours, so a notice is only written into its TrainJob."""

    def spare(self, attempt: Attempt) -> None:
        """See the protocol."""

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol: suspended now, and its pods ended at the kill time."""
        order = self._orders.setdefault(attempt.attempt_id, Order(attempt=attempt, made=True))
        order.attempt, order.stopped = attempt, True
        self._due.set()

    def adopt(self, known: Sequence[Attempt]) -> tuple[Live, ...]:
        """See the protocol."""
        self._view.wait()
        claims: dict[str, list[Document]] = {}
        for one in self._view.trainjobs():
            claims.setdefault(trainjobs.notes_of(one).get(trainjobs.ATTEMPT, ""), []).append(one)
        claims.pop("", None)
        live, pods = [], self._view.pods()
        for attempt in known:
            claim = claims.get(attempt.attempt_id, [])
            trainjob = resume_and_suspend.of_attempt(attempt, claim, pods)
            if trainjob is None and attempt.state is AttemptState.STARTING:
                continue  # It is started again.
            order = self._orders[attempt.attempt_id] = Order(attempt=attempt, made=True)
            if trainjob is not None:
                claim.remove(trainjob)
                order.ref = ref_of(trainjob)
            is_running = attempt.started_ms is not None
            live.append(Live(attempt_id=attempt.attempt_id, running=is_running))
        for trainjob in (one for claim in claims.values() for one in claim):
            if not trainjobs.is_suspended(trainjob):
                self._end_stranger(trainjob)
        self._due.set()
        return tuple(live)

    def _end_stranger(self, trainjob: Document) -> None:
        """Nobody knows its attempt, or that is another TrainJob's."""
        if trainjobs.finished(trainjob) is None:
            _LOG.warning("%s is suspended: nobody here has started it", _path(trainjob))
            self._patch(trainjob, trainjobs.suspending())

    def since(self, at_ms: Millis) -> tuple[Found, ...]:
        """See the protocol."""
        self._view.wait()
        notes = ((one, trainjobs.notes_of(one)) for one in self._view.trainjobs())
        return tuple(
            Found(
                attempt_id=AttemptId(said[trainjobs.ATTEMPT]),
                job_id=said.get(trainjobs.JOB, ""),
                name=f"{one['metadata']['namespace']}/{one['metadata']['name']}",
                running=not trainjobs.is_suspended(one) and trainjobs.finished(one) is None,
                succeeded=(trainjobs.finished(one) or ("",))[0] == "Complete",
            )
            for one, said in notes
            if trainjobs.ATTEMPT in said and trainjobs.since_ms(said) >= at_ms
        )

    def observe(self) -> tuple[Observation, ...]:
        """See the protocol."""
        return tuple(one for order in list(self._orders.values()) for one in order.told.values())

    def forget(self, attempt_id: AttemptId) -> None:
        """See the protocol."""
        self._orders.pop(attempt_id, None)

    def log(self, attempt: Attempt, *, rank: int, offset: int, limit_bytes: int) -> LogChunk:
        """See the protocol: as long as its pod is there."""
        of_rank = [one for one in self._pods_of(attempt.attempt_id) if one.index == rank]
        # What prepares data is numbered, too, and nobody places it.
        pod = min(of_rank, key=lambda one: not one.placed, default=None)
        if pod is None:
            return LogChunk(lines=(), next_offset=offset, end=True)
        place = attempt.attempt_id, rank
        return self._logs.read(place, pod, offset=offset, limit_bytes=limit_bytes)

    def rest(self) -> None:
        """See the protocol."""
        self._orders.clear()

    def close(self) -> None:
        """See the protocol."""
        self._stopping.set()
        self._due.set()
        self._thread.join()
        self._logs.close()
        self._view.close()

    # --- the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        def step() -> None:
            self._due.wait(_LOOK_S)
            self._due.clear()
            if self._view.is_synced:
                self.look()

        repeat(step, what="Looking at TrainJobs", pause_s=0.05, stopping=self._stopping)

    def look(self) -> None:
        """Find what is due for each attempt, and do it."""
        for order in [one for one in list(self._orders.values()) if not one.ended]:
            if self._orders.get(order.attempt.attempt_id) is not order:
                continue  # Another scheduler leads by now.
            before = dict(order.told)
            try:
                self._drive(order)
            except ApiError as error:
                # One that was changed meanwhile, or a server that is away: it is due again.
                if not (error.try_again or error.status in (CONFLICT, NOT_FOUND)):
                    self._refuse(order, f"Kubernetes refuses it: {error.message}")
            except BadRequest as error:
                self._refuse(order, str(error))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                # Whatever somebody wrote into its objects, it holds up no other.
                self._odd.note(error)
            if order.told != before:
                self._offer.wake()

    def _drive(self, order: Order) -> None:
        trainjob = self._trainjob(order)
        is_to_be_made = order.ref is None and not (order.made or order.stopped)
        if trainjob is None and order.workload is not None and is_to_be_made:
            self._send(order, order.workload)
            return
        if trainjob is not None and not order.stopped:
            self._check(order, trainjob)
        sight = resume_and_suspend.Sight(
            attempt=order.attempt,
            trainjob=trainjob,
            pods=self._pods_for(order, trainjob),
            devices=self._view.devices(),
            resources=self._settings.resources,
            target=order.target,
            stopped=order.stopped,
            now_ms=self._offer.now_ms(),
        )
        verdict = resume_and_suspend.judge(sight)
        self._tell(order, verdict)
        if trainjob is not None:
            self._act(order, trainjob, verdict)
        for pod in verdict.hurry:
            self._requests.hurry(pod, grace_s=1)

    def _pods_for(self, order: Order, trainjob: Document | None) -> tuple[PodSeen, ...]:
        pods = self._view.pods()
        if trainjob is not None:
            found = resume_and_suspend.pods_of(trainjob, pods)
            order.pods = frozenset(one.uid for one in found)
            return found
        if order.pods is not None:
            return tuple(one for one in pods if one.uid in order.pods)
        if order.workload is not None:
            return ()  # It was never resumed.
        return resume_and_suspend.left_behind(order.attempt, pods, self._view.trainjobs())

    def _trainjob(self, order: Order) -> Document | None:
        attempt_id, ref = order.attempt.attempt_id, order.ref
        for one in self._view.trainjobs():
            if (
                trainjobs.notes_of(one).get(trainjobs.ATTEMPT) == attempt_id
                if ref is None
                else one["metadata"]["uid"] == ref.uid
            ):
                order.made = True
                is_unclear = order.stopped and not resume_and_suspend.is_for(one, order.attempt)
                # The watch may not have seen yet that it was resumed for this attempt.
                return self._connection.get(_path(one)) if is_unclear else one
        if ref is None or order.made:
            return None
        # Perhaps it is too new for the watch, also in the next look.
        try:
            found = self._connection.get(trainjobs.path_of(ref.namespace, ref.name))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return None
        return found if found["metadata"]["uid"] == ref.uid else None

    def _check(self, order: Order, trainjob: Document) -> None:
        """Which of its pods are placed; and before it is resumed, that it asks for what was admitted."""
        if not order.target:
            runtime = self._view.runtime_of(trainjob)
            order.target = trainjobs.training_of(runtime)["name"]
        if (
            order.ref is None
            or order.workload is None
            or resume_and_suspend.is_for(trainjob, order.attempt)
        ):
            return
        asked = trainjobs.asked_for(trainjob, self._view.runtime_of(trainjob), self._settings)
        trainjobs.check_admitted(asked, order.workload.spec.roles[0])
        if not trainjobs.is_gated(trainjob, asked.target):
            self._patch(trainjob, trainjobs.taking_charge(trainjob, asked.target))

    def _tell(self, order: Order, verdict: Verdict) -> None:
        attempt_id = order.attempt.attempt_id
        if verdict.started:
            order.told.setdefault(AttemptStarted, AttemptStarted(attempt_id=attempt_id))
        if verdict.signalled:
            order.told.setdefault(AttemptSignalled, AttemptSignalled(attempt_id=attempt_id))
        ended = verdict.ended
        if ended is not None and order.refusal:
            ended = replace(ended, start_failed=True, text=order.refusal)
        if ended is not None:
            order.told[AttemptEnded] = ended

    def _act(self, order: Order, trainjob: Document, verdict: Verdict) -> None:
        attempt = order.attempt
        if verdict.resume:
            now_ms = self._offer.now_ms()
            self._patch(trainjob, trainjobs.resuming(trainjob, attempt.attempt_id, now_ms=now_ms))
        if verdict.suspend:
            self._patch(trainjob, trainjobs.suspending())
        for pod, rank in verdict.lift:
            placed = None if rank is None else attempt.placements[rank].node_id
            node = {} if placed is None else self._view.selector_of(placed)
            self._requests.lift(pod, attempt, rank or 0, node)

    def _send(self, order: Order, workload: Workload) -> None:
        """Make the TrainJob of a job of ours."""
        sent, spec = self._settings.sent, workload.spec
        assert sent is not None  # noqa: S101 - checked when it was taken
        attempt = order.attempt
        runtime = self._connection.get(trainjobs.cluster_runtime_path(sent.runtime))
        body = manifests.trainjob_of(
            spec,
            trainjobs.notes_for(attempt.attempt_id, now_ms=self._offer.now_ms()),
            sent,
            target=trainjobs.training_of(runtime)["name"],
            resource=self._settings.pools[self._pool_of(attempt)].gpu_resource,
        )
        path = trainjobs.path_of(sent.namespace)
        try:
            made = self._connection.post(path, body)
        except ApiError as error:
            if not error.exists:
                raise
            made = self._connection.get(f"{path}/{body['metadata']['name']}")
        order.ref = ref_of(made)

    def _pool_of(self, attempt: Attempt) -> str:
        node_id = attempt.placements[0].node_id
        found = self._view.nodes(self._offer.pools())
        return next(
            (one.pool for one in found if one.node_id == node_id), next(iter(self._settings.pools))
        )

    def _patch(self, trainjob: Document, patch: Document) -> None:
        self._connection.merge_patch(_path(trainjob), dict(patch))

    def _pods_of(self, attempt_id: AttemptId) -> tuple[PodSeen, ...]:
        for one in self._view.trainjobs():
            if trainjobs.notes_of(one).get(trainjobs.ATTEMPT) == attempt_id:
                return resume_and_suspend.pods_of(one, self._view.pods())
        return ()

    def _refuse(self, order: Order, text: str) -> None:
        """End it with a sentence; what it has begun is ended first."""
        if not order.stopped:
            self._due.set()
        order.refusal, order.stopped = text, True


def _path(trainjob: Document) -> str:
    meta = trainjob["metadata"]
    return trainjobs.path_of(meta["namespace"], meta["name"])

"""What is due for one attempt, from what is wanted and what is seen. Pure, the same after every look.

A pod that waits at our gate holds nothing: it counts as none. All others count until they are gone,
whatever the TrainJob says of itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.adapters.trainer import trainjobs
from gpucommons.scheduler.adapters.trainer.devices import check_devices
from gpucommons.scheduler.adapters.trainer.trainjobs import Document
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen

#: A pod that is there so long after its kill time is ended by us.
_LATE_MS = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What to do, and what is seen."""

    resume: bool = False
    suspend: bool = False
    #: With the rank that each is of; None = it prepares something, and may run anywhere.
    lift: tuple[tuple[PodSeen, int | None], ...] = ()
    hurry: tuple[PodSeen, ...] = ()
    started: bool = False
    signalled: bool = False
    ended: AttemptEnded | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """One attempt, and what there is of it."""

    attempt: Attempt
    #: None where it is gone.
    trainjob: Document | None
    #: Its own, also those that outlive it.
    pods: tuple[PodSeen, ...] = ()
    #: GPUs that they ask for, by a pod's uid and by resource; and what GPUs are called in our pools.
    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    resources: Collection[str] = ()
    #: The job of its runtime that is placed.
    target: str = ""
    #: It is to end.
    stopped: bool = False
    now_ms: Millis

    @property
    def living(self) -> tuple[PodSeen, ...]:
        """Pods that hold, or are about to hold, what their node has."""
        return tuple(one for one in self.pods if not one.terminal and not one.gated)

    @property
    def late(self) -> tuple[PodSeen, ...]:
        """Pods that should be gone."""
        stop = self.attempt.stop
        is_late = stop is not None and self.now_ms >= stop.kill_ms + _LATE_MS
        return self.living if is_late else ()


def pods_of(trainjob: Document, pods: Sequence[PodSeen]) -> tuple[PodSeen, ...]:
    """Those that JobSet made for it."""
    meta = trainjob["metadata"]
    return tuple(
        one
        for one in pods
        if (one.namespace, one.attempt_id) == (meta["namespace"], AttemptId(meta["name"]))
    )


def of_attempt(
    attempt: Attempt, trainjobs: Sequence[Document], pods: Sequence[PodSeen]
) -> Document | None:
    """Which of those that name an attempt is its own: anybody may write its id into one. The others
    have no pods where it was placed.
    """
    nodes = {one.node_id for one in attempt.placements}

    def running(trainjob: Document) -> int:
        return sum(one.node in nodes and not one.terminal for one in pods_of(trainjob, pods))

    return max(trainjobs, key=running, default=None)


def left_behind(
    attempt: Attempt, pods: Sequence[PodSeen], trainjobs: Sequence[Document]
) -> tuple[PodSeen, ...]:
    """Pods of a TrainJob that was deleted before anybody here had seen it: those that no TrainJob
    has, on nodes of the attempt.
    """
    there = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in trainjobs}
    nodes = {one.node_id for one in attempt.placements}
    return tuple(
        one for one in pods if (one.namespace, one.attempt_id) not in there and one.node in nodes
    )


def judge(sight: Sight) -> Verdict:
    """Judge.

    Raises
    ------
    BadRequest
        When a pod asks for more than was admitted for it.
    """
    if sight.trainjob is None:
        # Kubernetes ends its pods, as nobody owns them. Until they are gone, they hold what they had.
        ended = None if sight.living else _gone(sight.attempt)
        return Verdict(signalled=sight.stopped, hurry=sight.late, ended=ended)
    if sight.stopped:
        return _stopping(sight, sight.trainjob)
    return _running(sight, sight.trainjob)


def _gone(attempt: Attempt) -> AttemptEnded:
    never = attempt.started_ms is None and attempt.stop is not None
    text = "It was stopped before it ran" if never else "Its TrainJob was deleted."
    return _ended(attempt, text)


def _ended(attempt: Attempt, text: str = "") -> AttemptEnded:
    """Ended by others than itself."""
    return AttemptEnded(attempt_id=attempt.attempt_id, exit_code=None, text=text, told=True)


def _own_end(attempt: Attempt, trainjob: Document) -> AttemptEnded | None:
    end = trainjobs.finished(trainjob)
    if end is None:
        return None
    code = 0 if end[0] == "Complete" else 1
    return AttemptEnded(
        attempt_id=attempt.attempt_id, exit_code=code, text=end[1], finished=code == 0
    )


def is_for(trainjob: Document, attempt: Attempt) -> bool:
    """Whether it was resumed for this attempt."""
    return trainjobs.notes_of(trainjob).get(trainjobs.ATTEMPT) == attempt.attempt_id


def _stopping(sight: Sight, trainjob: Document) -> Verdict:
    attempt, living = sight.attempt, sight.living
    if not is_for(trainjob, attempt):
        return Verdict(ended=_ended(attempt, "It was stopped before it ran"))
    if (end := _own_end(attempt, trainjob)) is not None and not living:
        return Verdict(ended=end)
    if not trainjobs.is_suspended(trainjob):
        return Verdict(suspend=True)
    return Verdict(signalled=True, hurry=sight.late, ended=None if living else _ended(attempt))


def _running(sight: Sight, trainjob: Document) -> Verdict:
    attempt, living = sight.attempt, sight.living
    if not is_for(trainjob, attempt):
        if trainjobs.finished(trainjob) is not None:
            text = "Its TrainJob is over already: make it again under another name."
            return Verdict(
                ended=AttemptEnded(
                    attempt_id=attempt.attempt_id, exit_code=None, start_failed=True, text=text
                )
            )
        # Pods of an attempt before it must be gone: they hold what is somebody else's now.
        return Verdict(resume=not living)
    if (end := _own_end(attempt, trainjob)) is not None and not living:
        return Verdict(ended=end, started=True)
    if trainjobs.is_suspended(trainjob):
        text = "Somebody else suspended its TrainJob: it waits in line again."
        return Verdict(ended=None if living else _ended(attempt, text))
    return _placing(sight, trainjob)


def _placing(sight: Sight, trainjob: Document) -> Verdict:
    workers = len(sight.attempt.placements)
    ranks = {pod.uid: _rank(pod, trainjob, sight.target) for pod in sight.pods}
    lift = tuple(_to_lift(sight, ranks))
    # Made before the gate was there, or by who took it out: what runs, runs where it was placed.
    strays = tuple(
        one
        for one in sight.living
        if ranks[one.uid] is not None and not one.placed and not one.deleting
    )
    running = {
        ranks[one.uid] for one in sight.pods if one.placed and one.phase in ("Running", "Succeeded")
    }
    return Verdict(lift=lift, hurry=strays, started=running >= set(range(workers)))


def _to_lift(sight: Sight, ranks: Mapping[str, int | None]) -> Iterator[tuple[PodSeen, int | None]]:
    """Pods that may go on: one for each worker, and what only prepares, which has no GPU."""
    # One without a GPU has nobody's place, whatever its labels say.
    taken = {ranks[one.uid] for one in sight.living if sight.devices.get(one.uid)} - {None}
    placements = sight.attempt.placements
    for pod in sight.pods:
        rank = ranks[pod.uid]
        if not pod.gated or pod.deleting or rank in taken or (rank or 0) >= len(placements):
            continue
        most = 0 if rank is None else len(placements[rank].device_ids)
        check_devices(pod.name, sight.devices.get(pod.uid, {}), sight.resources, most)
        if rank is not None:
            taken.add(rank)
        yield pod, rank


def _rank(pod: PodSeen, trainjob: Document, target: str) -> int | None:
    """Its place among the workers; JobSet names a job's Job ``NAME-JOB-0``."""
    is_worker = pod.job == f"{trainjob['metadata']['name']}-{target}-0"
    return pod.index if is_worker else None

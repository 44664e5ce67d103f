"""What an attempt's objects mean: pure, from what was seen to what is reported and what is due.

An attempt is over when every worker's pod is seen dead and no Job of it can make another one. A pod
that vanished together with its node is not dead: it counts as live until the node is back, or an admin
fences it. So does a worker of an attempt that ran, or may have, of which nothing is left in the API.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.core.model.types import Attempt
from gpucommons.scheduler.executors.kubernetes.attempts import sentences
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    JobSeen,
    PodSeen,
    Why,
    indexes,
)

#: The cluster cleared it away: its node may still run it.
_COLLECTED = "DeletionByPodGC"
#: Pods that are killed so much later than they should are worth a request.
_LATE_MS = 5_000


@dataclass(frozen=True, slots=True)
class Failing:
    """Why an attempt is given up before it ran."""

    text: str
    #: The cluster's doing, not the job's: another try may do.
    again: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Everything known of one attempt at one moment."""

    attempt: Attempt
    jobs: Mapping[str, JobSeen] = field(default_factory=dict)
    #: The newest pod of each rank; those that are gone as they were last.
    pods: Mapping[int, PodSeen] = field(default_factory=dict)
    #: Pods of ours that are gone from the API.
    gone: frozenset[str] = frozenset()
    #: We told it to stop.
    stopped: bool = False
    #: All its workers ran once, seen by us or by a scheduler before us.
    ran: bool = False
    #: Why it is given up before it ran.
    failing: Failing | None = None
    #: Jobs that the API server does not have.
    absent: frozenset[str] = frozenset()
    #: What the cluster last complained of.
    warning: Why = Why()
    #: From SIGTERM to SIGKILL, of pods that nothing is left of.
    grace_s: int = 30

    @property
    def job_names(self) -> tuple[str, ...]:
        """The Jobs that it has, or will have."""
        roles = names.roles_of(self.attempt)
        return tuple(names.job_name(self.attempt, role) for role in roles)

    @property
    def workers(self) -> int:
        """How many pods make the gang."""
        return len(self.attempt.placements)


@dataclass(frozen=True, kw_only=True, slots=True)
class Remains:
    """A worker that is over, or gone, as far as the API shows."""

    rank: int
    node: str
    #: The kubelet said that its containers ended.
    ended: bool
    #: Its command had begun.
    started: bool = True
    #: From SIGTERM to SIGKILL.
    grace_s: int = 30


#: Whether nothing of a worker runs any more on its node.
Believes = Callable[[Remains], bool]


def is_whole(seen: Seen) -> bool:
    """All workers' pods exist and none is on its way out: they may be let go."""
    return len(seen.pods) == seen.workers and not any(
        pod.uid in seen.gone or pod.terminal or pod.deleting for pod in seen.pods.values()
    )


def has_started(seen: Seen) -> bool:
    """Every worker's command runs or ran, where we sent it."""
    pods = seen.pods.values()
    return len(pods) == seen.workers and all(pod.started and pod.placed for pod in pods)


def is_lingering(seen: Seen) -> bool:
    """The work is done or has failed, and what is not ours runs on in its pods.

    A container that a webhook added (a service mesh's proxy) does not end with the command, and no Job
    is over while a pod of it runs.
    """
    codes = [pod.exit_code for pod in seen.pods.values()]
    is_settled = len(codes) == seen.workers and None not in codes
    if not is_settled and not any(codes):
        return False
    return any(pod.lingers and pod.uid not in seen.gone for pod in seen.pods.values())


def is_dead(rank: int, seen: Seen, believes: Believes) -> bool:
    """Nothing of a worker runs."""
    pod = seen.pods.get(rank)
    if pod is None or is_stand_in(pod, seen):
        return _is_without_pod(rank, seen, believes)
    if not pod.terminal and pod.uid not in seen.gone:
        return False
    return pod.node is None or believes(
        Remains(
            rank=rank,
            node=pod.node,
            ended=(pod.terminal and not is_collected(pod)) or _is_counted(rank, seen),
            started=pod.started,
            grace_s=pod.grace_s,
        )
    )


def is_stand_in(pod: PodSeen, seen: Seen) -> bool:
    """Its Job made it for one that ran and is gone; it waits behind its gate for ever."""
    return seen.ran and not pod.placed


def pods_of_its_own(seen: Seen) -> int:
    """How many of its workers' pods are known, there or gone."""
    return sum(not is_stand_in(pod, seen) for pod in seen.pods.values())


def _is_without_pod(rank: int, seen: Seen, believes: Believes) -> bool:
    """No scheduler of today saw its pod: there was none, or it is gone with all that it tells."""
    job = seen.jobs.get(names.job_name(seen.attempt, seen.attempt.placements[rank].role))
    if not seen.ran:
        return True
    remains = Remains(
        rank=rank,
        node=seen.attempt.placements[rank].node_id,
        ended=_is_counted(rank, seen),
        grace_s=seen.grace_s,
    )
    return believes(remains if job is None else replace(remains, grace_s=job.grace_s))


def may_have_run(seen: Seen, believes: Believes) -> bool:
    """Of one that left nothing: whether it may run, gone from the API with its node and Job unseen."""
    if seen.jobs or seen.pods:
        return False
    return not all(is_dead(rank, seen, believes) for rank in range(seen.workers))


def _is_counted(rank: int, seen: Seen) -> bool:
    """Its Job saw it succeed. Failures count for nothing: pods of lost nodes are called failed, too."""
    role = seen.attempt.placements[rank].role
    job = seen.jobs.get(names.job_name(seen.attempt, role))
    if job is None or not job.completed_indexes:
        return False
    return names.ranks_of(seen.attempt, role).index(rank) in indexes(job.completed_indexes)


def is_collected(pod: PodSeen) -> bool:
    """It is called over because its node was lost, not because anything ended."""
    return pod.terminal and pod.disrupted.reason == _COLLECTED


def is_inert(seen: Seen, job: str) -> bool:
    """The Job makes no more pods."""
    found = seen.jobs.get(job)
    if found is None:
        return job in seen.absent
    return found.suspended or found.finished is not None or found.deleting


def is_over(seen: Seen, believes: Believes) -> bool:
    """Nothing runs, and nothing will."""
    if pods_of_its_own(seen) < seen.workers and not all(
        is_inert(seen, job) for job in seen.job_names
    ):
        return False
    return all(is_dead(rank, seen, believes) for rank in range(seen.workers))


# --- what is due -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What each role's pods must look like when they come."""

    #: None where another system decides about GPUs.
    gpus: Mapping[str, int | None]
    last: Mapping[str, str | None]


def why_give_up(
    seen: Seen, expected: Expected | None, lifted: Container[str] = ()
) -> Failing | None:
    """A start that cannot become what was decided: why; None where all is well."""
    for role in names.roles_of(seen.attempt):
        name = names.job_name(seen.attempt, role)
        job, ranks = seen.jobs.get(name), names.ranks_of(seen.attempt, role)
        if job is not None and (text := sentences.job_edited(job, completions=len(ranks))):
            return Failing(text, again=True)
        for rank in ranks if expected is not None else ():
            pod = seen.pods.get(rank)
            if pod is None or pod.placed or pod.uid in lifted:
                continue
            gpus, last = expected.gpus[role], expected.last[role]  # type: ignore[union-attr] # above
            if text := sentences.pod_changed(pod, gpus=gpus, last=last):
                return Failing(text)
    for pod in seen.pods.values():
        if pod.terminal or sentences.unprepared(pod.waiting):
            continue
        if pod.waiting.reason in sentences.HOPELESS:
            return Failing(sentences.waits_for(pod.waiting))
    return None


def why_uncertain(seen: Seen) -> Failing | None:
    """What keeps a start from going on and may get better, but not for long."""
    missing = len(seen.pods) < seen.workers
    if seen.warning.reason == "FailedCreate" and missing:
        return Failing(sentences.refused(seen.warning.message))
    for pod in seen.pods.values():
        if pod.terminal or pod.started or pod.uid in seen.gone:
            continue
        if text := sentences.unprepared(pod.waiting):
            return Failing(text, again=True)
        if pod.waiting.reason in sentences.UNCERTAIN:
            return Failing(sentences.waits_for(pod.waiting))
        if text := sentences.unschedulable(pod.unschedulable):
            return Failing(text, again=True)
        if pod.node and (text := sentences.node_trouble(seen.warning)):
            return Failing(text, again=True)
    return None


def of_ranks(attempt: Attempt) -> Mapping[tuple[str, int], int]:
    """Rank by Job and completion index."""
    return {
        (names.job_name(attempt, role), index): rank
        for role in names.roles_of(attempt)
        for index, rank in enumerate(names.ranks_of(attempt, role))
    }


def to_hurry(seen: Seen, kill_ms: int | None, now_ms: int) -> Iterator[PodSeen]:
    """Pods that nobody else ends in time: of a Job that is gone, and all that outlive their kill time.

    A Job that is there, or goes with its pods, has them ended with their own grace.
    """
    late = kill_ms is not None and now_ms >= kill_ms
    for pod in seen.pods.values():
        if pod.terminal or pod.uid in seen.gone or not is_inert(seen, pod.job):
            continue
        orphaned = pod.job not in seen.jobs and not pod.deleting
        if orphaned or (late and not _ends_by(pod, (kill_ms or 0) + _LATE_MS)):
            yield pod


def _ends_by(pod: PodSeen, time_ms: int) -> bool:
    return pod.killed_at_ms is not None and pod.killed_at_ms <= time_ms


def to_lift(seen: Seen, lifted: Container[str]) -> Iterator[tuple[int, PodSeen]]:
    """Pods whose gate is still to be opened."""
    if not is_whole(seen):
        return
    for rank, pod in seen.pods.items():
        if pod.gated and pod.uid not in lifted:
            yield rank, pod

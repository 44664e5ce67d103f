"""What the cluster shows of attempts: their Jobs and pods, tracked by us or not.

A pod that is gone is remembered as it was last: how it ended is told only once, and whether it is dead
depends on its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import JobSeen, PodSeen

DELETED = "DELETED"


@dataclass(kw_only=True, slots=True)
class Trace:
    """One attempt's objects."""

    jobs: dict[str, JobSeen] = field(default_factory=dict)
    #: By Job and completion index: the first pod that had the place. A later one is not let go.
    pods: dict[tuple[str, int], PodSeen] = field(default_factory=dict)
    #: Ids of pods that are gone from the API.
    gone: set[str] = field(default_factory=set)

    @property
    def bare(self) -> bool:
        """Nothing of it is in the API any more."""
        return not self.jobs and all(pod.uid in self.gone for pod in self.pods.values())

    def there(self, place: tuple[str, int]) -> PodSeen | None:
        """The pod of a place, if the API has it."""
        pod = self.pods.get(place)
        return None if pod is None or pod.uid in self.gone else pod

    def living(self) -> list[PodSeen]:
        """Pods that the API has and that are not over."""
        return [pod for pod in self.pods.values() if not pod.terminal and pod.uid not in self.gone]


class AttemptCache:
    """All attempts of this installation. Not thread-safe: its user holds a lock."""

    def __init__(self) -> None:
        self._by_attempt: dict[AttemptId, Trace] = {}

    def __iter__(self) -> Iterator[AttemptId]:
        return iter(tuple(self._by_attempt))

    def get(self, attempt_id: AttemptId) -> Trace | None:
        """What there is of an attempt."""
        return self._by_attempt.get(attempt_id)

    def of(self, attempt_id: AttemptId) -> Trace:
        """What there is of an attempt, to be added to."""
        return self._by_attempt.setdefault(attempt_id, Trace())

    def drop(self, attempt_id: AttemptId) -> None:
        """Forget what is gone anyway."""
        trace = self._by_attempt.get(attempt_id)
        if trace is not None and trace.bare:
            del self._by_attempt[attempt_id]

    def put_job(self, kind: str, job: JobSeen) -> None:
        """A Job was seen, or is gone."""
        trace = self.of(job.attempt_id)
        if kind == DELETED:
            trace.jobs.pop(job.name, None)
        else:
            trace.jobs[job.name] = job

    def suspended(self, attempt_id: AttemptId, name: str) -> None:
        """We suspended a Job; the watch will say so, too."""
        trace = self._by_attempt.get(attempt_id)
        job = None if trace is None else trace.jobs.get(name)
        if trace is not None and job is not None:
            trace.jobs[name] = replace(job, suspended=True)

    def put_pod(self, kind: str, pod: PodSeen) -> None:
        """A pod was seen, or is gone."""
        trace = self.of(pod.attempt_id)
        place = (pod.job, pod.index)
        known = trace.pods.get(place)
        if known is not None and known.uid != pod.uid:
            return
        trace.pods[place] = _latest(known, pod)
        if kind == DELETED:
            trace.gone.add(pod.uid)

    def reset_jobs(self, found: Iterable[JobSeen]) -> set[AttemptId]:
        """All Jobs there are; returns whose may have changed."""
        there = {job.uid: job for job in found}
        known = [job for trace in self._by_attempt.values() for job in trace.jobs.values()]
        for job in known:
            if job.uid not in there:
                self.put_job(DELETED, job)
        for job in there.values():
            self.put_job("ADDED", job)
        return {job.attempt_id for job in (*known, *there.values())}

    def reset_pods(self, found: Iterable[PodSeen]) -> set[AttemptId]:
        """All pods there are; returns whose may have changed."""
        there = {pod.uid: pod for pod in found}
        known = [pod for trace in self._by_attempt.values() for pod in trace.pods.values()]
        for pod in known:
            if pod.uid not in there:
                self.put_pod(DELETED, pod)
        for pod in there.values():
            self.put_pod("ADDED", pod)
        return {pod.attempt_id for pod in (*known, *there.values())}


def _latest(known: PodSeen | None, pod: PodSeen) -> PodSeen:
    """Keep how it ended, which happens once: events of a pod that is deleted may say less, or anew."""
    if known is None or known.exit_code is None:
        return pod
    return replace(
        pod, exit_code=known.exit_code, finished_at=known.finished_at, end=known.end, started=True
    )

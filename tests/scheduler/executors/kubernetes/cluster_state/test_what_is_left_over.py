"""What is removed of attempts whose end is on record, and what stays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cluster_objects import ATTEMPT_ID, a_job_seen, a_running_pod, an_ended_pod

from gpucommons.scheduler.executors.kubernetes.cluster_state.orphans import Strangers
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import AttemptCache
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import JobSeen, PodSeen


@dataclass
class Leftovers:
    """The one attempt of a cluster, and what is ordered to be done with it."""

    cache: AttemptCache = field(default_factory=AttemptCache)
    nodes: dict[str, Any] = field(default_factory=dict)
    removed: list[Hashable] = field(default_factory=list)

    def tidy(self) -> None:
        """What is given is done."""

    def give(
        self, key: Hashable, _work: Callable[[], None], _done: object, **_turn: object
    ) -> bool:
        self.removed.append(key)
        return True

    def delete_job(self, namespace: str, job: str) -> None: ...

    hurry = bury = delete_job

    def strangers(self, job: JobSeen, *pods: PodSeen, gone: tuple[str, ...] = ()) -> Strangers:
        self.cache.put_job("ADDED", job)
        for pod in pods:
            self.cache.put_pod("DELETED" if pod.uid in gone else "ADDED", pod)
        return Strangers(cast("Any", self), cast("Any", self), cast("Any", self))


@pytest.fixture
def left() -> Leftovers:
    return Leftovers()


GANG = a_job_seen(parallelism=2, completions=2)


@pytest.mark.parametrize("job", [GANG, a_job_seen(finished="Complete")], ids=["not yet", "said"])
def test_what_ended_by_itself_keeps_its_log_though_its_job_is_not_yet_called_finished(
    left: Leftovers, job: JobSeen
) -> None:
    strangers = left.strangers(job, an_ended_pod(0), an_ended_pod(1, 3))
    strangers.clear_away(ATTEMPT_ID)
    strangers.end([ATTEMPT_ID])
    assert left.removed == []


@pytest.mark.parametrize(
    ("job", "pods", "gone"),
    [
        (a_job_seen(suspended=True), (an_ended_pod(0, 143),), ()),
        (GANG, (an_ended_pod(0), a_running_pod(1)), ()),
        (GANG, (a_running_pod(0),), ("uid-0",)),
        (GANG, (), ()),
    ],
    ids=["stopped", "one runs", "nothing is left", "nothing was made"],
)
def test_a_job_that_was_stopped_or_could_make_pods_is_removed(
    left: Leftovers, job: JobSeen, pods: tuple[PodSeen, ...], gone: tuple[str, ...]
) -> None:
    left.strangers(job, *pods, gone=gone).clear_away(ATTEMPT_ID)
    assert left.removed == [(ATTEMPT_ID, "remove", job.name)]


def test_a_fenced_attempt_of_which_nothing_is_left_is_forgotten(left: Leftovers) -> None:
    strangers = Strangers(cast("Any", left), cast("Any", left), cast("Any", left))
    known = {ATTEMPT_ID: "its record"}
    searches = [strangers.beat(known, (), frozenset) for _ in range(20)]
    assert [set(found) for found in searches if found] == [{ATTEMPT_ID}]
    assert not any(strangers.beat(known, (), lambda: {ATTEMPT_ID}) for _ in range(20))


@pytest.mark.parametrize(
    ("job", "pods", "warned"),
    [
        (a_job_seen(suspended=True), (), False),
        (a_job_seen(suspended=True), (an_ended_pod(0, 143),), False),
        (a_job_seen(suspended=True), (a_running_pod(0),), True),
        (GANG, (), True),
    ],
    ids=["stopped", "stopped with its log", "stopped and not yet over", "could make pods"],
)
def test_a_stopped_attempt_is_removed_and_not_called_running(
    left: Leftovers,
    caplog: pytest.LogCaptureFixture,
    job: JobSeen,
    pods: tuple[PodSeen, ...],
    warned: bool,
) -> None:
    left.strangers(job, *pods).end([ATTEMPT_ID])
    assert (ATTEMPT_ID, "remove", job.name) in left.removed
    assert ("nobody knows it" in caplog.text) == warned

"""From a log that grows to the loop: each line once, in whatever pieces, also of jobs that are over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from stored_rows import NOW, running

from gpucommons.scheduler.core.model.state import Changes, Cluster, Observation, ProgressReported
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    Millis,
    Progress,
    State,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.curves import following
from gpucommons.scheduler.curves.following import LogFollowing
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.files.log_reader import LogChunk, cut_log
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.store.memory import MemoryStore

JOB = WorkloadId("w-0001")


@dataclass
class World:
    """A loop that keeps what it is told, logs in memory, and a clock by hand."""

    cluster: Cluster = field(default_factory=Cluster)
    told: list[Progress] = field(default_factory=list)
    kept: list[LogPoint] = field(default_factory=list)
    printed: dict[AttemptId, bytes] = field(default_factory=lambda: defaultdict(bytes))
    reads: int = 0
    on_the_way: set[WorkloadId] = field(default_factory=set)
    now_ms: int = NOW
    any_job: bool = False

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.epoch = self.store.take_lead("me")
        self.following = LogFollowing(
            loop=self,
            logs=self,
            store=self.store,
            now_ms=lambda: Millis(self.now_ms),
            steady_s=lambda: 0.0,
        )

    def observe(self, observation: Observation) -> None:
        assert isinstance(observation, ProgressReported)
        self.told.append(observation.progress)

    def keep_points(self, workload_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        assert self.any_job or workload_id == JOB
        self.kept.extend(points)
        self.store.add_points(self.epoch, {workload_id: points})

    def keeps_points(self, workload_id: WorkloadId) -> bool:
        return workload_id in self.on_the_way

    def read(self, workload: Workload, attempt: Attempt, *, rank: int, offset: int) -> LogChunk:
        assert rank == 0
        self.reads += 1
        if attempt.attempt_id not in self.printed:
            raise NotFound
        content = self.printed[attempt.attempt_id][offset:]
        over = attempt.ended_ms is not None
        return cut_log(
            content[:100], more=len(content) > 100, offset=offset, over=over, limit_bytes=100
        )

    def holds(self, workload: Workload) -> None:
        self.cluster = Cluster(workloads={workload.workload_id: workload})

    def looks(self) -> None:
        self.now_ms += 3_000
        self.following.step()


def _job(*attempts: Attempt, **changes: object) -> Workload:
    return replace(running(1), attempts=attempts, **changes)  # type: ignore[arg-type]


def _attempt(number: int = 1, *, ended_ms: int | None = None) -> Attempt:
    (made,) = running(1).attempts
    state = AttemptState.RUNNING if ended_ms is None else AttemptState.ENDED
    return replace(
        made,
        attempt_id=AttemptId(f"a-{number}"),
        number=number,
        state=state,
        started_ms=NOW,
        ended_ms=None if ended_ms is None else Millis(ended_ms),
    )


def test_lines_that_come_bit_by_bit_make_one_curve() -> None:
    world = World()
    world.holds(_job(_attempt()))
    text = b"".join(b"epoch %d/9 loss: 0.%d\n" % (n, n) for n in range(1, 9))
    for end in (*range(0, len(text), 7), len(text)):
        world.printed[AttemptId("a-1")] = text[:end]
        world.looks()
    assert [point.step for point in world.kept] == list(range(1, 9))
    assert {(p.source, p.unit, p.attempt_number) for p in world.kept} == {("log", "epoch", 1)}
    last = world.told[-1]
    assert (last.step, last.total_steps, last.source, last.metrics["loss"]) == (8, 9, "log", 0.8)


def test_a_job_that_came_and_went_between_two_looks_has_its_curve() -> None:
    world = World()
    world.following.step()
    ended = _attempt(ended_ms=NOW + 100)
    over = _job(ended, state=State.SUCCEEDED, ended_ms=NOW + 100)
    world.store.commit(world.epoch, Changes(now_ms=NOW, workloads=(over,)))
    world.cluster = Cluster()
    world.printed[AttemptId("a-1")] = b"epoch 1 loss 0.5\nepoch 2 loss 0.25"
    world.looks()
    world.looks()
    assert [(point.step, point.metrics["loss"]) for point in world.kept] == [(1, 0.5), (2, 0.25)]
    # How far it is matters to nobody any more.
    assert world.told == []


def test_a_job_that_ended_while_no_scheduler_ran_has_its_curve_however_late_the_first_look() -> (
    None
):
    world = World()
    over = _job(_attempt(ended_ms=NOW), state=State.SUCCEEDED, ended_ms=NOW)
    world.store.commit(world.epoch, Changes(now_ms=NOW, workloads=(over,)))
    world.printed[AttemptId("a-1")] = b"epoch 1 loss 0.5\n"
    world.now_ms += 5 * 60_000
    world.looks()
    assert [(point.step, point.metrics["loss"]) for point in world.kept] == [(1, 0.5)]


def test_who_judges_a_job_hears_whether_its_log_was_read_to_the_end() -> None:
    world = World()
    over = _job(_attempt(ended_ms=NOW), state=State.SUCCEEDED, ended_ms=NOW)
    world.printed[AttemptId("a-1")] = b"".join(b"epoch %d loss 0.5\n" % n for n in range(40))
    world.now_ms += 24 * 3_600_000
    world.looks()
    # Longer ago than anybody looks by themselves: it is read as somebody asks.
    assert (world.following.unread(over), world.kept) == (True, [])
    world.looks()
    assert world.following.unread(over)
    assert 0 < len(world.kept) < 40
    world.looks()
    world.on_the_way.add(JOB)
    assert world.following.unread(over)
    world.on_the_way.clear()
    assert not world.following.unread(over)
    assert len(world.kept) == 40


def test_of_many_that_ended_long_ago_each_log_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_MOST_ENDED", 3)
    world = World(any_job=True)
    world.now_ms += 24 * 3_600_000
    over = []
    for number in range(10):
        attempt = replace(_attempt(ended_ms=NOW), attempt_id=AttemptId(f"a-{number}"))
        job = _job(attempt, state=State.SUCCEEDED, ended_ms=NOW)
        over.append(replace(job, workload_id=WorkloadId(f"w-{number:04}")))
        world.printed[attempt.attempt_id] = b"epoch 1 loss 0.5\n"
    forgotten, *wanted = over
    assert world.following.unread(forgotten)
    world.looks()
    while wanted:
        for _ in range(3):  # who asks does it more seldom than logs are read
            world.looks()
        wanted = [job for job in wanted if world.following.unread(job)]
        assert world.now_ms < NOW + 25 * 3_600_000
    assert world.reads == len(over)


def test_one_users_many_jobs_keep_nobody_elses_from_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "_MOST_ENDED", 4)
    world = World(any_job=True)
    world.now_ms += 24 * 3_600_000

    def asks(owner: str, number: int) -> Workload:
        attempt = replace(_attempt(ended_ms=NOW), attempt_id=AttemptId(f"{owner}-{number}"))
        job = _job(attempt, state=State.SUCCEEDED, ended_ms=NOW)
        spec = replace(job.spec, owner=UserName(owner))
        job = replace(job, workload_id=WorkloadId(f"{owner}-{number}"), spec=spec)
        world.printed[attempt.attempt_id] = b"epoch 1 loss 0.5\n"
        assert world.following.unread(job)
        return job

    theirs = [asks("ann", number) for number in range(6)]
    mine = [asks("bob", number) for number in range(3)]
    for _ in range(4):
        world.looks()
    unread = [job.workload_id for job in (*theirs, *mine) if world.following.unread(job)]
    assert unread == ["ann-2", "ann-3", "ann-4", "ann-5", "bob-2"]


def test_a_job_that_never_began_has_nothing_to_be_read() -> None:
    world = World()
    assert not world.following.unread(_job(state=State.CANCELLED, ended_ms=NOW))


def test_who_reports_by_itself_is_not_read() -> None:
    world = World()
    told = Progress(step=3, metrics={"loss": 0.5}, at_ms=Millis(NOW + 1))
    world.holds(_job(_attempt(), progress=told))
    world.printed[AttemptId("a-1")] = b"epoch 1 loss 0.5\n" * 9
    world.looks()
    assert (world.kept, world.reads) == ([], 0)


def test_after_a_restart_the_same_points_are_read_again() -> None:
    world = World()
    world.holds(_job(_attempt()))
    world.printed[AttemptId("a-1")] = b"loss=0.5\nloss=0.4\nloss=0.3\nloss=0.2\n"
    world.looks()
    before = world.store.points(JOB, source="log")
    world.following.pause()
    world.looks()
    after = world.store.points(JOB, source="log")
    assert [(p.step, p.metrics) for p in after] == [(p.step, p.metrics) for p in before]


def test_counted_lines_of_a_later_attempt_follow_those_of_the_first() -> None:
    world = World()
    world.printed[AttemptId("a-1")] = b"loss=0.5\nloss=0.4\nloss=0.3\n"
    world.printed[AttemptId("a-2")] = b"loss=0.2\nloss=0.15\nloss=0.1\n"
    world.holds(_job(_attempt()))
    world.looks()
    world.holds(_job(_attempt(ended_ms=NOW + 3_500), _attempt(2)))
    world.looks()
    world.looks()
    steps = [(p.attempt_number, p.step) for p in world.store.points(JOB, source="log")]
    assert steps == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]
    # A line count is no progress that a sentence could name.
    assert world.told == []

    world.following.pause()
    world.looks()
    again = [(p.attempt_number, p.step) for p in world.store.points(JOB, source="log")]
    assert again == steps


def test_a_log_that_is_not_there_ends_nothing() -> None:
    world = World()
    world.holds(_job(_attempt()))
    world.looks()
    world.printed[AttemptId("a-1")] = b"epoch 1 loss 0.5\n"
    world.looks()
    assert len(world.kept) == 1

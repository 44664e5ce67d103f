"""Jobs that borrow are stopped once on purpose: when, what that shows, and for whom it speaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.going_on import drill_verdict
from gpucommons.scheduler.core.model.going_on import Drill, Hibernation, ProcessImage
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    NoticeNode,
    Pause,
    PutPools,
    Resume,
    SetNodeState,
)
from gpucommons.scheduler.core.model.resources import NodeState, Policy
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    CheckpointReported,
    MemoryReported,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    HoldClass,
    Millis,
    NodeId,
    Progress,
    Spec,
    State,
    WorkloadId,
)
from gpucommons.scheduler.service.views.drills import drill_view

MINUTE, SECOND = 60_000, 1000
CODE = "a" * 64
IMAGE = ProcessImage(user="ana", size_bytes=1 << 20, save_ms=900, sha256="0" * 64)


def of_code(name: str = "digits-1", *words: str, **more: Any) -> Spec:
    spec = a_job(name, snapshot=CODE, **more)
    role = replace(spec.roles[0], command=("python", "train.py", *(words or ("--lr=0.1", "3"))))
    return replace(spec, roles=(role,))


def save(world: World, job: WorkloadId, step: int) -> None:
    attempt_id = world.attempt_id(job)
    saved = Checkpoint(
        attempt_id=attempt_id, step=step, path="x", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))


def tell(world: World, job: WorkloadId, step: int, **more: Any) -> None:
    progress = Progress(step=step, at_ms=world.now, **more)
    world.step(ProgressReported(attempt_id=world.attempt_id(job), progress=progress))


def is_tested(world: World, job: WorkloadId) -> bool:
    stop = world.stop_of(job)
    return stop is not None and stop.why == "drill"


def drill_of(world: World, job: WorkloadId) -> Drill:
    found = world.get(job).drill
    assert found is not None
    return found


@pytest.fixture
def world() -> World:
    """Nobody has a guarantee but nlp: vision borrows."""
    return World(
        a_node(gpus=2),
        teams=[a_team(), a_team("nlp", guaranteed_milli_gpu=1000)],
        pools=[a_pool(drills="on")],
    )


def stopped_after_its_first_save(world: World, spec: Spec | None = None) -> WorkloadId:
    job = world.run(spec or of_code())
    world.wait(5 * MINUTE)
    assert not is_tested(world, job), "nothing is saved that it could go on from"
    save(world, job, 200)
    assert is_tested(world, job)
    return job


def test_a_borrower_is_stopped_after_its_first_save_and_is_safe_once_it_goes_on(
    world: World,
) -> None:
    job = stopped_after_its_first_save(world)
    assert world.state(job) is State.PREEMPTING
    world.now += 8 * SECOND
    world.end(job, 143, told=True)
    assert world.state(job) is State.STARTING, "nobody waits: it is back at once"
    assert drill_verdict.told(drill_of(world, job)) == (
        "Testing that this job can be stopped: it is to go on at step 200."
    )
    world.now += 30 * SECOND
    world.start(job)
    world.now += 3 * SECOND
    tell(world, job, 200)
    assert drill_verdict.told(drill_of(world, job)) == (
        "Tested: stops and goes on at step 200 (41 s)."
    )
    assert [one.job for one in world.cluster.badges.values()] == ["digits-1"]
    assert "drill-passed" in world.kinds()
    for _ in range(5):
        world.wait(60 * MINUTE)
        save(world, job, 300)
        assert not is_tested(world, job), "once is enough"


def test_the_next_run_of_the_same_code_is_safe_at_once(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    tell(world, job, 201)
    world.end(job)
    same = world.run(of_code("digits-2", "--lr=0.5", "7"))
    other = world.run(replace(of_code("digits-3"), snapshot="b" * 64))
    world.wait(5 * MINUTE)
    save(world, same, 200)
    assert not is_tested(world, same)
    save(world, other, 200)
    assert is_tested(world, other)


def test_one_that_begins_again_runs_only_inside_the_guarantee_and_says_why(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    tell(world, job, 1)
    assert world.stop_of(job).why == "confine"
    world.end(job, 143, told=True)
    assert world.state(job) is State.QUEUED
    reason = world.get(job).reason
    assert reason is not None
    assert reason.text == (
        "Needs 1 GPU, and this job may not borrow since its test failed: it had step 200 and began"
        " again at step 1. It may use only what vision is guaranteed, which is nothing: at this size"
        " it never starts."
    )
    assert drill_verdict.told(drill_of(world, job)).endswith(
        "It may run only inside its team's guarantee."
    )
    assert drill_verdict.as_asked(world.get(job)).over_quota, "what was submitted stays"
    assert world.cluster.badges == {}


def test_an_error_of_its_own_while_it_leaves_what_it_borrows_is_its_own(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    tell(world, job, 1)
    assert world.stop_of(job).why == "confine"
    world.end(job, 1)
    assert world.state(job) is State.FAILED


def test_one_that_failed_goes_on_inside_the_guarantee_where_there_is_room() -> None:
    world = World(
        a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=1000)], pools=[a_pool(drills="on")]
    )
    first = world.run(a_job("first"))
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    world.end(first)
    attempt = world.get(job).current
    assert attempt is not None
    assert attempt.hold_class is HoldClass.GUARANTEED
    tell(world, job, 1)
    assert world.stop_of(job) is None


def test_a_drill_that_hangs_ends_with_its_grace_and_counts_as_failed(world: World) -> None:
    job = stopped_after_its_first_save(world)
    stop = world.stop_of(job)
    assert stop.kill_ms - stop.announced_ms <= a_pool().notice_ms + a_pool().grace_ms
    world.end(job, -9, killed=True)
    assert world.state(job) is State.QUEUED
    assert drill_verdict.told(drill_of(world, job)) == (
        "Tested: it still ran when its grace was over, and had to be killed. It may run only inside"
        " its team's guarantee."
    )


def test_a_drill_that_its_node_cuts_short_is_not_held_against_its_job(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.ask(NoticeNode(node_id=NodeId("n1"), leaves_ms=Millis(world.now + 8 * SECOND)), "admin")
    assert is_tested(world, job)
    world.end(job, -9, killed=True)
    assert drill_of(world, job).pending, "it is still to be seen where it goes on"


def test_processes_that_had_no_time_to_be_saved_do_not_fail_the_test(world: World) -> None:
    job = world.submit(of_code())
    known = Hibernation(cost_ms=1)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    world.wait(MINUTE)
    world.ask(NoticeNode(node_id=NodeId("n1"), leaves_ms=Millis(world.now + 8 * SECOND)), "admin")
    world.end(job, -9, killed=True, not_saved="the time was over")
    assert world.get(job).drill is None


def test_nobody_is_tested_while_somebody_waits(world: World) -> None:
    other = world.run(a_job("other", team="nlp"))
    job = world.run(of_code())
    waits = world.submit(a_job("waits", 2000, team="nlp"))
    assert world.state(waits) is State.QUEUED
    save(world, job, 200)
    assert not is_tested(world, job)
    world.end(other)
    assert world.stop_of(job) is None or not is_tested(world, job)


def test_who_cannot_start_however_much_is_free_keeps_no_other_from_its_test(world: World) -> None:
    never = world.submit(a_job("never", over_quota=False))
    assert world.state(never) is State.QUEUED
    job = world.run(of_code())
    world.now += 10 * SECOND
    save(world, job, 200)
    assert is_tested(world, job)


def test_what_was_done_since_a_save_is_not_thrown_away_for_a_test(world: World) -> None:
    other = world.run(a_job("other", team="nlp"))
    job = world.run(of_code())
    waits = world.submit(a_job("waits", 2000, team="nlp"))
    save(world, job, 200)
    world.wait(2 * MINUTE)
    world.ask(Cancel(workload_id=waits))
    world.wait(1)
    assert not is_tested(world, job), "its next save is soon enough"
    save(world, job, 300)
    assert is_tested(world, job)
    assert world.get(other).current is not None


def test_it_is_not_tested_soon_after_another_stop(world: World) -> None:
    job = world.run(of_code())
    world.wait(5 * MINUTE)
    world.ask(Pause(workload_id=job))
    world.end(job, 143, told=True)
    world.ask(Resume(workload_id=job))
    world.start(job)
    world.now += 10 * SECOND
    save(world, job, 200)
    assert not is_tested(world, job)
    world.wait(world.outcome.wake_ms - world.now)  # type: ignore[operator] # it is looked at again
    assert is_tested(world, job)


def test_a_job_that_is_about_to_end_is_left_alone(world: World) -> None:
    job = world.run(of_code(max_run_ms=2 * MINUTE))
    world.wait(100 * SECOND)
    save(world, job, 200)
    assert not is_tested(world, job)


@pytest.mark.parametrize(("signal", "tested"), [("SIGUSR1", False), ("none", True)])
def test_a_notice_counts_as_part_of_a_test(world: World, signal: str, tested: bool) -> None:
    pool = a_pool(drills="on", notice_ms=4 * MINUTE, grace_ms=20 * SECOND)
    world.ask(PutPools(pools=(pool,)))
    job = world.run(of_code(max_run_ms=10 * MINUTE, notice_signal=signal))
    world.wait(5 * MINUTE)
    save(world, job, 200)
    assert is_tested(world, job) is tested


@pytest.mark.parametrize("waived", ["pool", "team"])
def test_where_it_is_waived_nobody_is_tested(waived: str) -> None:
    pool = a_pool(drills="off" if waived == "pool" else "on")
    team = replace(a_team(), policy=Policy(drills="off" if waived == "team" else "on"))
    world = World(a_node(gpus=2), teams=[team], pools=[pool])
    job = world.run(of_code())
    world.wait(60 * MINUTE)
    save(world, job, 200)
    assert not is_tested(world, job)


def test_what_runs_inside_a_guarantee_is_not_tested(world: World) -> None:
    job = world.run(of_code(team="nlp"))
    world.wait(60 * MINUTE)
    save(world, job, 200)
    assert not is_tested(world, job)


def test_in_a_pool_one_is_tested_at_a_time(world: World) -> None:
    first, second = world.run(of_code("a-1")), world.run(replace(of_code("b-1"), snapshot="b" * 64))
    world.wait(5 * MINUTE)
    save(world, first, 200)
    save(world, second, 200)
    assert [is_tested(world, one) for one in (first, second)] == [True, False]
    world.end(first, 143, told=True)
    world.start(first)
    assert not is_tested(world, second)
    tell(world, first, 250)
    world.wait(1)
    assert is_tested(world, second)


def test_who_is_never_heard_again_keeps_no_other_from_its_test(world: World) -> None:
    first, second = world.run(of_code("a-1")), world.run(replace(of_code("b-1"), snapshot="b" * 64))
    world.wait(5 * MINUTE)
    save(world, first, 200)
    save(world, second, 200)
    world.end(first, 143, told=True)
    world.start(first)
    world.wait(15 * MINUTE - 1)
    save(world, second, 400)
    assert not is_tested(world, second)
    world.wait(1)
    assert is_tested(world, second)
    assert drill_of(world, first).untold
    assert "drill-untold" in world.kinds()


def test_processes_that_are_saved_whole_are_tested_by_waking_them(world: World) -> None:
    job = world.submit(of_code())
    known = Hibernation(cost_ms=1)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    assert world.outcome.wake_ms is not None
    world.wait(MINUTE)
    assert is_tested(world, job)
    assert world.stop_of(job).hibernates
    end = AttemptEnded(attempt_id=world.attempt_id(job), exit_code=None, told=True, image=IMAGE)
    world.step(end)
    woken = Hibernation(cost_ms=1, woken_from=1)
    world.now += 2 * SECOND
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=woken))
    assert drill_verdict.told(drill_of(world, job)) == (
        "Tested: stops and goes on where it stopped (2 s)."
    )


def test_processes_that_cannot_be_saved_fail_the_test(world: World) -> None:
    job = world.submit(of_code())
    known = Hibernation(cost_ms=1)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    world.wait(MINUTE)
    world.end(job, 143, told=True, not_saved="it holds a socket")
    assert drill_of(world, job).failed == "its processes were to be saved: it holds a socket"


@pytest.mark.parametrize("memory_mib", [5_000, None])
def test_who_was_told_that_it_may_start_over_keeps_its_badge_when_it_does(
    world: World, memory_mib: int | None
) -> None:
    job = world.submit(of_code())
    known = Hibernation(cost_ms=1, save_mib_per_s=100, wake_mib_per_s=100)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=known))
    world.ask(Pause(workload_id=job))
    end = AttemptEnded(attempt_id=world.attempt_id(job), exit_code=None, told=True, image=IMAGE)
    world.step(end)
    world.ask(Resume(workload_id=job))
    woken = replace(known, woken_from=1)
    world.step(AttemptStarted(attempt_id=world.attempt_id(job), hibernation=woken))
    assert len(world.cluster.badges) == 1
    if memory_mib is not None:
        seen = MemoryReported(attempt_id=world.attempt_id(job), memory_mib=memory_mib)
        world.step(seen)
    world.ask(Pause(workload_id=job))
    assert world.stop_of(job).hibernates
    world.end(job, 143, told=True, not_saved="saving its 5000 MiB would take too long")
    assert len(world.cluster.badges) == 1
    assert drill_of(world, job).passed


def test_who_went_on_from_its_files_after_it_was_to_start_over_is_not_tested_in_each_run(
    world: World,
) -> None:
    """It has nothing saved, so it was followed by the steps that it tells."""
    job = world.run(of_code())
    for reached, again in ((810, 0), (2_000, 2_001)):
        world.wait(10 * MINUTE)
        tell(world, job, reached)
        world.ask(Pause(workload_id=job))
        ended = AttemptEnded(attempt_id=world.attempt_id(job), exit_code=143, files_kept=2)
        world.step(ended)
        world.ask(Resume(workload_id=job))
        world.start(job)
        world.wait(5 * SECOND)
        tell(world, job, again)
    assert drill_of(world, job).passed
    world.ask(Cancel(workload_id=job))
    world.end(job, 143)
    following = world.submit(of_code("digits-2"))
    known = Hibernation(cost_ms=1)
    world.step(AttemptStarted(attempt_id=world.attempt_id(following), hibernation=known))
    world.wait(2 * MINUTE)
    assert not is_tested(world, following)


def test_every_other_stop_shows_as_much_and_costs_nothing_more(world: World) -> None:
    world.ask(PutPools(pools=(a_pool(drills="off"),)))
    job = world.run(of_code())
    world.wait(5 * MINUTE)
    save(world, job, 200)
    world.ask(Pause(workload_id=job))
    world.end(job, 143, told=True)
    assert drill_verdict.told(drill_of(world, job)) == (
        "It was stopped: whether it goes on at step 200 is seen once it runs again."
    )
    world.wait(60 * MINUTE)
    world.ask(Resume(workload_id=job))
    world.now += 5 * SECOND
    world.start(job)
    shown = drill_view(world.get(job))
    assert shown is not None
    assert shown.text == (
        "It was stopped and runs again: its next word shows whether it goes on at step 200."
    )
    tell(world, job, 230)
    assert drill_verdict.told(drill_of(world, job)) == (
        "It was stopped and went on at step 200 (5 s)."
    )
    assert len(world.cluster.badges) == 1


def test_a_later_unclean_end_takes_the_badge_away_and_nothing_else(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    tell(world, job, 201)
    world.ask(Pause(workload_id=job))
    world.end(job, -9, killed=True)
    assert world.cluster.badges == {}
    assert "badge-lost" in world.kinds()
    world.ask(Resume(workload_id=job))
    assert world.state(job) is State.STARTING, "it may still borrow"


def test_a_save_right_after_the_start_is_no_reason_to_test_but_a_later_one_is(world: World) -> None:
    job = world.run(of_code())
    world.now += SECOND
    save(world, job, 1)
    assert not is_tested(world, job), "from there it cannot be told from a new beginning"
    world.wait(SECOND)
    assert not is_tested(world, job)
    world.wait(MINUTE)
    save(world, job, 40)
    assert is_tested(world, job)
    world.end(job, 143, told=True)
    world.start(job)
    world.now += 5 * SECOND
    tell(world, job, 41)
    assert drill_verdict.told(drill_of(world, job)).startswith(
        "Tested: stops and goes on at step 40"
    )


@pytest.mark.parametrize("step", [200, 400])
def test_a_step_that_may_have_been_reached_from_the_start_proves_nothing(
    world: World, step: int
) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    world.now += 5 * MINUTE
    tell(world, job, step)
    assert drill_verdict.told(drill_of(world, job)) == (
        "It was stopped, and whether it went on at step 200 cannot be told from what it says."
    )
    assert (world.cluster.badges, world.stop_of(job)) == ({}, None)


def test_lines_of_its_log_do_not_count_against_steps_of_its_own(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 143, told=True)
    world.start(job)
    tell(world, job, 3, source="log", unit="epoch")
    assert drill_of(world, job).pending


def test_an_error_of_its_own_during_the_drill_is_its_own(world: World) -> None:
    job = stopped_after_its_first_save(world)
    world.end(job, 1)
    assert world.state(job) is State.FAILED


@pytest.mark.parametrize("exit_code", [0, 1, None])
def test_a_job_that_is_over_before_it_was_heard_is_not_tested_for_ever(
    world: World, exit_code: int | None
) -> None:
    """The scheduler may have been away while it told its last steps; None = cancelled in line."""
    job = stopped_after_its_first_save(world)
    world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.CORDONED), "admin")
    world.end(job, 143, told=True)
    if exit_code is None:
        world.ask(Cancel(workload_id=job))
    else:
        world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.READY), "admin")
        world.start(job)
        world.end(job, exit_code)
    assert drill_verdict.told(drill_of(world, job)) == (
        "It was stopped, and whether it went on at step 200 cannot be told from what it says."
    )
    assert ("drill-untold" in world.kinds(), world.cluster.badges) == (True, {})

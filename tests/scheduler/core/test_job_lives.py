"""How jobs end, fail, pause, resume, time out and survive the loss of a node."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.going_on.ways import way_to_go_on
from gpucommons.scheduler.core.model import lifecycle
from gpucommons.scheduler.core.model.actions import SignalAttempt, StopServer
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    Pause,
    PutPolicy,
    PutTeams,
    Resume,
    SetNodeState,
    Started,
)
from gpucommons.scheduler.core.model.resources import NodeState, Policy
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    CheckpointReported,
    NodesObserved,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    AttemptState,
    Checkpoint,
    Millis,
    NodeId,
    PausedSpan,
    Progress,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue.ordering import places
from gpucommons.scheduler.errors import InvalidTransition


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=2), a_node("n2", gpus=2), teams=[a_team(guaranteed_milli_gpu=2000)])


# --- the tables ------------------------------------------------------------------------------

JOB_STATES = list(lifecycle.JOB_MOVES)
LEASE_STATES = list(lifecycle.LEASE_MOVES)


def workload_in(state: State, *, lease: bool) -> Workload:
    return Workload(
        workload_id=WorkloadId("w"),
        spec=a_notebook() if lease else a_job(),
        state=state,
        submitted_ms=Millis(0),
        since_ms=Millis(0),
    )


@pytest.mark.parametrize("lease", [False, True], ids=["job", "lease"])
def test_only_moves_of_the_table_are_possible(lease: bool) -> None:
    table = lifecycle.LEASE_MOVES if lease else lifecycle.JOB_MOVES
    for before, after in product(State, State):
        workload = workload_in(before, lease=lease)
        if after in table.get(before, ()):
            moved = lifecycle.move(workload, after, Millis(5))
            assert (moved.state, moved.since_ms) == (after, 5)
        else:
            with pytest.raises(InvalidTransition, match="cannot become"):
                lifecycle.move(workload, after, Millis(5))


@pytest.mark.parametrize("state", [s for s in JOB_STATES if s not in lifecycle.FINAL_STATES])
def test_every_live_job_can_be_cancelled(state: State) -> None:
    if state is not State.CANCELLING:
        workload = lifecycle.move(workload_in(state, lease=False), State.CANCELLING, Millis(1))
        assert lifecycle.move(workload, State.CANCELLED, Millis(2)).ended_ms == 2


def test_final_states_are_left_by_nothing_but_a_released_or_hibernated_lease() -> None:
    for state in lifecycle.FINAL_STATES:
        table = lifecycle.LEASE_MOVES if state in LEASE_STATES else lifecycle.JOB_MOVES
        assert table[state] <= (
            {State.ENDED} if state in {State.RELEASED, State.HIBERNATED} else set()
        )


# --- ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_code", "restarts", "state"),
    [
        (0, 0, State.SUCCEEDED),
        (1, 0, State.FAILED),
        (-11, 0, State.FAILED),
        (1, 1, State.QUEUED),
        (None, 0, State.QUEUED),
    ],
)
def test_what_follows_an_end(
    world: World, exit_code: int | None, restarts: int, state: State
) -> None:
    job = world.run(a_job(max_restarts=restarts))
    world.end(job, exit_code)
    assert world.state(job) is state


def test_a_failed_job_with_restarts_left_waits_out_its_back_off(world: World) -> None:
    job = world.run(a_job(max_restarts=1))
    world.end(job, 1)
    found = world.get(job)
    assert found.reason is not None
    assert found.reason.text == "It ended with exit status 1. Tries again after 10 s."
    assert world.outcome.wake_ms == world.now + 10_000
    world.wait(10_000)
    assert world.state(job) is State.STARTING
    world.start(job)
    world.end(job, 1)
    assert world.state(job) is State.FAILED


def test_an_end_seen_before_the_start_counts(world: World) -> None:
    job = world.submit(a_job())
    world.end(job, 0)
    assert world.state(job) is State.SUCCEEDED


def test_reports_of_ended_attempts_are_ignored(world: World) -> None:
    job = world.run(a_job(max_restarts=1))
    attempt = world.attempt_id(job)
    world.end(job, 1)
    before = world.cluster
    world.step(AttemptEnded(attempt_id=attempt, exit_code=0), AttemptStarted(attempt_id=attempt))
    assert world.cluster.workloads == before.workloads


def test_events_say_that_a_cancel_was_asked_for_and_later_that_it_is_done(world: World) -> None:
    job = world.run(a_job("digits"))
    world.ask(Cancel(workload_id=job))
    assert [event.text for event in world.events][-1] == "ann asked to cancel digits."
    world.end(job, 143)
    assert [event.text for event in world.events][-1] == "digits: cancelled by ann."
    assert world.get(job).ended_text == "Cancelled by ann"


def test_cancel_signals_at_once_and_waits_for_the_end(world: World) -> None:
    job = world.run(a_job())
    world.ask(Cancel(workload_id=job))
    assert world.state(job) is State.CANCELLING
    assert world.outcome.actions == (SignalAttempt(attempt_id=world.attempt_id(job)),)
    world.end(job, 0)
    assert world.state(job) is State.CANCELLED
    assert world.ask(Cancel(workload_id=job)).error == "UnknownWorkload"


def test_pause_and_resume_go_on_from_the_last_checkpoint(world: World) -> None:
    job = world.run(a_job())
    attempt = world.attempt_id(job)
    saved = Checkpoint(
        attempt_id=attempt, step=7, path="c/step-7", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=attempt, checkpoint=saved))
    world.ask(Pause(workload_id=job))
    assert world.state(job) is State.PAUSING
    world.end(job, 143)
    assert world.state(job) is State.PAUSED
    assert world.step().wake_ms is None
    world.ask(Resume(workload_id=job))
    current = world.get(job).current
    assert current is not None
    assert current.number == 2
    assert current.resumed_from == saved


def test_checkpoints_are_all_taken_but_the_history_names_few(world: World) -> None:
    job = world.run(a_job())
    attempt = world.attempt_id(job)
    start_ms = world.now
    while world.now < start_ms + 60_000:
        saved = Checkpoint(
            attempt_id=attempt,
            step=world.now,
            path="c/newest",
            size_bytes=1,
            sha256="0" * 64,
            at_ms=world.now,
        )
        world.step(CheckpointReported(attempt_id=attempt, checkpoint=saved))
        assert world.get(job).checkpoint == saved
        world.wait(500)
    assert 6 <= world.kinds().count("checkpoint") <= 7


def test_how_long_a_job_was_paused_is_known_afterwards(world: World) -> None:
    job = world.run(a_job())
    world.ask(Pause(workload_id=job))
    world.end(job, 143)
    paused_ms = world.get(job).since_ms
    world.wait(5_000)
    assert world.get(job).pauses == ()
    world.ask(Resume(workload_id=job))

    assert world.get(job).pauses == (
        PausedSpan(from_ms=paused_ms, to_ms=world.get(job).attempts[-1].reserved_ms),
    )


def test_a_checkpoint_of_an_old_attempt_is_not_taken(world: World) -> None:
    job = world.run(a_job(max_restarts=1))
    old = world.attempt_id(job)
    world.end(job, 1)
    world.wait(10_000)
    late = Checkpoint(
        attempt_id=old, step=9, path="c/step-9", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=old, checkpoint=late))
    world.step(CheckpointReported(attempt_id=world.attempt_id(job), checkpoint=late))
    assert world.get(job).checkpoint is None


def test_progress_is_kept_without_an_event(world: World) -> None:
    job = world.run(a_job())
    events = len(world.events)
    progress = Progress(step=3, total_steps=10)
    world.step(ProgressReported(attempt_id=world.attempt_id(job), progress=progress))
    assert world.get(job).progress == progress
    assert len(world.events) == events


# --- deadlines -------------------------------------------------------------------------------


def test_a_job_that_runs_too_long_is_stopped_and_fails_with_words(world: World) -> None:
    job = world.run(a_job(max_run_ms=60_000))
    assert world.outcome.wake_ms == world.now + 60_000
    world.wait(60_000)
    assert world.state(job) is State.PREEMPTING
    world.end(job, 143)
    assert world.state(job) is State.FAILED
    assert world.get(job).ended_text == "It ran longer than its limit of 60 s"


def test_pausing_a_job_again_and_again_gives_it_no_more_time_than_its_policy() -> None:
    team = replace(a_team(guaranteed_milli_gpu=4000), policy=Policy(max_run_ms=60_000))
    world = World(teams=[team])
    job = world.run(a_job())
    for _ in range(2):
        world.wait(20_000)
        world.ask(Pause(workload_id=job))
        world.end(job, 143)
        world.wait(300_000)  # rests cost nothing
        world.ask(Resume(workload_id=job))
        world.start(job)
    assert world.outcome.wake_ms == world.now + 20_000
    world.wait(20_000)
    assert world.state(job) is State.PREEMPTING
    world.end(job, 143)
    assert world.state(job) is State.FAILED
    assert world.get(job).ended_text == "It ran longer than its limit of 60 s, 3 attempts together"


def test_what_used_up_its_time_while_it_was_stopped_is_not_started_again(world: World) -> None:
    job = world.run(a_job(max_run_ms=60_000))
    world.wait(59_000)
    world.ask(Pause(workload_id=job))
    world.wait(2000)
    world.end(job, 143)
    assert world.state(job) is State.PAUSED
    world.ask(Resume(workload_id=job))
    assert world.state(job) is State.FAILED
    assert world.get(job).ended_text == "It ran longer than its limit of 60 s"
    assert world.kinds().count("admitted") == 1


def test_a_nominee_whose_policy_leaves_it_no_more_time_stops_nobody() -> None:
    nlp = a_team("nlp", guaranteed_milli_gpu=1000)
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=0), nlp])
    job = world.run(a_job(team="nlp"))
    world.wait(40_000)
    world.ask(Pause(workload_id=job))
    world.end(job, 143)
    borrower = world.run(a_job("borrower"))
    world.ask(Resume(workload_id=job))
    assert world.state(job) is State.NOMINATED
    world.ask(PutTeams(teams=(replace(nlp, policy=Policy(max_run_ms=30_000)),)), "admin")
    assert world.state(job) is State.FAILED
    assert world.stop_of(borrower) is None


def test_a_gang_not_running_in_time_is_withdrawn_whole_and_tried_again(world: World) -> None:
    job = world.submit(a_job(workers=2, start_timeout_ms=30_000))
    world.wait(30_000)
    assert world.state(job) is State.PREEMPTING
    world.end(job, -15)
    assert world.state(job) is State.QUEUED
    world.wait(10_000)
    assert world.state(job) is State.STARTING


def test_a_job_after_another_waits_for_its_success(world: World) -> None:
    first = world.run(a_job("first"))
    second = world.submit(a_job("second", after=(first,)))
    found = world.get(second)
    assert found.reason is not None
    assert found.reason.text == "Runs after first, which has not finished."
    assert places(world.cluster.workloads) == {}
    world.end(first)
    assert world.state(second) is State.STARTING


def test_a_job_after_one_that_failed_fails_with_its_name(world: World) -> None:
    first = world.run(a_job("first"))
    second = world.submit(a_job("second", after=(first,)))
    world.end(first, 1)
    assert world.state(second) is State.FAILED
    assert world.get(second).ended_text == "first, after which it should run, has failed"


@pytest.mark.parametrize(
    ("exit_code", "after_failed"),
    [(0, False), (1, False), (1, True)],
)
def test_a_job_runs_after_the_end_that_it_asks_for(
    world: World, exit_code: int, after_failed: bool
) -> None:
    first = world.run(a_job("first"))
    how = {"after_failed" if after_failed else "after_any": (first,)}
    second = world.submit(a_job("second", after=(first,), **how))
    assert world.state(second) is State.QUEUED
    world.end(first, exit_code)
    assert world.state(second) is State.STARTING


def test_a_job_after_a_failure_that_did_not_come_fails_with_its_name(world: World) -> None:
    first = world.run(a_job("first"))
    second = world.submit(a_job("second", after=(first,), after_failed=(first,)))
    world.end(first, 0)
    assert world.state(second) is State.FAILED
    assert world.get(second).ended_text == "first, after whose failure it should run, has finished"


def test_a_job_after_one_that_nobody_knows_is_kept_and_says_so(world: World) -> None:
    job = world.submit(a_job("second", after=(WorkloadId("nobody"),)))
    assert world.state(job) is State.FAILED
    said = "It should run after nobody, which nobody knows. Submit it without that"
    assert world.get(job).ended_text == said
    assert world.kinds()[-2:] == ["submitted", "failed"]


def test_a_scheduled_job_starts_at_its_time(world: World) -> None:
    job = world.submit(a_job(not_before_ms=Millis(world.now + 5_000)))
    assert world.state(job) is State.QUEUED
    assert world.outcome.wake_ms == world.now + 5_000
    world.wait(5_000)
    assert world.state(job) is State.STARTING


# --- nodes -----------------------------------------------------------------------------------


def lose_n1(world: World) -> None:
    world.step(NodesObserved(executor="fake", nodes=(a_node("n2", gpus=2),)))


def test_an_attempt_on_a_lost_node_counts_as_live_until_the_node_is_fenced(world: World) -> None:
    job = world.run(a_job())
    current = world.get(job).current
    assert current is not None
    assert current.placements[0].node_id == "n1"
    lose_n1(world)
    assert world.cluster.nodes[NodeId("n1")].state is NodeState.LOST
    world.wait(3_600_000)
    assert world.state(job) is State.RUNNING
    world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.FENCED))
    assert world.state(job) is State.QUEUED
    world.wait(10_000)
    current = world.get(job).current
    assert current is not None
    assert current.placements[0].node_id == "n2"


def test_a_gang_with_one_fenced_node_is_stopped_and_waited_for(world: World) -> None:
    job = world.run(a_job(workers=4))
    lose_n1(world)
    world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.FENCED))
    attempt = world.get(job).current
    assert attempt is not None
    assert attempt.state is AttemptState.STOPPING
    world.end(job, None)
    assert world.state(job) is State.QUEUED


def test_a_node_comes_back_with_what_runs_on_it(world: World) -> None:
    job = world.run(a_job())
    lose_n1(world)
    world.step(NodesObserved(executor="fake", nodes=(a_node("n1", gpus=2), a_node("n2", gpus=2))))
    assert world.cluster.nodes[NodeId("n1")].state is NodeState.READY
    assert world.state(job) is State.RUNNING


def test_a_cordoned_node_keeps_what_runs_and_takes_nothing_new(world: World) -> None:
    running = world.run(a_job("d-1"))
    world.ask(SetNodeState(node_id=NodeId("n1"), state=NodeState.CORDONED))
    assert world.state(running) is State.RUNNING
    current = world.get(world.submit(a_job("d-2"))).current
    assert current is not None
    assert current.placements[0].node_id == "n2"


def test_an_unknown_attempt_changes_nothing(world: World) -> None:
    assert world.step(AttemptEnded(attempt_id=AttemptId("nobody"), exit_code=0)).changes.empty


def test_a_policy_that_came_later_keeps_a_job_waiting(world: World) -> None:
    blockers = [world.run(a_job(f"d-{i}", 2000)) for i in range(2)]
    job = world.submit(a_job("big", 2000))
    world.ask(PutPolicy(policy=Policy(max_milli_gpu_per_job=1000)))
    for blocker in blockers:
        world.end(blocker)
    reason = world.get(job).reason
    assert reason is not None
    assert reason.text == "Policy `max_milli_gpu_per_job`: asks for 2 GPUs, at most 1."


# --- a device that is gone ---------------------------------------------------------------------


def test_who_holds_a_gpu_that_is_gone_from_its_node_is_ended_with_the_reason() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team(fixed_milli_gpu=1000)])
    notebook = world.submit(a_notebook("ann", 1000), redeem=True)
    world.ask(Started(workload_id=notebook))
    job = world.run(a_job("d-1"))
    held = {
        one: attempt.placements[0].device_ids[0]
        for one in (notebook, job)
        if (attempt := world.get(one).current) is not None
    }
    for one, act in ((job, SignalAttempt), (notebook, StopServer)):
        left = tuple(d for d in node.devices if d.device_id != held[one])
        world.step(NodesObserved(executor="fake", nodes=(replace(node, devices=left),)))
        stop = world.stop_of(one)
        assert stop.why == "lost"
        assert stop.text == f"Its GPU {held[one]} is gone from n1"
        assert any(isinstance(due, act) for due in world.outcome.actions)
        world.end(one, None)
        world.step(NodesObserved(executor="fake", nodes=(node,)))
    assert world.state(job) is State.QUEUED
    assert world.state(notebook) is State.ENDED
    assert world.get(notebook).ended_text == f"Its GPU {held[notebook]} is gone from n1"


def test_what_is_left_of_a_job_s_gpus_stays_held_until_its_processes_are_gone() -> None:
    node = a_node(gpus=2, cpu_milli=4000)
    world = World(node, teams=[a_team()])
    job = world.run(a_job("d-1", 2000, cpu_milli=3000))
    world.step(NodesObserved(executor="fake", nodes=(replace(node, devices=node.devices[:1]),)))
    for_its_gpu = world.submit(a_job("d-2"))
    for_its_cpu = world.submit(a_job("d-3", 0, cpu_milli=2000))
    assert world.get(for_its_gpu).current is None
    assert world.get(for_its_cpu).current is None
    world.end(job, None)
    assert world.state(for_its_gpu) is State.STARTING
    assert world.state(for_its_cpu) is State.STARTING


def test_who_was_promised_a_gpu_that_is_gone_gets_another() -> None:
    nodes = (a_node("n1", gpus=1), a_node("n2", gpus=1))
    world = World(*nodes, teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    for number in range(2):
        world.run(a_job(f"a-{number}", team="a"))
    owner = world.submit(a_job("b-1", team="b"))
    promised = place_of(world, owner)
    left = tuple(replace(one, devices=()) if one.node_id == promised else one for one in nodes)
    world.step(NodesObserved(executor="fake", nodes=left))
    assert place_of(world, owner) != promised
    world.step(NodesObserved(executor="fake", nodes=tuple(replace(n, devices=()) for n in nodes)))
    assert world.get(owner).nomination is None
    assert world.state(owner) is State.QUEUED


def place_of(world: World, job: WorkloadId) -> NodeId:
    nomination = world.get(job).nomination
    assert nomination is not None, world.get(job)
    return nomination.placements[0].node_id


def test_a_gpu_that_nobody_held_may_go_without_a_word_to_anybody() -> None:
    node = a_node(gpus=2)
    world = World(node, teams=[a_team()])
    job = world.run(a_job("d-1"))
    attempt = world.get(job).current
    assert attempt is not None
    held = tuple(d for d in node.devices if d.device_id in attempt.placements[0].device_ids)
    world.step(NodesObserved(executor="fake", nodes=(replace(node, devices=held),)))
    assert world.stop_of(job) is None
    assert world.state(job) is State.RUNNING


@pytest.mark.parametrize(("metrics", "word"), [({"epoch": 7.0}, "epoch"), ({"loss": 7.0}, "step")])
def test_what_was_saved_is_said_in_what_the_job_counts_in(
    world: World, metrics: dict[str, float], word: str
) -> None:
    job = world.run(a_job())
    attempt = world.attempt_id(job)
    world.step(ProgressReported(attempt_id=attempt, progress=Progress(step=7, metrics=metrics)))
    saved = Checkpoint(
        attempt_id=attempt, step=7, path="c/step-7", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=attempt, checkpoint=saved))
    assert world.events[-1].text == f"digits-1 saved {word} 7."
    world.submit(replace(a_job("digits-2"), resume_from=job))
    submitted = next(e for e in world.events if "digits-2 was submitted" in e.text)
    assert submitted.text == f"digits-2 was submitted and goes on from {word} 7."
    (later,) = (w for w in world.cluster.workloads.values() if w.spec.resume_from == job)
    way = way_to_go_on(later)
    assert way is not None
    assert way.unit == word, "before it has told of its own progress"

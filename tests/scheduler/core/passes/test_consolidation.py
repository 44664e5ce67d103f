"""Jobs that move so that another one fits: who, where to, how often, and what is said of it."""

from __future__ import annotations

from builders import TRAIN, World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.intents import Cancel, Started
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import Checkpoint, HoldClass, State, TeamName, WorkloadId

MINUTE = 60_000


def save(world: World, job: WorkloadId) -> None:
    attempt_id = world.attempt_id(job)
    checkpoint = Checkpoint(
        attempt_id=attempt_id, step=7, path="x", size_bytes=1, sha256="0" * 64, at_ms=world.now
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint))


def half_full(world: World, **more: object) -> list[WorkloadId]:
    """One half-GPU job on each GPU."""
    gpus = sum(len(node.devices) for node in world.cluster.nodes.values())
    jobs = [world.run(a_job(f"half-{i}", 500, **more)) for i in range(2 * gpus)]
    seen: set[str] = set()
    kept = []
    for job in jobs:
        attempt = world.get(job).current
        assert attempt is not None
        (device_id,) = attempt.placements[0].device_ids
        if device_id in seen:
            world.end(job)
        else:
            seen.add(device_id)
            kept.append(job)
    return kept


def moving(world: World) -> list[WorkloadId]:
    return [
        workload.workload_id
        for workload in world.cluster.workloads.values()
        if workload.current is not None
        and workload.current.stop is not None
        and workload.current.stop.why == "move"
    ]


def until_promised(world: World, job: WorkloadId) -> None:
    while world.get(job).nomination is None:
        assert world.outcome.wake_ms is not None, "nobody would ever look again"
        world.wait(world.outcome.wake_ms - world.now)


def test_one_of_two_half_used_gpus_is_cleared_for_a_job_that_needs_a_whole_one() -> None:
    world = World(a_node(gpus=2), teams=[a_team()])
    kept = half_full(world)
    whole = world.submit(a_job("whole", 1000))
    assert world.state(whole) is State.QUEUED
    assert not moving(world)
    world.wait(MINUTE)
    (mover,) = moving(world)
    assert mover in kept
    (stays,) = [job for job in kept if job != mover]
    promise = world.get(mover).nomination
    other = world.get(stays).current
    assert promise is not None
    assert other is not None
    assert promise.placements[0].device_ids == other.placements[0].device_ids
    assert world.state(whole) is State.NOMINATED
    assert world.step().changes.empty
    save(world, mover)
    world.end(mover, 143)
    moved = world.get(mover).current
    assert moved is not None
    assert moved.placements[0].device_ids == other.placements[0].device_ids
    assert moved.resumed_from is not None
    assert moved.resumed_from.step == 7
    assert world.state(whole) is State.STARTING
    assert "moved" in world.kinds()
    assert "evicted" not in world.kinds()


def test_pieces_count_as_what_its_class_may_use_of_them() -> None:
    """A free GPU that is kept for notebooks is none; the pieces beside it would be enough."""
    pool = a_pool(headroom_milli_gpu=1000)
    world = World(a_node(gpus=3), teams=[a_team(fixed_milli_gpu=1000)], pools=[pool])
    jobs = [world.run(a_job(f"half-{i}", 500)) for i in range(4)]
    on = {job: world.get(job).current.placements[0].device_ids for job in jobs}  # type: ignore[union-attr]
    world.end(jobs[0])
    world.end(next(job for job in jobs if on[job] != on[jobs[0]]))
    reason = world.get(world.submit(a_job("whole", 1000))).reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        "fragmentation",
        "Needs 1 GPU; 2 half-free GPUs, none whole.",
    )


def test_pieces_of_other_sizes_are_not_called_halves() -> None:
    world = World(a_node(gpus=3), teams=[a_team()])
    jobs = [world.run(a_job(f"quarter-{i}", 250)) for i in range(12)]
    by_gpu: dict[object, list[object]] = {}
    for job in jobs:
        by_gpu.setdefault(world.get(job).current.placements[0].device_ids, []).append(job)  # type: ignore[union-attr]
    for here, ended in zip(by_gpu.values(), (3, 2, 1), strict=True):
        for job in here[:ended]:
            world.end(job)  # type: ignore[arg-type]
    reason = world.get(world.submit(a_job("whole", 1000))).reason
    assert reason is not None
    assert reason.text == "Needs 1 GPU; 3 partly free GPUs, none whole."


def test_whole_gpus_and_pieces_that_would_be_enough_together_are_fragmentation() -> None:
    world = World(a_node(gpus=3), teams=[a_team()])
    kept = half_full(world)
    world.end(kept[0])
    reason = world.get(world.submit(a_job("two", 2000))).reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        "fragmentation",
        "Needs 2 GPUs on one node; 1 whole and 2 half-free GPUs.",
    )


def test_why_it_waits_names_the_halves_and_who_moves() -> None:
    world = World(a_node(gpus=3), teams=[a_team()])
    half_full(world)
    whole = world.submit(a_job("whole", 1000))
    reason = world.get(whole).reason
    assert reason is not None
    assert reason.code == "fragmentation"
    assert reason.text == "Needs 1 GPU; 3 half-free GPUs, none whole."
    world.wait(MINUTE)
    reason = world.get(whole).reason
    assert reason is not None
    (mover,) = moving(world)
    name = world.get(mover).spec.name
    assert reason.text == f"3 half-free GPUs, none whole; moving {name} frees one."


def test_a_job_is_not_moved_where_nobody_gains() -> None:
    world = World(a_node(gpus=2), teams=[a_team()])
    half_full(world)
    world.submit(a_job("large", 2000))
    world.wait(MINUTE)
    assert not moving(world)


def test_a_job_that_would_lose_much_stays_until_it_has_saved() -> None:
    world = World(a_node(gpus=2), teams=[a_team()])
    first, second = half_full(world)
    world.wait(6 * MINUTE)
    whole = world.submit(a_job("whole", 1000))
    assert not moving(world)
    save(world, second)
    assert moving(world) == [second]
    assert world.state(whole) is State.NOMINATED
    assert world.stop_of(first) is None


def test_a_job_is_moved_once_in_its_life_and_few_move_within_an_hour() -> None:
    world = World(a_node(gpus=4), teams=[a_team()])
    half_full(world)
    first = world.submit(a_job("whole-1", 1000))
    second = world.submit(a_job("whole-2", 1000))
    world.wait(MINUTE)
    (mover,) = moving(world)
    assert sorted([world.state(first), world.state(second)]) == [State.NOMINATED, State.QUEUED]
    save(world, mover)
    world.end(mover, 143)
    world.start(mover)
    for workload in list(world.cluster.workloads.values()):
        if workload.state is State.STARTING:
            world.start(workload.workload_id)
        if workload.state is State.RUNNING:
            save(world, workload.workload_id)
    world.wait(58 * MINUTE)
    assert not moving(world)
    # The hour has an end of its own: nothing else would bring a cycle about then.
    due_ms = world.outcome.wake_ms
    announced = [a.stop.announced_ms for a in world.get(mover).attempts if a.stop is not None]
    assert due_ms is not None
    assert due_ms == announced[0] + 60 * MINUTE
    world.wait(due_ms - world.now)
    (next_mover,) = moving(world)
    assert next_mover != mover


def test_a_pool_may_say_that_nobody_moves() -> None:
    world = World(a_node(gpus=2), teams=[a_team()], pools=[a_pool(moved_permille=0)])
    half_full(world)
    world.submit(a_job("whole", 1000))
    world.wait(MINUTE)
    assert not moving(world)


def test_notebooks_never_move() -> None:
    world = World(a_node(gpus=2), teams=[a_team(fixed_milli_gpu=1500), a_team("b")])
    for owner, milli in (("ann", 500), ("bob", 1000)):
        lease = world.submit(a_notebook(owner, milli), redeem=True)
        world.ask(Started(workload_id=lease))
    half = world.run(a_job("half", 250, team=TeamName("b")))
    world.submit(a_job("three", 500, team=TeamName("b")))
    world.wait(MINUTE)
    assert moving(world) in ([], [half])


def test_in_guarantee_jobs_move_for_one_inside_its_guarantee_and_stay_inside_theirs() -> None:
    world = World(
        a_node(gpus=2),
        teams=[
            a_team("a", guaranteed_milli_gpu=1000),
            a_team("b", guaranteed_milli_gpu=1000),
        ],
    )
    half_full(world, team=TeamName("a"), over_quota=True)
    whole = world.submit(a_job("whole", 1000, team=TeamName("b"), over_quota=False))
    world.wait(MINUTE)
    (mover,) = moving(world)
    promise = world.get(mover).nomination
    assert promise is not None
    assert promise.hold_class is HoldClass.GUARANTEED
    end = world.get(whole).nomination
    assert end is not None
    assert end.hold_class is HoldClass.GUARANTEED


def test_who_was_to_move_is_spared_when_the_waiting_job_is_gone() -> None:
    world = World(a_node(gpus=2), teams=[a_team()])
    half_full(world)
    whole = world.submit(a_job("whole", 1000))
    world.wait(MINUTE)
    (mover,) = moving(world)
    world.ask(Cancel(workload_id=whole))
    assert world.stop_of(mover) is None
    assert world.get(mover).nomination is None
    assert world.step().changes.empty


def test_a_guarantee_takes_the_place_that_a_mover_was_promised() -> None:
    world = World(a_node(gpus=2), teams=[a_team(), a_team("b", guaranteed_milli_gpu=2000)])
    half_full(world)
    whole = world.submit(a_job("whole", 1000))
    world.wait(MINUTE)
    (mover,) = moving(world)
    owner = world.submit(a_job("owner", 2000, team=TeamName("b")))
    assert world.state(owner) is State.NOMINATED
    assert world.state(whole) is State.QUEUED
    assert world.get(mover).nomination is None
    assert world.step().changes.empty


def test_a_guarantee_that_fits_the_place_of_a_mover_starts_at_once_and_nobody_ends_for_it() -> None:
    world = World(a_node(gpus=2), teams=[a_team(), a_team("b", guaranteed_milli_gpu=2000)])
    half_full(world)
    whole = world.submit(a_job("whole", 1000))
    world.wait(MINUTE)
    (mover,) = moving(world)
    owner = world.submit(a_job("owner", 500, team=TeamName("b")))
    assert world.state(owner) is State.STARTING
    assert world.stop_of(mover) is None
    assert world.state(whole) is State.QUEUED
    assert world.step().changes.empty


def test_who_was_moved_is_not_stopped_for_a_share_as_well() -> None:
    world = World(a_node(gpus=2), teams=[a_team("a"), a_team("b")])
    kept = half_full(world, team=TeamName("a"))
    whole = world.submit(a_job("whole", 1000, team=TeamName("a")))
    world.wait(MINUTE)
    (mover,) = moving(world)
    save(world, mover)
    world.end(mover, 143)
    world.start(mover)
    world.start(whole)
    claim = world.submit(a_job("claim", 500, team=TeamName("b")))
    moved_ms = world.get(mover).attempts[0].ended_ms
    assert moved_ms is not None
    until_promised(world, claim)
    assert world.now < moved_ms + world.cluster.pools[TRAIN].half_life_ms
    assert [world.stop_of(job) is not None for job in kept] == [job != mover for job in kept]


def test_who_was_stopped_for_a_share_is_not_moved_for_a_borrower_as_well() -> None:
    world = World(a_node(gpus=2), teams=[a_team("a"), a_team("b")])
    jobs = [world.run(a_job(f"half-{i}", 500, team=TeamName("a"))) for i in range(4)]
    claim = world.submit(a_job("claim", 500, team=TeamName("b")))
    until_promised(world, claim)
    (stopped,) = [job for job in jobs if world.stop_of(job) is not None]
    save(world, stopped)
    world.end(stopped, 143)
    world.start(claim)
    world.end(claim)
    world.start(stopped)
    # One half of each GPU is free; only the job that was stopped would lose little by a move.
    places = {job: gpu_of(world, job) for job in jobs}
    for gpu in set(places.values()):
        world.end(next(job for job in jobs if places[job] == gpu and job != stopped))
    world.submit(a_job("whole", 1000, team=TeamName("b")))
    save(world, stopped)
    world.wait(10 * MINUTE)
    assert not moving(world)


def gpu_of(world: World, job: WorkloadId) -> str:
    attempt = world.get(job).current
    assert attempt is not None
    return str(attempt.placements[0].device_ids[0])


def test_a_small_job_moves_before_a_large_one_that_has_nowhere_to_go() -> None:
    world = World(a_node("n1", gpus=8), a_node("n2", gpus=8), teams=[a_team()])
    large = [world.run(a_job("large-1", 4000))]
    beside = world.run(a_job("beside-1", 4000))
    large.append(world.run(a_job("large-2", 4000)))
    rest = world.run(a_job("rest-2", 3000))
    small = [world.run(a_job("small-2", 1000))]
    world.end(beside)
    small.append(world.run(a_job("small-1", 1000)))
    world.end(rest)
    world.wait(4 * MINUTE)
    for job in large:
        save(world, job)
    claim = world.submit(a_job("claim", 4000))
    (mover,) = moving(world)
    assert mover in small
    assert world.state(claim) is State.NOMINATED


def test_who_moves_for_another_team_is_not_told_its_jobs_name() -> None:
    world = World(a_node(gpus=3), teams=[a_team(), a_team("nlp")])
    half_full(world)
    whole = world.submit(a_job("secret-plan", 1000, team="nlp"))
    world.wait(MINUTE)
    (mover,) = moving(world)
    stop = world.stop_of(mover)
    assert stop is not None
    assert stop.text == "to make room for a job of nlp, and goes on elsewhere"
    reason = world.get(whole).reason
    assert reason is not None
    assert reason.text.endswith("moving a borrowing job of another team frees one.")

"""Who starts, who waits and who goes: guarantees, borrowing, priority, gangs, elastic jobs."""

from __future__ import annotations

import pytest
from builders import TRAIN, World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.actions import SpareAttempt
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.intents import Cancel, SetQuotas
from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.types import HoldClass, Kind, ReasonClass, Role, State
from gpucommons.scheduler.core.queue.ordering import places
from gpucommons.scheduler.core.whatif.counterfactuals import ways


def held(world: World, job: str) -> int:
    attempt = world.get(job).current  # type: ignore[arg-type]
    return (
        0 if attempt is None else sum(p.milli_gpu * len(p.device_ids) for p in attempt.placements)
    )


def hold_class(world: World, job: str) -> HoldClass | None:
    attempt = world.get(job).current  # type: ignore[arg-type]
    return None if attempt is None else attempt.hold_class


# --- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "wins"),
    [
        ({}, {}, "first"),
        ({}, {"priority": "high"}, "second"),
        ({"priority": "low"}, {}, "second"),
        ({"priority": "high"}, {"priority": "high"}, "first"),
    ],
    ids=["age", "high-before-normal", "normal-before-low", "equal-priority-by-age"],
)
def test_of_two_waiting_jobs_of_a_team_one_goes_first(
    first: dict[str, str], second: dict[str, str], wins: str
) -> None:
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    running = world.run(a_job("running", priority="high"))
    jobs = {
        "first": world.submit(a_job("first", **first)),
        "second": world.submit(a_job("second", **second)),
    }
    world.end(running)
    states = {name: world.state(job) for name, job in jobs.items()}
    loser = {"first": "second", "second": "first"}[wins]
    assert states == {wins: State.STARTING, loser: State.QUEUED}
    assert places(world.cluster.workloads) == {jobs[loser]: 1}


def test_the_surplus_goes_by_weight() -> None:
    world = World(
        a_node(gpus=6), teams=[a_team("a", over_quota_weight=2), a_team("b", over_quota_weight=1)]
    )
    blocker = world.run(a_job("blocker", 6000, team="a"))
    jobs = [world.submit(a_job(f"{t}-{i}", team=t)) for i in range(6) for t in ("b", "a")]
    world.now += 1  # type: ignore[assignment]
    world.end(blocker)
    started = [world.get(j).spec.team for j in jobs if world.state(j) is State.STARTING]
    assert sorted(started) == ["a"] * 4 + ["b"] * 2


def test_a_team_with_weight_zero_never_borrows() -> None:
    world = World(teams=[a_team(over_quota_weight=0)])
    job = world.get(world.submit(a_job()))
    assert job.state is State.QUEUED
    assert job.reason is not None
    assert job.reason.code is ReasonClass.NEVER
    assert job.reason.text.startswith("Needs 1 GPU, and vision may not borrow.")


def test_a_limit_caps_guaranteed_and_borrowed_together() -> None:
    world = World(teams=[a_team(guaranteed_milli_gpu=1000, limit_milli_gpu=2000)])
    classes = [hold_class(world, world.submit(a_job(f"d-{i}"))) for i in range(3)]
    assert classes == [HoldClass.GUARANTEED, HoldClass.OVER_QUOTA, None]


# --- guarantees ------------------------------------------------------------------------------


def test_in_guarantee_work_stays_out_of_fixed_blocks() -> None:
    world = World(
        a_node(gpus=2),
        teams=[a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp", fixed_milli_gpu=1000)],
    )
    job = world.get(world.submit(a_job()))
    assert job.current is not None
    blocked = {d for block in world.cluster.blocks for d in block.device_ids}
    assert blocked.isdisjoint(job.current.placements[0].device_ids)


def test_a_borrower_becomes_in_guarantee_when_quota_allows() -> None:
    world = World(teams=[a_team(guaranteed_milli_gpu=1000)])
    first, second = world.run(a_job("d-1")), world.run(a_job("d-2"))
    assert hold_class(world, second) is HoldClass.OVER_QUOTA
    world.end(first)
    assert hold_class(world, second) is HoldClass.GUARANTEED
    assert "upgraded" in world.kinds()


def test_retrain_jobs_borrow_only_unless_their_team_says_otherwise() -> None:
    world = World(teams=[a_team(guaranteed_milli_gpu=1000)])
    job = world.submit(a_job(kind=Kind.RETRAIN))
    assert hold_class(world, job) is HoldClass.OVER_QUOTA


def test_a_withdrawn_claim_spares_its_victims_before_sigterm() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    borrower = world.run(a_job("d-1", team="a"))
    claimer = world.submit(a_job("b-1", team="b"))
    world.wait(10_000)
    world.ask(Cancel(workload_id=claimer))
    assert world.state(claimer) is State.CANCELLED
    assert world.state(borrower) is State.RUNNING
    assert world.stop_of(borrower) is None
    spare = SpareAttempt(attempt_id=world.attempt_id(borrower))
    assert world.outcome.actions == (spare,)
    assert world.step().actions == (spare,), "repeated, because a crash may have lost the first"


def test_after_sigterm_a_victim_cannot_be_spared() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    borrower = world.run(a_job("d-1", team="a"))
    claimer = world.submit(a_job("b-1", team="b"))
    world.wait(30_000)
    world.ask(Cancel(workload_id=claimer))
    assert world.state(borrower) is State.PREEMPTING
    world.end(borrower, 143)
    assert world.state(borrower) is State.STARTING
    assert len(world.get(borrower).attempts) == 2


def test_a_nominee_takes_what_becomes_free_sooner() -> None:
    world = World(a_node(gpus=2), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    jobs = [world.run(a_job(f"d-{i}", team="a")) for i in range(2)]
    claimer = world.submit(a_job("b-1", team="b"))
    (other,) = [job for job in jobs if world.stop_of(job) is None]
    world.end(other)
    assert world.state(claimer) is State.STARTING
    (victim,) = [job for job in jobs if job != other]
    assert world.stop_of(victim) is None


def test_the_victim_with_the_least_work_lost_goes_and_of_equals_the_newest() -> None:
    world = World(a_node(gpus=3), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=2000)])
    oldest = world.run(a_job("d-1", team="a"))
    world.wait(10_000)
    older = world.run(a_job("d-2", team="a"))
    newest = world.run(a_job("d-3", team="a"))
    world.wait(10_000)
    world.submit(a_job("b-1", team="b"))
    assert [world.stop_of(j) is not None for j in (oldest, older, newest)] == [False, False, True]


def test_no_more_victims_than_needed() -> None:
    world = World(
        a_node(gpus=4),
        a_node("n2", gpus=4),
        teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=4000)],
    )
    jobs = [world.run(a_job(f"d-{i}", team="a")) for i in range(8)]
    claimer = world.submit(a_job("b-1", 2000, team="b"))
    nomination = world.get(claimer).nomination
    assert nomination is not None
    assert len(nomination.victims) == 2
    assert sum(world.stop_of(job) is not None for job in jobs) == 2


def test_saving_other_quotas_decides_promises_anew() -> None:
    world = World(a_node(gpus=2), teams=[a_team("a"), a_team("b", guaranteed_milli_gpu=1000)])
    world.run(a_job("d-1", 2000, team="a"))
    claimer = world.submit(a_job("b-1", team="b"))
    lowered = Quota(guaranteed_milli_gpu=0, fixed_milli_gpu=1000)
    verdict = world.ask(SetQuotas(quotas={(world.get(claimer).spec.team, TRAIN): lowered}))
    assert verdict.error is None
    assert world.state(claimer) is State.QUEUED


# --- inside a team ---------------------------------------------------------------------------


def test_high_priority_preempts_inside_its_team_after_the_minimum_run_time() -> None:
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    low = world.run(a_job("low", priority="low"))
    world.wait(59_999)
    high = world.submit(a_job("high", priority="high"))
    assert world.state(high) is State.QUEUED
    assert world.outcome.wake_ms == world.now + 1
    world.wait(1)
    assert world.state(high) is State.NOMINATED
    world.end(low, 143)
    assert world.state(high) is State.STARTING
    assert hold_class(world, high) is HoldClass.GUARANTEED
    (receipt,) = [event for event in world.events if event.kind == "evicted"]
    assert receipt.data["rule"] == "priority"
    # Its page says for whom, not with which exit status.
    said = world.get(low).attempts[-1].ended_text
    assert said == (
        "Stopped for high (higher priority): starts its command anew and finds the files that it"
        " wrote, if any are kept; what it did since it last saved is repeated, 60 s of work at most"
    )


def test_priority_reaches_no_other_team() -> None:
    world = World(a_node(gpus=1), teams=[a_team("a", guaranteed_milli_gpu=1000), a_team("b")])
    world.run(a_job("low", team="a", priority="low"))
    world.wait(600_000)
    high = world.submit(a_job("high", team="b", priority="high"))
    assert world.state(high) is State.QUEUED


def test_a_fair_share_is_won_back_after_the_minimum_run_time() -> None:
    world = World(a_node(gpus=4), teams=[a_team("a"), a_team("b")])
    jobs = [world.run(a_job(f"a-{i}", team="a")) for i in range(4)]
    first, second, third = (world.submit(a_job(f"b-{i}", team="b")) for i in range(3))
    assert world.state(first) is State.QUEUED
    # Shares are compared every hour and a half; until then something may end by itself.
    world.wait(2 * 3_600_000)
    assert [world.state(j) for j in (first, second, third)] == [
        State.NOMINATED,
        State.NOMINATED,
        State.QUEUED,
    ]
    assert sum(world.stop_of(job) is not None for job in jobs) == 2


# --- gangs and elastic jobs ------------------------------------------------------------------


def test_a_gang_starts_whole_or_not_at_all() -> None:
    world = World(a_node(gpus=2), a_node("n2", gpus=2), teams=[a_team()])
    one = world.run(a_job("d-1"))
    gang = world.submit(a_job("gang", workers=4))
    assert world.state(gang) is State.QUEUED
    reason = world.get(gang).reason
    assert reason is not None
    assert reason.code is ReasonClass.GANG
    assert reason.text == "Needs 4 workers at once, each with 1 GPU on one node; 3 GPUs are free."
    world.end(one)
    assert held(world, gang) == 4000


def test_a_large_worker_lies_on_one_node() -> None:
    world = World(a_node(gpus=2), a_node("n2", gpus=3), teams=[a_team()])
    job = world.get(world.submit(a_job("d-1", 4000)))
    assert job.reason is not None
    assert job.reason.code is ReasonClass.MISCONFIGURED
    three = world.get(world.submit(a_job("d-2", 3000)))
    assert three.current is not None
    assert three.current.placements[0].node_id == "n2"


def test_roles_of_a_gang_are_placed_together() -> None:
    roles = (
        Role(name="chief", count=1, milli_gpu=2000, command=("true",)),
        Role(name="worker", count=2, milli_gpu=1000, command=("true",)),
    )
    world = World(a_node(gpus=2), a_node("n2", gpus=2), teams=[a_team()])
    job = world.get(world.submit(a_job("d-1", roles=roles)))
    assert job.current is not None
    assert [(p.role, p.index) for p in job.current.placements] == [
        ("chief", 0),
        ("worker", 0),
        ("worker", 1),
    ]


def test_an_elastic_job_takes_what_there_is_within_its_bounds() -> None:
    world = World(a_node(gpus=3), teams=[a_team(guaranteed_milli_gpu=1000)])
    job = world.submit(a_job("d-1", min_workers=1, max_workers=8))
    attempt = world.get(job).current
    assert attempt is not None
    assert attempt.hold_class is HoldClass.GUARANTEED
    assert [p.surplus for p in attempt.placements] == [False, True, True]


def test_an_elastic_job_that_grows_onto_another_node_has_the_drivers_of_both() -> None:
    world = World(
        a_node(gpus=1, driver="550.54.15"),
        a_node("n2", gpus=1, driver="580.95.05"),
        teams=[a_team(guaranteed_milli_gpu=1000)],
    )
    attempt = world.get(world.submit(a_job("d-1", min_workers=1, max_workers=2))).current
    assert attempt is not None
    assert attempt.drivers == ("550.54.15", "580.95.05")


def test_only_the_surplus_of_an_elastic_job_is_taken_and_it_keeps_its_devices() -> None:
    world = World(
        a_node(gpus=3),
        teams=[a_team("a", guaranteed_milli_gpu=1000), a_team("b", guaranteed_milli_gpu=1000)],
    )
    elastic = world.run(a_job("d-1", team="a", min_workers=1, max_workers=3))
    assert held(world, elastic) == 3000
    claimer = world.submit(a_job("b-1", team="b"))
    stop = world.stop_of(elastic)
    assert stop.why == "resize"
    kept = world.get(elastic).nomination
    assert kept is not None
    assert len(kept.placements) == 2
    world.wait(30_000)
    world.end(elastic, 143)
    assert world.state(claimer) is State.STARTING
    assert world.state(elastic) is State.STARTING
    attempt = world.get(elastic).current
    assert attempt is not None
    assert [p.device_ids for p in attempt.placements] == [p.device_ids for p in kept.placements]
    assert [p.index for p in attempt.placements] == [0, 1]


def test_work_without_a_gpu_runs_beside_and_keeps_off_gpu_nodes() -> None:
    cpu = a_node("c1", gpus=0, pool="cpu", cpu_milli=2000)
    world = World(a_node(gpus=1), cpu, pools=[a_pool(), a_pool("cpu")], teams=[a_team()])
    spec = a_job("prep", 0, pools=("cpu", "train"), cpu_milli=1500)
    first, second = (
        world.submit(spec),
        world.submit(a_job("prep-2", 0, pools=("cpu", "train"), cpu_milli=1500)),
    )
    assert [hold_class(world, j) for j in (first, second)] == [HoldClass.CPU, HoldClass.CPU]
    nodes = [world.get(j).current.placements[0].node_id for j in (first, second)]  # type: ignore[union-attr]
    assert nodes == ["c1", "n1"]


def test_a_reason_names_the_smaller_size_that_would_start_now() -> None:
    world = World(a_node(gpus=4), teams=[a_team()])
    world.run(a_job("d-1"))
    job = world.get(world.submit(a_job("d-2", 4000)))
    assert job.reason is not None
    assert job.reason.text == "Needs 4 GPUs on one node; 3 are free."
    assert job.reason.unblock == "Would start now with 3 GPUs."
    assert job.reason.startable_milli_gpu == 3000


def test_a_smaller_size_that_fits_beside_a_notebook_starts_now_and_stops_nobody() -> None:
    team = a_team(fixed_milli_gpu=1000, guaranteed_milli_gpu=500)
    world = World(a_node(gpus=2), teams=[team])
    world.run(a_notebook())
    borrower = world.run(a_job("d-1"))
    job = world.get(world.submit(a_job("d-2")))
    assert job.reason is not None
    assert job.reason.startable_milli_gpu == 500
    assert job.reason.unblock == "Would start now with ½ GPU."
    told = [way.text for way in ways(world.cluster, job.workload_id, world.now, every_size)]
    assert "Would start now with ½ GPU." in told
    assert world.state(world.submit(a_job("d-3", 500))) is State.STARTING
    assert world.stop_of(borrower) is None


def test_what_starts_now_is_said_beside_the_headroom_that_the_next_cycle_keeps() -> None:
    world = World(
        a_node(gpus=2),
        teams=[a_team(fixed_milli_gpu=2000), a_team("b")],
        pools=[a_pool(headroom_milli_gpu=875)],
    )
    waits = world.submit(a_job("waits", 2000, team="b"))
    for number, size in enumerate(("½", "¼", "¼")):
        world.submit(a_job(f"small-{number}", 125, team="b"))
        reason = world.get(waits).reason
        assert reason is not None
        assert reason.unblock == f"Would start now with {size} GPU."
        assert world.step().changes.empty

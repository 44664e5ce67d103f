"""The recorded past under other quotas: before and after, for admins, without disturbing anybody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import PoolName, TeamName
from gpucommons.scheduler.errors import (
    BadRequest,
    CannotLayOut,
    Forbidden,
    NotFound,
    TooManyRequests,
    UnknownPool,
    UnknownTeam,
)
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service import leases
from gpucommons.scheduler.service.administration import replays, settings
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.simulation.history import play
from gpucommons.scheduler.simulation.more_gpus import with_more

HOUR = 3_600_000


def wish(
    guaranteed: int | None = None, *, fixed: int = 1000, team: str = "vision"
) -> models.ReplayRequest:
    if guaranteed is None:
        return models.ReplayRequest(days=7)
    quota = models.QuotaModel(
        fixed_milli_gpu=fixed, guaranteed_milli_gpu=guaranteed, limit_milli_gpu=guaranteed
    )
    change = models.QuotaChange(team=team, pool="gpu", quota=quota)
    return models.ReplayRequest(days=7, changes=[change])


@pytest.fixture
def busy(world: ServiceWorld) -> ServiceWorld:
    """Six hours in which ann's four jobs ran side by side."""
    world.script = Script(run_ms=2 * HOUR)
    ann = world.principal("ann")
    for i in range(4):
        jobs.submit(
            world.service, ann, a_request(name=f"job-{i}", role={"milli_gpu": 1000}), key=None
        )
    for step_ms in (1, 2 * HOUR, 4 * HOUR - 1):
        world.pass_time(step_ms)
    return world


def test_the_same_quotas_give_the_same_past_twice(busy: ServiceWorld) -> None:
    view = replays.replay(busy.service, busy.admin, wish())

    assert view.before == view.after
    assert "Lost, at most" not in view.text
    assert view.workloads == 4
    assert view.until_ms - view.from_ms == 6 * HOUR
    assert view.before.total.jobs == 4
    assert view.before.total.held_gpu_h == 8.0
    assert view.before.idle_gpu_h == 4 * 6 - 8
    assert view.before.teams["vision"].worst_tenth_wait_s == 0
    assert "4 notebooks and jobs" in view.text
    assert "All figures are simulated: that past, played with today's quotas." in view.text


def test_the_figures_before_a_change_are_said_to_be_simulated_too(busy: ServiceWorld) -> None:
    text = replays.replay(busy.service, busy.admin, wish(1000)).text

    assert "All figures are simulated, those before the change too" in text


def test_a_change_without_consequence_is_said(busy: ServiceWorld) -> None:
    said = "Nothing would have been different."

    assert said in replays.replay(busy.service, busy.admin, wish(0, fixed=0, team="nlp")).text
    assert said not in replays.replay(busy.service, busy.admin, wish(1000)).text
    assert said not in replays.replay(busy.service, busy.admin, wish()).text


def test_a_lower_limit_makes_jobs_wait(busy: ServiceWorld) -> None:
    view = replays.replay(busy.service, busy.admin, wish(1000))

    assert view.before.teams["vision"].worst_tenth_wait_s == 0
    # One after the other, two hours each: the fourth does not come to run in the six hours.
    assert view.after.teams["vision"].median_wait_s == 2 * 3600
    assert view.after.teams["vision"].worst_tenth_wait_s == 6 * 3600
    # Whoever never started waited longer than that, and nobody knows how much.
    vision = view.after.teams["vision"]
    assert (vision.median_is_open, vision.worst_tenth_is_open) == (False, True)
    assert not view.before.teams["vision"].worst_tenth_is_open
    assert view.after.total.held_gpu_h == 6.0


def test_who_asks_for_more_than_their_team_may_have_waits_for_nothing(world: ServiceWorld) -> None:
    """A notebook of a size that its team's quota has no more: its wait would be the replay's length."""
    bob = world.principal("bob")
    ask = models.LeaseRequest(milli_gpu=1000)
    ticket = done(leases.wait_in_line(world.service, bob, ask, key=None))
    for _ in range(30):
        world.pass_time(1000)
    done(leases.end_lease(world.service, bob, ticket.id, models.EndReport()))
    world.pass_time(HOUR)
    view = replays.replay(world.service, world.admin, wish(500, fixed=500, team="nlp"))
    before, after = view.before.teams["nlp"], view.after.teams["nlp"]
    assert (before.jobs, before.never_started) == (1, 0)
    assert (after.jobs, after.never_started, after.worst_tenth_wait_s) == (0, 1, None)
    assert (
        "Left out of the waits, because they ask for more than their team's quota and never start:"
        " 0 before, 1 after." in view.text
    )
    assert "Left out" not in replays.replay(world.service, world.admin, wish()).text


@pytest.mark.parametrize(
    ("may_borrow", "guaranteed", "limit"),
    [(False, 0, None), (False, 500, None), (True, 500, 500)],
)
def test_a_job_beyond_its_teams_guarantee_or_limit_waits_for_nothing(
    world: ServiceWorld, may_borrow: bool, guaranteed: int, limit: int | None
) -> None:
    """No end of another would help it."""
    world.script = Script(run_ms=HOUR)
    ask = a_request(role={"milli_gpu": 1000}, over_quota=may_borrow)
    jobs.submit(world.service, world.principal("ann"), ask, key=None)
    for step_ms in (1, 2 * HOUR):
        world.pass_time(step_ms)
    quota = models.QuotaModel(
        fixed_milli_gpu=1000, guaranteed_milli_gpu=guaranteed, limit_milli_gpu=limit
    )
    change = models.QuotaChange(team="vision", pool="gpu", quota=quota)
    view = replays.replay(
        world.service, world.admin, models.ReplayRequest(days=7, changes=[change])
    )
    before, after = view.before.teams["vision"], view.after.teams["vision"]
    assert (before.jobs, before.never_started) == (1, 0)
    assert (after.jobs, after.never_started, after.worst_tenth_wait_s) == (0, 1, None)
    assert "never start: 0 before, 1 after." in view.text


def test_of_too_long_a_past_the_end_is_played_whole_and_that_is_said(
    busy: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.script = Script(run_ms=HOUR)
    for i in range(3):
        request = a_request(name=f"late-{i}", role={"milli_gpu": 1000})
        jobs.submit(busy.service, busy.principal("ann"), request, key=None)
    for step_ms in (1, HOUR, HOUR):
        busy.pass_time(step_ms)
    monkeypatch.setattr(replays, "_MOST", 5)
    monkeypatch.setattr(replays, "_PAGE", 2)
    view = replays.replay(busy.service, busy.admin, wish())
    assert view.workloads == 3
    assert view.before.total.held_gpu_h == 3.0
    assert "3 notebooks and jobs of the last 2.0 hours" in view.text
    assert "More than 5 ended in the last 7 days" in view.text
    monkeypatch.setattr(replays, "_MOST", 7)
    whole = replays.replay(busy.service, busy.admin, wish())
    assert whole.text.startswith("7 notebooks and jobs of the last 7 days")


def test_many_live_jobs_hide_no_ended_one(
    busy: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "_MOST", 4)
    for i in range(6):
        request = a_request(name=f"live-{i}", role={"milli_gpu": 1000})
        jobs.submit(busy.service, busy.principal("ann"), request, key=None)
        busy.pass_time(1)
    assert replays.replay(busy.service, busy.admin, wish()).workloads == 10


def test_what_cannot_be_submitted_any_more_is_counted(busy: ServiceWorld) -> None:
    cluster = busy.cluster
    stage, _ = replays._stage(busy.service, cluster, 7)
    gone = replace(stage.past[0], spec=replace(stage.past[0].spec, team=TeamName("gone")))
    outcome = play(replace(stage, past=(gone, *stage.past[1:]))).outcome()
    assert "1 of them could not be submitted" in replays._sentence(stage, outcome, "", whole=True)


def test_nothing_is_changed_by_a_replay(busy: ServiceWorld) -> None:
    before = busy.cluster

    replays.replay(busy.service, busy.admin, wish(1000))

    assert busy.cluster is before


def test_quotas_that_cannot_be_laid_out_are_refused(busy: ServiceWorld) -> None:
    with pytest.raises(CannotLayOut, match="over by"):
        replays.replay(busy.service, busy.admin, wish(1000, fixed=4000))


def test_unknown_teams_are_named(busy: ServiceWorld) -> None:
    with pytest.raises(UnknownTeam, match="chemistry"):
        replays.replay(busy.service, busy.admin, wish(1000, team="chemistry"))


def test_it_is_for_admins(busy: ServiceWorld) -> None:
    for name in ("ann", "ada"):
        with pytest.raises(Forbidden, match="replay"):
            replays.replay(busy.service, busy.principal(name), wish())


def test_an_empty_past_says_so(world: ServiceWorld) -> None:
    with pytest.raises(NotFound, match="nothing to replay"):
        replays.replay(world.service, world.admin, wish())


def test_one_replay_at_a_time(busy: ServiceWorld) -> None:
    with replays._one_at_a_time, pytest.raises(TooManyRequests, match="Another replay"):
        replays.replay(busy.service, busy.admin, wish())


def test_where_the_log_says_otherwise_than_the_baseline_that_is_told(world: ServiceWorld) -> None:
    """Under the quotas of then a notebook took a GPU back; under today's nobody would."""
    world.script = Script(run_ms=2 * HOUR)
    for i in range(4):
        request = a_request(name=f"job-{i}", role={"milli_gpu": 1000})
        jobs.submit(world.service, world.principal("ann"), request, key=None)
        world.pass_time(100)
    world.pass_time(HOUR)
    ask = models.LeaseRequest(milli_gpu=1000)
    ticket = done(leases.wait_in_line(world.service, world.principal("bob"), ask, key=None))
    for _ in range(30):
        world.pass_time(1000)
    done(leases.end_lease(world.service, world.principal("bob"), ticket.id, models.EndReport()))
    assert "evicted" in {one.event.kind for one in world.store.events(limit=1000)}
    same = replays.replay(world.service, world.admin, wish())
    assert same.before.total.evictions == 1
    assert 0 < same.before.total.lost_gpu_h < 1.1
    assert (
        "Lost, at most: as if work saved every 30 min and loaded for 2 min when it went on; receipts"
        in same.text
    )
    assert "In truth" not in same.text
    changes = [
        models.QuotaChange(team="nlp", pool="gpu", quota=models.QuotaModel()),
        models.QuotaChange(
            team="vision",
            pool="gpu",
            quota=models.QuotaModel(fixed_milli_gpu=0, guaranteed_milli_gpu=4000),
        ),
    ]
    world.pass_time(2 * HOUR)
    done(settings.set_quotas(world.service, world.admin, models.QuotaChanges(changes=changes)))
    other = replays.replay(world.service, world.admin, wish())
    assert other.before.total.evictions == 0
    assert (
        "In truth there was 1 eviction; played with today's quotas all the time there are none"
        in other.text
    )


def more(gpus: int = 2, pool: str = "gpu") -> models.ReplayRequest:
    return models.ReplayRequest(days=7, more=[models.MoreGpus(pool=pool, gpus=gpus)])


def test_on_more_gpus_those_who_waited_start_and_those_bought_for_nothing_are_idle(
    world: ServiceWorld,
) -> None:
    world.script = Script(run_ms=2 * HOUR)
    for number in range(6):
        request = a_request(name=f"job-{number}", role={"milli_gpu": 1000})
        jobs.submit(world.service, world.principal("ann"), request, key=None)
    for step_ms in (1, *[HOUR // 2] * 12):
        world.pass_time(step_ms)
    bought = replays.replay(world.service, world.admin, more())
    before, after = (side.total.worst_tenth_wait_s for side in (bought.before, bought.after))
    assert (before, after) == (7200, 0)
    assert "played again on today's 4 GPUs." in bought.text
    assert "After: 2 more in gpu, which are in no quota unless one is changed" in bought.text
    too_many = replays.replay(world.service, world.admin, more(4))
    assert too_many.after.total == bought.after.total
    assert too_many.after.idle_gpu_h > bought.after.idle_gpu_h


def test_more_gpus_that_nobody_waited_for_are_said_to_be_idle(busy: ServiceWorld) -> None:
    found = replays.replay(busy.service, busy.admin, more())

    assert found.after.idle_gpu_h > found.before.idle_gpu_h
    assert found.text.endswith(
        " No wait and no eviction would have been different: they would have been idle."
    )


def test_more_gpus_come_in_machines_like_those_of_the_pool(world: ServiceWorld) -> None:
    cluster = with_more(world.cluster, {PoolName("gpu"): 6})
    made = [node for name, node in cluster.nodes.items() if name not in world.cluster.nodes]
    assert [len(node.devices) for node in made] == [4, 2]
    assert made[1].cpu_milli * 2 == made[0].cpu_milli
    assert (
        len({device.device_id for node in cluster.nodes.values() for device in node.devices}) == 10
    )
    assert with_more(world.cluster, {}) == world.cluster


def test_more_of_what_is_not_there_is_refused_in_a_sentence(busy: ServiceWorld) -> None:
    with pytest.raises(UnknownPool, match="There is no pool 'h200'"):
        replays.replay(busy.service, busy.admin, more(pool="h200"))
    with pytest.raises(BadRequest, match="No machine of cpu has GPUs now"):
        replays.replay(busy.service, busy.admin, more(pool="cpu"))

"""A new model of a schedule is compared with the promoted one, and that one's results stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_world import ADMIN, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import Millis, Progress, WorkloadId
from gpucommons.scheduler.errors import Forbidden, Misconfigured
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.loop.retention import Retention
from gpucommons.scheduler.models.jobs.schedules import PromotionRequest
from gpucommons.scheduler.service.schedules import promotions, schedules

SECOND = 1000


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def put(world: ServiceWorld, **promote: object) -> None:
    request = models.ScheduleRequest.model_validate(
        {
            "schedule": "@yearly",
            "job": a_request(name="digits"),
            "promote": {"metric": "accuracy", **promote} if promote.get("metric", 1) else None,
        }
    )
    schedules.put_schedule(world.service, world.principal("ann"), "ann", "retrain", request)


def step(world: ServiceWorld) -> None:
    Schedules(world.service, epoch=lambda: world.loop.epoch).step()


def run(
    world: ServiceWorld, value: float | None, exit_code: int = 0, *, metric: str = "accuracy"
) -> None:
    """One run by hand, which tells this."""
    world.script = Script(run_ms=20 * SECOND, exit_code=exit_code)
    schedules.run_schedule(world.service, world.principal("ann"), "ann", "retrain")
    step(world)
    world.pass_time(10 * SECOND)
    (job,) = (one for one in world.cluster.workloads.values() if one.current is not None)
    assert job.current is not None
    if value is not None:
        told = Progress(step=3, metrics={metric: value}, at_ms=world.now_ms)
        world.loop.observe(ProgressReported(attempt_id=job.current.attempt_id, progress=told))
    for _ in range(6):
        world.pass_time(11 * SECOND)
        step(world)


def view(world: ServiceWorld) -> models.ScheduleView:
    return schedules.schedule(world.service, world.principal("ann"), "ann", "retrain")


def verdicts(world: ServiceWorld) -> list[tuple[str, str]]:
    return [(one.verdict, one.why) for one in reversed(view(world).runs)]


def events(world: ServiceWorld) -> list[str]:
    kinds = frozenset({"schedule-promoted", "schedule-kept", "schedule-undecided"})
    return [one.event.text for one in world.store.events(kinds=kinds)]


def promote(world: ServiceWorld, job: str, who: str = "ann") -> models.ScheduleView:
    asked = PromotionRequest(job=job)
    who_asks = world.principal(who)
    return promotions.promote_schedule(world.service, who_asks, "ann", "retrain", asked)


def test_a_better_model_is_promoted_and_a_worse_one_is_not(world: ServiceWorld) -> None:
    put(world)
    for value in (97.8, 98.1, 98.0, 98.1, None):
        run(world, value)
    run(world, 99.9, exit_code=1)
    assert verdicts(world) == [
        ("promoted", "accuracy 97.8, the first"),
        ("promoted", "accuracy 98.1, was 97.8"),
        ("kept", "accuracy 98, was 98.1: retrain-2 kept"),
        ("kept", "accuracy 98.1, was 98.1: retrain-2 kept"),
        ("none", "It ended without a word of accuracy; it told no metric at all"),
        ("none", "It failed: there is nothing to compare"),
    ]
    promoted = view(world).promoted
    assert promoted is not None
    assert (promoted.job_name, promoted.value, promoted.by) == ("retrain-2", 98.1, None)
    assert events(world) == [
        "schedule retrain of ann was given retrain-1 as its model: accuracy 97.8, the first",
        "schedule retrain of ann was given retrain-2 as its model: accuracy 98.1, was 97.8",
        "schedule retrain of ann was not given retrain-3 as its model:"
        " accuracy 98, was 98.1: retrain-2 kept",
        "schedule retrain of ann was not given retrain-4 as its model:"
        " accuracy 98.1, was 98.1: retrain-2 kept",
    ]


def test_what_a_script_prints_in_upper_case_is_compared_too(world: ServiceWorld) -> None:
    put(world)
    run(world, 97.8, metric="Accuracy")
    put(world, metric="ACCURACY")
    run(world, 97.7)
    assert verdicts(world) == [
        ("promoted", "accuracy 97.8, the first"),
        ("kept", "ACCURACY 97.7, was 97.8: retrain-1 kept"),
    ]


def test_a_run_that_told_other_metrics_is_not_compared_and_they_are_named(
    world: ServiceWorld,
) -> None:
    put(world, metric="loss")
    run(world, 0.4, metric="train loss")
    assert verdicts(world) == [
        ("none", "It ended without a word of loss; what it told: train loss")
    ]


def test_the_lowest_is_better_where_that_is_said(world: ServiceWorld) -> None:
    put(world, direction="minimize")
    for value in (0.5, 0.7, 0.4):
        run(world, value)
    assert [verdict for verdict, _ in verdicts(world)] == ["promoted", "kept", "promoted"]


def test_values_of_another_metric_are_not_compared(world: ServiceWorld) -> None:
    put(world)
    run(world, 0.9)
    put(world, metric="top5")
    found = view(world).promoted
    assert found is not None
    assert (found.metric, found.value) == ("accuracy", 0.9)
    run(world, 0.5, metric="top5")
    assert verdicts(world)[-1] == ("promoted", "top5 0.5, the first")


def test_by_hand_nothing_is_promoted_until_somebody_does(world: ServiceWorld) -> None:
    put(world, rule="by hand")
    run(world, 97)
    assert verdicts(world) == [("waits", "accuracy 97: promoted by hand alone")]
    assert view(world).promoted is None
    promoted = promote(world, "retrain-1").promoted
    assert promoted is not None
    assert (promoted.job_name, promoted.by) == ("retrain-1", "ann")
    run(world, 99)
    assert verdicts(world)[1] == (
        "waits",
        "accuracy 99, the promoted one has 97: promoted by hand alone",
    )


def test_what_somebody_chose_holds_until_a_better_one_comes(world: ServiceWorld) -> None:
    put(world)
    run(world, 98)
    run(world, 97)
    chosen = promote(world, "retrain-2", "ada").promoted
    assert chosen is not None
    assert (chosen.job_name, chosen.why) == ("retrain-2", "accuracy 97, chosen by ada")
    put(world)  # written anew, it holds
    run(world, 97.5)
    promoted = view(world).promoted
    assert promoted is not None
    assert (promoted.job_name, promoted.why) == ("retrain-3", "accuracy 97.5, was 97")


def test_what_has_no_value_is_not_promoted_and_teammates_promote_nothing(
    world: ServiceWorld,
) -> None:
    put(world)
    run(world, None)
    with pytest.raises(Misconfigured, match="retrain-1 told no accuracy: choose a run"):
        promote(world, "retrain-1")
    with pytest.raises(Forbidden, match="a lead of vision or an admin may promote a model of it"):
        promote(world, "retrain-1", "alf")
    world.script = Script(run_ms=10)
    put(world, metric="")
    with pytest.raises(Misconfigured, match="compares no models"):
        promote(world, "retrain-1")


def test_a_run_is_compared_once_all_that_it_told_was_read(world: ServiceWorld) -> None:
    put(world)
    unread = True

    def look() -> None:
        world.pass_time(11 * SECOND)
        Schedules(world.service, epoch=lambda: world.loop.epoch, unread=lambda _job: unread).step()

    world.script = Script(run_ms=SECOND)
    schedules.run_schedule(world.service, world.principal("ann"), "ann", "retrain")
    for _ in range(5):
        look()
    assert verdicts(world) == [("", "")]
    unread = False
    look()
    assert verdicts(world) == [
        ("none", "It ended without a word of accuracy; it told no metric at all")
    ]


def test_the_promoted_model_stays_when_others_are_forgotten(world: ServiceWorld) -> None:
    put(world)
    for value in (97, 98, 96):
        run(world, value)
    root = world.principal("root", ADMIN)
    schedules.suspend_schedule(world.service, root, "ann", "retrain")
    world.pass_time(10 * 24 * 3_600_000)
    retention = Retention(store=world.store, retention_ms=1000)
    retention.prune_due(world.loop.epoch, world.cluster, Millis(world.now_ms))
    found = view(world)
    by_name = {one.job_name: WorkloadId(one.job_id or "") for one in found.runs}
    kept = [name for name, job in by_name.items() if world.store.workload(job) is not None]
    assert kept == ["retrain-2"]

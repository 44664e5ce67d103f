"""That a sweep, map or pipeline is over is put on record once; one whose owner has left ends, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_world import OnDemand, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import sweeps
from gpucommons.scheduler.service.pipelines import pipelines
from gpucommons.scheduler.service.pipelines.copies import Copies

SECOND, MINUTE = 1000, 60_000
GONE = "JupyterHub knows no user ann any more: nothing of theirs is started."


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def a_map(world: ServiceWorld, count: int) -> models.SweepView:
    request = models.SweepRequest.model_validate(
        {"job": a_request(name="seeds"), "given": [{"seed": n} for n in range(count)]}
    )
    return sweeps.submit_sweep(world.service, world.principal("ann"), request, key=None)


def a_pipeline(world: ServiceWorld) -> None:
    steps = [
        {"name": "clean", "job": a_request()},
        {"name": "train", "job": a_request(), "after": {"clean": "ok"}},
    ]
    request = models.PipelineRequest.model_validate({"name": "nightly", "steps": steps})
    pipelines.submit_pipeline(world.service, world.principal("ann"), request, key=None)


def of_sweep(world: ServiceWorld, made: models.SweepView) -> models.SweepView:
    return sweeps.sweep(world.service, world.principal("ann"), made.id)


def of_pipeline(world: ServiceWorld) -> models.PipelineView:
    return pipelines.pipeline(world.service, world.principal("ann"), "ann", "nightly-1")


def both(world: ServiceWorld) -> tuple[Sweeps, Pipelines]:
    """The controllers of a scheduler that has just started."""
    epoch = lambda: world.loop.epoch  # noqa: E731
    copies = Copies(OnDemand())
    return Sweeps(world.service, epoch=epoch), Pipelines(world.service, epoch=epoch, copies=copies)


def pass_time(world: ServiceWorld, ms: int, *, every_ms: int = 2 * SECOND) -> None:
    upkeep = both(world)
    for _ in range(ms // every_ms):
        for one in upkeep:
            one.step()
        world.pass_time(every_ms)


def told(world: ServiceWorld) -> list[tuple[str, str, object]]:
    return [
        (event.kind, event.text, event.data["failed"])
        for stored in world.store.events(after=0, limit=10_000)
        if (event := stored.event).kind.endswith("-over")
    ]


def test_what_is_over_is_told_once_with_what_became_of_it(world: ServiceWorld) -> None:
    world.machine.script_of = lambda launch: Script(
        run_ms=SECOND, exit_code=int(launch.workload.spec.roles[0].command[-1:] == ("1",))
    )
    made = a_map(world, 3)
    a_pipeline(world)
    pass_time(world, 40 * SECOND)

    assert of_sweep(world, made).ended_ms is not None
    assert sorted(told(world)) == [
        ("map-over", "map seeds-1 is over: All its jobs are over. 1 of 3 failed.", 1),
        ("pipeline-over", "pipeline nightly-1 of ann is over: 2 succeeded.", 0),
    ]


def test_a_pipeline_that_is_begun_anew_is_over_once_more(world: ServiceWorld) -> None:
    world.script = Script(run_ms=SECOND, exit_code=1)
    a_pipeline(world)
    pass_time(world, 20 * SECOND)
    world.script = Script(run_ms=SECOND)
    ann = world.principal("ann")
    pipelines.retry_pipeline(world.service, ann, "ann", "nightly-1", models.StepRef())
    pass_time(world, 20 * SECOND)

    assert [(text, failed) for _, text, failed in told(world)] == [
        ("pipeline nightly-1 of ann is over: 1 failed, 1 blocked.", 2),
        ("pipeline nightly-1 of ann is over: 2 succeeded.", 0),
    ]


@pytest.mark.parametrize("lost", ["sweeps", "pipelines"])
def test_a_scheduler_that_dies_before_it_writes_the_end_down_tells_it_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    world.script = Script(run_ms=SECOND)
    a_map(world, 1)
    a_pipeline(world)
    store = getattr(world.store, lost)
    written = store.stand

    def dies_at_the_end(*words: object, **more: object) -> object:
        standing = words[2] if lost == "pipelines" else getattr(words[1], "standing", None)
        if getattr(standing, "ended_ms", None) is not None:
            raise KeyboardInterrupt
        return written(*words, **more)

    with monkeypatch.context() as patched:
        patched.setattr(store, "stand", dies_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            pass_time(world, 40 * SECOND)
    world.pass_time(SECOND)
    pass_time(world, 20 * SECOND)

    assert sorted(kind for kind, *_ in told(world)) == ["map-over", "pipeline-over"]


@pytest.mark.parametrize("away_ms", [8 * MINUTE, 16 * MINUTE])
def test_an_owner_who_has_left_is_waited_for_ten_minutes_also_by_two_schedulers(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, away_ms: int
) -> None:
    world.script = Script(run_ms=SECOND)
    made = a_map(world, 2)
    a_pipeline(world)
    with monkeypatch.context() as patched:
        patched.setattr(world.directory, "knows", lambda _user: False)
        for _ in range(2):
            pass_time(world, away_ms // 2)
        assert GONE in of_sweep(world, made).text
        assert of_pipeline(world).steps[0].text == GONE
    pass_time(world, 5 * MINUTE)

    swept, piped = of_sweep(world, made), of_pipeline(world)
    if away_ms > 10 * MINUTE:
        assert (swept.done, swept.ended_ms is not None, swept.text) == (0, True, GONE)
        assert [(one.state, one.text) for one in piped.steps] == [
            ("refused", GONE),
            ("blocked", "Needs clean, whose job was refused."),
        ]
    else:
        assert (swept.done, piped.state) == (2, "succeeded")

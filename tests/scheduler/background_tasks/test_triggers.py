"""Triggers of schedules: by real jobs of their owner, through a scheduler that dies at each point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.errors import Forbidden, Misconfigured, NotFound, Unavailable
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.models.jobs.schedules import MetricPost
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.jobs.jobs import JobFilter
from gpucommons.scheduler.service.schedules import schedules, triggers
from gpucommons.scheduler.store.base import WorkloadFilter

SECOND, MINUTE = 1000, 60_000
PATH = {"data": {"path": "/srv/data", "every_s": 60}}
AFTER = {"after": {"job": "clean"}}
METRIC = {"metric": {"name": "accuracy", "below": 97.5}}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def put(world: ServiceWorld, *asked: object, **changes: object) -> models.ScheduleView:
    fields = {"triggers": list(asked), "job": a_request(name="digits"), **changes}
    request = models.ScheduleRequest.model_validate(fields)
    return schedules.put_schedule(world.service, world.principal("ann"), "ann", "retrain", request)


def post(world: ServiceWorld, value: float, name: str = "accuracy") -> models.ScheduleView:
    posted = MetricPost(name=name, value=value)
    ann = world.principal("ann")
    return triggers.post_metric(world.service, ann, "ann", "retrain", posted)


def view(world: ServiceWorld) -> models.ScheduleView:
    return schedules.schedule(world.service, world.principal("ann"), "ann", "retrain")


def step(world: ServiceWorld, *, times: int = 3, pass_ms: int = 11 * SECOND) -> None:
    for _ in range(times):
        world.pass_time(pass_ms)
        Schedules(world.service, epoch=lambda: world.loop.epoch).step()


def clean(world: ServiceWorld, *, run_ms: int | None = 10, exit_code: int = 0) -> models.JobView:
    world.script = Script(run_ms=run_ms, exit_code=exit_code)
    made = jobs.submit(world.service, world.principal("ann"), a_request(name="clean"), key=None)
    world.pass_time(MINUTE)
    return made


def names(world: ServiceWorld) -> list[str]:
    found = jobs.jobs(world.service, world.principal("ann"), JobFilter(), cursor=None)
    return sorted(job.name for job in found.jobs)


def runs(world: ServiceWorld) -> list[tuple[str, str]]:
    return [(run.job_name or run.outcome, run.cause) for run in reversed(view(world).runs)]


def test_the_end_of_another_job_starts_a_run_by_how_it_ended(world: ServiceWorld) -> None:
    clean(world)
    put(world, AFTER)
    step(world)
    assert names(world) == ["clean-1"], "what ended before it was written is nothing to it"
    clean(world, exit_code=1)
    clean(world)
    step(world)
    assert runs(world) == [("retrain-1", "clean-3 finished")]
    put(world, {"after": {"job": "clean", "on": "failed"}})
    clean(world)
    clean(world, exit_code=1)
    step(world)
    assert runs(world)[1:] == [("retrain-2", "clean-5 failed")]


def test_one_job_by_its_number_starts_one_run(world: ServiceWorld) -> None:
    over = clean(world)
    for ref in ("clean-1", over.id):
        with pytest.raises(Misconfigured, match="clean-1 is over already"):
            put(world, {"after": {"job": ref}})
    with pytest.raises(NotFound):
        put(world, {"after": {"job": "clean-9"}})
    going = clean(world, run_ms=5 * MINUTE)
    put(world, {"after": {"job": going.id}})
    clean(world)
    assert (step(world), runs(world)) == (None, [])
    world.pass_time(5 * MINUTE)
    step(world)
    assert runs(world) == [("retrain-1", "clean-2 finished")]
    # It can still be written anew, and has heard that end.
    put(world, {"after": {"job": going.id}}, concurrency_policy="Allow")
    put(world, {"after": {"job": "clean-2"}}, concurrency_policy="Replace")
    step(world)
    assert len(runs(world)) == 1


def test_another_version_of_data_starts_a_run_that_carries_it(world: ServiceWorld) -> None:
    world.script = Script(run_ms=10, lines=("looking", "7f3a9c (3 files, 212 MiB)"))
    put(world, PATH)
    step(world)
    assert (names(world), runs(world)) == (["retrain-look-1"], [])
    (trigger,) = view(world).triggers
    assert (trigger.version, trigger.problem) == ("7f3a9c (3 files, 212 MiB)", "")
    (look,) = world.store.workloads(WorkloadFilter()).items
    assert (look.spec.labels["origin"], look.spec.roles[0].milli_gpu) == (
        "look of schedule retrain",
        0,
    )
    step(world, pass_ms=MINUTE)
    assert runs(world) == []
    world.script = Script(run_ms=10, lines=("8e (3 files, 213 MiB)",))
    step(world, times=6, pass_ms=30 * SECOND)
    assert runs(world) == [("retrain-1", "/srv/data changed")]
    assert view(world).runs[0].version == "8e (3 files, 213 MiB)"
    found = jobs.job(world.service, world.principal("ann"), "retrain-1")
    assert found.request is not None
    assert found.request.labels["data-version"] == "8e (3 files, 213 MiB)"


def test_a_look_that_goes_on_has_looked_at_nothing_yet(world: ServiceWorld) -> None:
    world.script = Script(run_ms=10, lines=("7f3a9c",))
    put(world, PATH)
    step(world)
    (before,) = view(world).triggers
    assert before.checked_ms is not None
    world.script = Script(run_ms=3 * MINUTE, lines=("8e",))
    step(world, pass_ms=30 * SECOND)
    assert names(world) == ["retrain-look-1", "retrain-look-2"]
    assert view(world).triggers == [before]
    step(world, times=2, pass_ms=2 * MINUTE)
    assert view(world).triggers[0].version == "8e"


def test_a_look_that_fails_or_prints_nothing_is_told_and_starts_nothing(
    world: ServiceWorld,
) -> None:
    world.script = Script(run_ms=10, exit_code=1, lines=("There is no /srv/data for you.",))
    put(world, PATH)
    step(world)
    (trigger,) = view(world).triggers
    words = "The look retrain-look-1 did not end well: There is no /srv/data for you."
    assert trigger.problem == words
    world.script = Script(run_ms=10)
    step(world, pass_ms=MINUTE)
    (trigger,) = view(world).triggers
    assert "printed nothing" in trigger.problem
    assert runs(world) == []


def test_a_metric_that_falls_starts_a_run_and_is_an_event(world: ServiceWorld) -> None:
    put(world, METRIC)
    for value in (98, 96.9, 96):
        told = post(world, value)
    assert (told.triggers[0].value, told.triggers[0].posted_ms) == (96, world.service.now_ms())
    step(world)
    assert runs(world) == [("retrain-1", "accuracy 96 is below 97.5")]
    kinds = [one.event for one in world.store.events() if one.event.kind == "schedule-metric-fell"]
    assert [one.text for one in kinds] == [
        "schedule retrain of ann was told: accuracy 96.9 is below 97.5"
    ]
    assert post(world, 95, "Accuracy").triggers[0].value == 95
    with pytest.raises(NotFound, match="watches no metric 'loss', but: accuracy"):
        post(world, 1, "loss")
    posted = MetricPost(name="accuracy", value=1)
    with pytest.raises(Forbidden, match="only they post metrics"):
        triggers.post_metric(world.service, world.principal("alf"), "ann", "retrain", posted)


def test_what_happens_while_it_is_suspended_is_not_made_up_for(world: ServiceWorld) -> None:
    put(world, METRIC, AFTER)
    ann = world.principal("ann")
    schedules.suspend_schedule(world.service, ann, "ann", "retrain")
    post(world, 96)
    clean(world)
    schedules.resume_schedule(world.service, ann, "ann", "retrain")
    step(world)
    assert runs(world) == []
    post(world, 98)
    post(world, 96)
    step(world)
    assert [cause for _, cause in runs(world)] == ["accuracy 96 is below 97.5"]


@pytest.mark.parametrize("by", ["resume", "writing"])
def test_a_fall_that_could_not_start_before_a_suspension_is_on_record_and_starts_nothing(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    put(world, METRIC)
    ann = world.principal("ann")
    post(world, 96)

    def hub_is_away(_user: object) -> frozenset[str]:
        message = "JupyterHub does not answer."
        raise Unavailable(message)

    with monkeypatch.context() as patched:
        patched.setattr(world.directory, "groups_of", hub_is_away)
        step(world)
    schedules.suspend_schedule(world.service, ann, "ann", "retrain")
    world.pass_time(MINUTE)
    if by == "resume":
        schedules.resume_schedule(world.service, ann, "ann", "retrain")
    else:
        put(world, METRIC)
    step(world)
    assert runs(world) == [("skipped", "accuracy 96 is below 97.5")]
    assert world.store.schedules.all()[0].standing.hindrance == ""


def test_a_look_that_failed_for_a_reason_nobody_foresaw_leaves_no_hindrance_behind(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, AFTER)

    def fail(*_: object) -> None:
        raise ValueError("a version that nobody reads")

    with monkeypatch.context() as patched:
        patched.setattr("gpucommons.scheduler.background_tasks.schedules.sensed", fail)
        step(world, times=1)
        hindrance = world.store.schedules.all()[0].standing.hindrance
        assert hindrance == "The scheduler failed at this run; its log says why"
    step(world)
    assert world.store.schedules.all()[0].standing.hindrance == ""


def test_a_trigger_goes_on_where_the_schedule_is_written_anew(world: ServiceWorld) -> None:
    put(world, METRIC)
    post(world, 98)
    put(world, AFTER, METRIC)
    metric = view(world).triggers[1]
    assert metric.value == 98
    put(world, AFTER)
    put(world, METRIC)
    assert view(world).triggers[0].value is None


@pytest.mark.parametrize("dies_at", range(1, 9))
def test_a_scheduler_that_dies_at_any_write_loses_and_doubles_nothing(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    world.script = Script(run_ms=10, lines=("a",))
    put(world, AFTER, METRIC, PATH, concurrency_policy="Allow")
    step(world)
    stand, written = world.store.schedules.stand, []

    def dying(after: bool) -> Callable[..., bool]:
        def write(*arguments: object, **named: object) -> bool:
            written.append(arguments)
            if len(written) != dies_at:
                return stand(*arguments, **named)  # type: ignore[arg-type] # as they came
            if after:
                stand(*arguments, **named)  # type: ignore[arg-type] # as they came
            raise KeyboardInterrupt

        return write

    monkeypatch.setattr(world.store.schedules, "stand", dying(after=dies_at % 2 == 0))
    post(world, 96)
    clean(world)
    world.script = Script(run_ms=10, lines=("b",))
    for _ in range(14):
        try:
            step(world, times=1, pass_ms=10 * SECOND)
        except KeyboardInterrupt:
            continue
    assert len(written) > dies_at
    assert sorted(cause for _, cause in runs(world)) == [
        "/srv/data changed",
        "accuracy 96 is below 97.5",
        "clean-1 finished",
    ]
    found = [name for name in names(world) if "look" not in name and name != "clean-1"]
    assert found == ["retrain-1", "retrain-2", "retrain-3"]


def test_ends_are_read_once_for_all_triggers_of_an_owner(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [{"after": {"job": f"clean-{letter}"}} for letter in "abcdefg"]
    for number in range(3):
        fields = {"triggers": [AFTER, *waits], "job": a_request(name="digits")}
        request = models.ScheduleRequest.model_validate(fields)
        ann = world.principal("ann")
        schedules.put_schedule(world.service, ann, "ann", f"retrain-{number}-s", request)
    clean(world)
    asked = []
    read = world.store.workloads

    def counted(where: WorkloadFilter, **how: object) -> object:
        if where.ended_after_ms is not None:
            asked.append(where)
        return read(where, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "workloads", counted)
    step(world, times=1)
    assert len(asked) == 1
    step(world)
    found = schedules.schedules(world.service, world.principal("ann")).schedules
    assert [run.cause for one in found for run in one.runs] == ["clean-1 finished"] * 3

"""Runs of schedules are submitted at their times, as their owner, once, whatever dies in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from service_world import ADMIN, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.old_job_files import Known
from gpucommons.scheduler.background_tasks.schedules import Schedules
from gpucommons.scheduler.core.model.types import Kind, Millis, UserName
from gpucommons.scheduler.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Misconfigured,
    NotFound,
    PolicyRefused,
    Unavailable,
)
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.principal import PrincipalKind
from gpucommons.scheduler.schedules.schedule import Schedule
from gpucommons.scheduler.service.jobs import jobs, snapshots
from gpucommons.scheduler.service.jobs.jobs import JobFilter
from gpucommons.scheduler.service.schedules import runs as due_runs
from gpucommons.scheduler.service.schedules import schedules
from gpucommons.scheduler.store.base import WorkloadFilter

MINUTE = 60_000


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def asked(**changes: object) -> models.ScheduleRequest:
    fields = {"schedule": "*/10 * * * *", "job": a_request(name="digits"), **changes}
    return models.ScheduleRequest.model_validate(fields)


def running(world: ServiceWorld) -> Schedules:
    return Schedules(world.service, epoch=lambda: world.loop.epoch)


def runs(world: ServiceWorld, name: str = "nightly") -> list[tuple[str, str]]:
    found = schedules.schedule(world.service, world.principal("ann"), "ann", name)
    return [(run.outcome, run.job_name) for run in found.runs]


def names(world: ServiceWorld) -> list[str]:
    found = jobs.jobs(world.service, world.principal("ann"), JobFilter(), cursor=None)
    return [job.name for job in found.jobs]


def to_next(world: ServiceWorld, name: str = "nightly") -> None:
    view = schedules.schedule(world.service, world.principal("ann"), "ann", name)
    world.pass_time(view.next_ms[0] - world.service.now_ms())


def put(world: ServiceWorld, **changes: object) -> models.ScheduleView:
    return schedules.put_schedule(
        world.service, world.principal("ann"), "ann", "nightly", asked(**changes)
    )


def test_a_run_is_an_ordinary_job_of_its_owner(world: ServiceWorld) -> None:
    world.script = Script(run_ms=MINUTE)
    made = put(world)
    assert (made.team, made.what, made.kind) == ("vision", "CPU only: python train.py", "retrain")
    assert len(made.next_ms) == 5
    upkeep = running(world)
    upkeep.step()
    assert names(world) == []
    to_next(world)
    upkeep.step()
    upkeep.step()
    assert names(world) == ["nightly-1"]
    assert runs(world) == [("started", "nightly-1")]
    stored = next(iter(world.cluster.workloads.values())).spec
    assert (stored.kind, stored.owner, stored.priority) == (Kind.RETRAIN, "ann", "low")
    assert stored.labels["origin"] == "schedule nightly"
    world.pass_time(2 * MINUTE)
    to_next(world)
    upkeep.step()
    assert names(world) == ["nightly-2", "nightly-1"]


def test_a_run_says_what_became_of_its_job_for_as_long_as_that_is_kept(world: ServiceWorld) -> None:
    def states() -> list[str | None]:
        listed = schedules.schedules(world.service, world.principal("ann")).schedules[0]
        return [run.job_state for run in listed.runs]

    world.script = Script(run_ms=2 * MINUTE)
    put(world, concurrency_policy="Allow")
    to_next(world)
    running(world).step()
    world.pass_time(MINUTE)
    assert states() == ["running"]
    world.pass_time(5 * MINUTE)
    assert states() == ["succeeded"]
    world.store.prune(world.loop.epoch, before_ms=Millis(world.now_ms + 1), kept=())
    assert states() == ["forgotten"]


def test_a_run_that_goes_on_keeps_the_next_one_out_or_is_replaced(world: ServiceWorld) -> None:
    world.script = Script(run_ms=100 * MINUTE)
    put(world)
    upkeep = running(world)
    for _ in range(2):
        to_next(world)
        upkeep.step()
    assert runs(world) == [("skipped", ""), ("started", "nightly-1")]
    put(world, concurrency_policy="Replace")
    to_next(world)
    upkeep.step()
    world.pass_time(MINUTE)
    found = jobs.jobs(world.service, world.principal("ann"), JobFilter(), cursor=None)
    assert [(job.name, job.state) for job in found.jobs] == [
        ("nightly-2", "running"),
        ("nightly-1", "cancelled"),
    ]


def test_a_scheduler_that_dies_between_submit_and_record_starts_nothing_twice(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, starting_deadline_s=60)
    to_next(world)
    stand = world.store.schedules.stand
    seen = []

    def dies_at_the_second(*arguments: object, **named: object) -> bool:
        seen.append(arguments)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return stand(*arguments, **named)  # type: ignore[arg-type] # handed on as they are

    monkeypatch.setattr(world.store.schedules, "stand", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        running(world).step()
    assert (names(world), runs(world)) == (["nightly-1"], [])
    # It comes back when the deadline is over: the job is there, and nothing is called missed.
    world.pass_time(5 * MINUTE)
    running(world).step()
    assert (names(world), runs(world)) == (["nightly-1"], [("started", "nightly-1")])


def test_while_nobody_knows_the_owners_teams_a_run_waits_and_then_starts(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world)
    to_next(world)
    upkeep = running(world)

    def hub_is_away(_user: UserName) -> frozenset[str]:
        message = "JupyterHub does not answer."
        raise Unavailable(message)

    with monkeypatch.context() as patched:
        patched.setattr(world.directory, "groups_of", hub_is_away)
        upkeep.step()
        upkeep.step()
    view = schedules.schedule(world.service, world.principal("ann"), "ann", "nightly")
    assert (view.hindrance, view.runs) == ("JupyterHub does not answer.", [])
    world.pass_time(5000)
    upkeep.step()
    assert runs(world) == [("started", "nightly-1")]


def test_a_refusal_is_on_record_and_keeps_no_other_schedule_from_its_time(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world)
    ann = world.principal("ann")
    schedules.put_schedule(world.service, ann, "ann", "other", asked())
    to_next(world)
    made = due_runs.submit_run

    def submit_run(service: object, schedule: object, due_ms: Millis) -> models.JobView:
        if schedule.name == "nightly":  # type: ignore[attr-defined] # a schedule
            message = "ann has 100 waiting jobs."
            raise PolicyRefused(message)
        return made(service, schedule, due_ms)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr("gpucommons.scheduler.background_tasks.schedules.submit_run", submit_run)
    running(world).step()
    view = schedules.schedule(world.service, ann, "ann", "nightly")
    assert [(run.outcome, run.text) for run in view.runs] == [
        ("refused", "ann has 100 waiting jobs")
    ]
    assert runs(world, "other") == [("started", "other-1")]


def test_suspended_schedules_start_nothing_and_go_on_from_the_next_time(
    world: ServiceWorld,
) -> None:
    put(world)
    ann = world.principal("ann")
    assert schedules.suspend_schedule(world.service, ann, "ann", "nightly").next_ms == []
    upkeep = running(world)
    world.pass_time(60 * MINUTE)
    upkeep.step()
    schedules.resume_schedule(world.service, ann, "ann", "nightly")
    upkeep.step()
    assert runs(world) == []
    to_next(world)
    upkeep.step()
    assert runs(world) == [("started", "nightly-1")]


def test_a_run_that_is_asked_for_starts_once_and_a_second_press_within_a_second_is_the_same(
    world: ServiceWorld,
) -> None:
    world.script = Script(run_ms=100 * MINUTE)
    put(world)
    ann = world.principal("ann")
    schedules.suspend_schedule(world.service, ann, "ann", "nightly")
    for _ in range(2):
        assert schedules.run_schedule(world.service, ann, "ann", "nightly").asked
    upkeep = running(world)
    for _ in range(2):
        upkeep.step()
    view = schedules.schedule(world.service, ann, "ann", "nightly")
    assert [(run.job_name, run.by_hand) for run in view.runs] == [("nightly-1", True)]
    assert (view.asked, view.suspend) == (False, True)


def test_what_a_lead_or_admin_suspends_its_owner_does_not_lift(world: ServiceWorld) -> None:
    put(world)
    ann, ada = world.principal("ann"), world.principal("ada")
    schedules.suspend_schedule(world.service, ada, "ann", "nightly")
    for wish in (schedules.resume_schedule, schedules.drop_schedule, schedules.run_schedule):
        with pytest.raises(Forbidden, match="suspended by a lead of vision or an admin"):
            wish(world.service, ann, "ann", "nightly")
    # Nor by writing it anew.
    written = put(world, schedule="* * * * *")
    assert (written.suspend, written.held, written.next_ms) == (True, True, [])
    resumed = schedules.resume_schedule(world.service, ada, "ann", "nightly")
    assert (resumed.suspend, resumed.held) == (False, False)
    # What its owner suspends, its owner lifts.
    schedules.suspend_schedule(world.service, ann, "ann", "nightly")
    assert not schedules.resume_schedule(world.service, ann, "ann", "nightly").suspend


def test_the_files_that_schedules_of_one_user_keep_have_a_bound(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_KEPT_BYTES", 10_000)
    ann = world.principal("ann")
    small, large = world.bring(b"a" * 4000), world.bring(b"b" * 8000)

    def keep(name: str, snapshot: str) -> models.ScheduleView:
        request = asked(job=a_request(name="digits", snapshot=snapshot))
        return schedules.put_schedule(world.service, ann, "ann", name, request)

    keep("one", small)
    keep("two", small)  # the same files are kept once
    with pytest.raises(PolicyRefused, match="take 4 KiB, and the 8 KiB of this one"):
        keep("three", large)
    schedules.drop_schedule(world.service, ann, "ann", "one")
    schedules.drop_schedule(world.service, ann, "ann", "two")
    assert keep("three", large).name == "three"


def test_the_list_comes_in_pages(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    for name in ("a", "b", "c"):
        schedules.put_schedule(world.service, ann, "ann", name, asked())
    first = schedules.schedules(world.service, ann, limit=2)
    assert [one.name for one in first.schedules] == ["a", "b"]
    last = schedules.schedules(world.service, ann, limit=2, cursor=first.cursor)
    assert ([one.name for one in last.schedules], last.cursor) == (["c"], None)
    assert schedules.schedules(world.service, world.principal("bob")).schedules == []
    with pytest.raises(BadRequest, match="the page before"):
        schedules.schedules(world.service, ann, cursor="x")


def test_files_that_a_team_shares_no_more_are_refused_at_the_next_time(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, alf, sha256 = world.principal("ann"), world.principal("alf"), world.bring(b"")
    world.script = Script(run_ms=10)
    jobs.submit(world.service, ann, a_request(name="digits", snapshot=sha256), key=None)
    world.pass_time(MINUTE)
    monkeypatch.setattr(snapshots, "are_shared", lambda _service, _team: True)
    request = asked(job=None, repeat="digits-1")
    schedules.put_schedule(world.service, alf, "alf", "nightly", request)
    monkeypatch.setattr(snapshots, "are_shared", lambda _service, _team: False)
    world.pass_time(11 * MINUTE)
    running(world).step()
    (refused,) = schedules.schedule(world.service, alf, "alf", "nightly").runs
    assert (refused.outcome, "snapshot" in refused.text) == ("refused", True)


def test_workers_of_a_notebooks_cluster_are_not_repeated(world: ServiceWorld) -> None:
    """Their files hold its key, and a run of a schedule would not be known by that any more."""
    request = a_request(name="digits", snapshot=world.bring(b""), labels={"origin": "ray"})
    jobs.submit(world.service, world.principal("ann"), request, key=None)
    world.pass_time(MINUTE)
    with pytest.raises(Misconfigured, match="workers of a notebook's cluster"):
        put(world, job=None, repeat="digits-1")


def test_the_files_of_a_repeated_job_are_kept_for_as_long_as_its_schedule(
    world: ServiceWorld,
) -> None:
    ann, sha256 = world.principal("ann"), world.bring(b"")
    world.script = Script(run_ms=10)
    first = a_request(name="digits", snapshot=sha256)
    jobs.submit(world.service, ann, first, key=None)
    world.pass_time(MINUTE)
    put(world, job=None, repeat="digits-1")
    # The job itself is over for longer than its files are kept.
    later = Millis(world.service.now_ms() + 1)
    assert sha256 in Known(world.store, ran_since_ms=later)
    to_next(world)
    running(world).step()
    assert runs(world) == [("started", "nightly-1")]
    schedules.drop_schedule(world.service, ann, "ann", "nightly")
    world.pass_time(MINUTE)
    assert sha256 not in Known(world.store, ran_since_ms=Millis(world.service.now_ms() + 1))
    with pytest.raises(NotFound, match="no schedule 'nightly' of ann"):
        schedules.schedule(world.service, ann, "ann", "nightly")


def test_what_can_never_be_right_is_refused_when_it_is_written(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    once = replace_job(asked(), not_before_ms=5)
    with pytest.raises(Misconfigured, match="not_before_ms is of one submit alone"):
        schedules.put_schedule(world.service, ann, "ann", "nightly", once)
    for field in ("after", "after_any", "after_failed"):
        waits = replace_job(asked(), **{field: ["digits-7"]})
        with pytest.raises(Misconfigured, match=f"{field} is of one submit alone"):
            schedules.put_schedule(world.service, ann, "ann", "nightly", waits)
    with pytest.raises(Misconfigured, match="five fields"):
        put(world, schedule="often")
    with pytest.raises(Forbidden, match="only bob may"):
        schedules.put_schedule(world.service, ann, "bob", "nightly", asked())
    for number in range(schedules.MAX_SCHEDULES):
        schedules.put_schedule(world.service, ann, "ann", f"n-{number}", asked())
    with pytest.raises(PolicyRefused, match="as many as one may"):
        put(world)


def replace_job(request: models.ScheduleRequest, **changes: object) -> models.ScheduleRequest:
    assert request.job is not None
    return request.model_copy(update={"job": request.job.model_copy(update=changes)})


def test_what_another_release_stored_is_said_and_stops_no_other(world: ServiceWorld) -> None:
    put(world)
    ann = world.principal("ann")
    schedules.put_schedule(world.service, ann, "ann", "other", asked())
    to_next(world)
    found = world.store.schedules.all()[0].schedule
    strange = replace(found, request='{"roles": "many"}')
    world.store.schedules.put(strange, next_ms=world.service.now_ms(), before=found)
    running(world).step()
    listed = {one.name: one for one in schedules.schedules(world.service, ann).schedules}
    assert listed["nightly"].what == "what was stored is not understood"
    (refused,) = listed["nightly"].runs
    assert (refused.outcome, "write the schedule anew" in refused.text) == ("refused", True)
    assert runs(world, "other") == [("started", "other-1")]


def test_what_nobody_foresaw_is_a_refusal_and_keeps_no_other_from_its_time(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world)
    ann = world.principal("ann")
    schedules.put_schedule(world.service, ann, "ann", "other", asked())
    to_next(world)
    made = due_runs.submit_run

    def submit_run(service: object, schedule: object, due_ms: Millis) -> models.JobView:
        if schedule.name == "nightly":  # type: ignore[attr-defined] # a schedule
            raise ValueError("a header of somebody's archive")
        return made(service, schedule, due_ms)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr("gpucommons.scheduler.background_tasks.schedules.submit_run", submit_run)
    running(world).step()
    view = schedules.schedule(world.service, ann, "ann", "nightly")
    assert [(run.outcome, run.text) for run in view.runs] == [
        ("refused", "The scheduler failed at this run; its log says why")
    ]
    assert runs(world, "other") == [("started", "other-1")]


def test_a_run_of_days_is_still_known_after_hundreds_that_it_kept_out(world: ServiceWorld) -> None:
    world.script = Script(run_ms=10_000 * MINUTE)
    put(world)
    upkeep = running(world)
    for _ in range(120):
        to_next(world)
        upkeep.step()
    found = schedules.schedule(world.service, world.principal("ann"), "ann", "nightly").runs
    assert [(run.outcome, run.count) for run in found] == [("skipped", 119), ("started", 1)]
    assert names(world) == ["nightly-1"]


def test_a_schedule_that_was_removed_during_a_pass_starts_nothing(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world)
    to_next(world)
    due = world.store.schedules.due

    def removed_meanwhile(now_ms: Millis) -> object:
        found = due(now_ms)
        schedules.drop_schedule(world.service, world.principal("ann"), "ann", "nightly")
        return found

    monkeypatch.setattr(world.store.schedules, "due", removed_meanwhile)
    running(world).step()
    assert names(world) == []


def test_what_cannot_be_replaced_goes_on(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.script = Script(run_ms=100 * MINUTE)
    put(world, concurrency_policy="Replace")
    to_next(world)
    running(world).step()
    to_next(world)

    def refused(*_: object) -> models.JobView:
        message = "no more today"
        raise PolicyRefused(message)

    with monkeypatch.context() as patched:
        patched.setattr("gpucommons.scheduler.background_tasks.schedules.submit_run", refused)
        running(world).step()
    (job,) = jobs.jobs(world.service, world.principal("ann"), JobFilter(), cursor=None).jobs
    assert (job.name, job.state) == ("nightly-1", "running")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_in_another_time_zone_it_goes_on_at_its_next_time_there_and_nothing_is_made_up_for(
    world: ServiceWorld, zone: str
) -> None:
    """West of the first zone today's time comes once more, east of it it was over when it was chosen."""
    world.script = Script(run_ms=MINUTE)
    put(world, schedule="0 2 * * *", time_zone="UTC")
    upkeep = running(world)
    to_next(world)
    upkeep.step()
    world.pass_time(30 * MINUTE)
    made = put(world, schedule="0 2 * * *", time_zone=zone)
    upkeep.step()
    assert names(world) == ["nightly-1"]
    times = [datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)) for ms in made.next_ms]
    assert {(one.hour, one.minute) for one in times} == {(2, 0)}
    assert 0 < made.next_ms[0] - world.service.now_ms() < 24 * 60 * MINUTE
    to_next(world)
    upkeep.step()
    upkeep.step()
    assert names(world) == ["nightly-2", "nightly-1"]
    assert runs(world) == [("started", "nightly-2"), ("started", "nightly-1")]


def test_each_change_of_a_schedule_is_an_event_of_its_team(world: ServiceWorld) -> None:
    put(world)
    ada = world.principal("ada")
    schedules.suspend_schedule(world.service, ada, "ann", "nightly")
    schedules.resume_schedule(world.service, ada, "ann", "nightly")
    schedules.drop_schedule(world.service, ada, "ann", "nightly")
    found = [one.event for one in world.store.events() if one.event.kind.startswith("schedule-")]
    assert [(one.kind.removeprefix("schedule-"), one.by, one.team) for one in found] == [
        ("written", "ann", "vision"),
        ("suspended", "ada", "vision"),
        ("resumed", "ada", "vision"),
        ("removed", "ada", "vision"),
    ]


def test_a_change_that_is_refused_is_on_record_as_refused(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world)
    stored, keep = world.store.schedules, world.store.schedules.put

    def put_late(schedule: Schedule, **more: Any) -> None:
        stored.drop(schedule.schedule_id)
        keep(schedule, **more)

    monkeypatch.setattr(stored, "put", put_late)
    with pytest.raises(Conflict, match="removed meanwhile"):
        schedules.suspend_schedule(world.service, world.principal("ada"), "ann", "nightly")
    world.pass_time(1)
    told = [one.event.text for one in world.store.events(kinds=frozenset({"schedule-suspended"}))]
    assert told[-1].startswith("schedule nightly of ann was not suspended: ")


def test_the_priority_of_a_job_is_kept_and_low_without_one(world: ServiceWorld) -> None:
    put(world, job=a_request(name="digits", priority="high"))
    assert '"priority":"high"' in world.store.schedules.all()[0].schedule.request
    put(world)
    assert '"priority":"low"' in world.store.schedules.all()[0].schedule.request


def test_the_operator_of_this_machine_schedules_for_a_team_that_it_is_not_in(
    world: ServiceWorld,
) -> None:
    operator = world.principal("op", ADMIN, kind=PrincipalKind.LOCAL)
    request = replace_job(asked(), team="vision")
    schedules.put_schedule(world.service, operator, "op", "nightly", request)
    (made,) = world.store.schedules.all()
    world.pass_time(11 * MINUTE)
    running(world).step()
    assert [job.spec.name for job in world.store.workloads(WorkloadFilter()).items] == ["nightly-1"]
    # An admin of the hub has no such standing: what would be refused each night is refused now.
    root = world.principal("root", ADMIN)
    with pytest.raises(Forbidden, match="You are not in team vision"):
        schedules.put_schedule(world.service, root, "root", "nightly", request)
    assert world.store.schedules.all()[0].schedule == made.schedule


def test_an_owner_whom_the_hub_knows_no_more_runs_nothing(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world)
    to_next(world)
    monkeypatch.setattr(world.directory, "knows", lambda _user: False)
    running(world).step()
    (refused,) = world.store.schedules.all()[0].standing.runs
    assert refused.text == "JupyterHub knows no user ann any more: nothing of theirs is started"


def test_an_owner_who_left_the_team_has_runs_refused(world: ServiceWorld) -> None:
    put(world)
    to_next(world)
    found = world.store.schedules.all()[0]
    world.store.schedules.put(
        replace(found.schedule, owner=UserName("bob")),
        next_ms=Millis(world.service.now_ms()),
        before=found.schedule,
    )
    running(world).step()
    (refused,) = world.store.schedules.all()[0].standing.runs
    assert (refused.outcome, "vision" in refused.text) == ("refused", True)

"""What owners of sweeps ask for is done once, whatever is repeated, lost or asked for by others meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.errors import Conflict, SchedulerError, UnknownWorkload
from gpucommons.scheduler.service.jobs import jobs, sweeps
from gpucommons.scheduler.sweeps.sweep import Sweep

SOME_JOB = "01234567-0123-7123-8123-0123456789ab"
MORE = models.MoreBudgetRequest(trials=2)
NOTEBOOK = "gpucommons.scheduler.training.notebook"
DEEP = "[" * 8000


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def a_sweep(**changes: Any) -> models.SweepRequest:
    fields = {
        "job": a_request(name="search"),
        "space": {"lr": {"low": 0.1, "high": 1}},
        "objective": {"metric": "accuracy", "direction": "maximize"},
        "budget": {"trials": 10},
        "sampler": "random",
        **changes,
    }
    return models.SweepRequest.model_validate(fields)


def submit(world: ServiceWorld, request: models.SweepRequest, key: str) -> models.SweepView:
    return sweeps.submit_sweep(world.service, world.principal("ann"), request, key=key)


def add(world: ServiceWorld, ref: str, key: str | None = None) -> models.SweepView:
    return sweeps.add_to_budget(world.service, world.principal("ann"), ref, MORE, key=key)


def stored(world: ServiceWorld) -> Sweep:
    (kept,) = world.store.sweeps.live()
    return kept.sweep


def meanwhile(world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Between the next one's look at the sweep and its writing."""
    ask = world.store.put_intent

    def asked(*arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        act()
        return ask(*arguments, **named)

    monkeypatch.setattr(world.store, "put_intent", asked)


def test_a_stop_that_was_answered_is_not_undone_by_who_looked_before(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ada = submit(world, a_sweep(), "k"), world.principal("ada")
    meanwhile(world, monkeypatch, lambda: sweeps.stop_sweep(world.service, ada, made.id))
    with pytest.raises(Conflict, match="search-1 was changed or removed meanwhile: look at it"):
        add(world, made.id, "more")
    assert (stored(world).stopped, stored(world).budget.trials) == (True, 10)
    world.pass_time(1000)
    told = [one.event.text for one in world.store.events() if "search-1" in one.event.text]
    assert told[-3:] == [
        "sweep search-1 of ann was stopped",
        "sweep search-1 of ann was given more budget",
        "sweep search-1 of ann was not changed: search-1 was changed or removed meanwhile: look at it, and try again.",
    ]
    # Who has looked at it may let it go on.
    assert add(world, made.id, "more").trials_of == 12
    assert not stored(world).stopped


def test_of_two_that_add_at_once_neither_is_lost(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = submit(world, a_sweep(), "k")
    meanwhile(world, monkeypatch, lambda: add(world, made.id, "one"))
    with pytest.raises(Conflict):
        add(world, made.id, "other")
    assert add(world, made.id, "other").trials_of == 14


def test_the_same_key_adds_once_also_where_its_scheduler_died_in_between(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = submit(world, a_sweep(), "k")

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.store.sweeps, "put", dies)
    with pytest.raises(KeyboardInterrupt):
        add(world, made.id, "more")
    monkeypatch.undo()
    assert stored(world).budget.trials == 10
    for _ in range(3):
        assert add(world, made.id, "more").trials_of == 12
    assert [add(world, made.id).trials_of for _ in range(2)] == [14, 16]
    other = models.MoreBudgetRequest(trials=9)
    with pytest.raises(Conflict, match="key"):
        sweeps.add_to_budget(world.service, world.principal("ann"), made.id, other, key="more")


def test_the_key_of_a_sweep_stands_for_no_other_and_gives_the_one_that_was_begun(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.store.sweeps, "put", dies)
    with pytest.raises(KeyboardInterrupt):
        submit(world, a_sweep(), "k")
    monkeypatch.undo()
    made = submit(world, a_sweep(), "k")
    assert (made.name, submit(world, a_sweep(), "k").id) == ("search-1", made.id)
    with pytest.raises(Conflict, match="key"):
        submit(world, a_sweep(budget={"trials": 11}), "k")
    assert submit(world, a_sweep(budget={"trials": 11}), "l").id != made.id


def test_what_a_later_release_wrote_is_listed_without_its_request(world: ServiceWorld) -> None:
    ann, made = world.principal("ann"), submit(world, a_sweep(), "k")
    before = stored(world)
    request = json.dumps({**json.loads(before.request), "of_tomorrow": 1})
    world.store.sweeps.put(replace(before, request=request), before=before)
    submit(world, a_sweep(), "l")
    listed = {one.name: one for one in sweeps.sweeps(world.service, ann).sweeps}
    assert listed["search-2"].request is not None
    for view in (listed["search-1"], sweeps.sweep(world.service, ann, made.id)):
        assert (view.request, view.simulated, view.trials_of) == (None, False, 10)


@pytest.mark.parametrize("live", [True, False])
def test_lists_say_what_is_asked_for_and_leave_out_what_may_be_long(
    world: ServiceWorld, *, live: bool
) -> None:
    ann, long = world.principal("ann"), "x" * 8_000
    job = a_request(
        name="search",
        role={"milli_gpu": 2000, "command": ["sh", "-c", long]},
        env={"LONG": long},
        labels={"origin": "sbatch", "other": "x"},
    )
    made = submit(world, a_sweep(job=job), "k")
    (listed,) = sweeps.sweeps(world.service, ann, live=live).sweeps
    assert len(listed.model_dump_json()) < 4096
    request = listed.request
    assert request is not None
    assert request.labels == {"origin": "sbatch"}
    assert [role.milli_gpu for role in request.roles] == [2000]
    assert (request.priority, request.team) == ("low", "vision")
    full = sweeps.sweep(world.service, ann, made.id).request
    assert full is not None
    assert full.env == {"LONG": long}


def test_a_job_that_would_wait_for_more_than_one_may_is_refused_before_it_is_begun() -> None:
    job = a_request(name="search", after=[f"before-{number}" for number in range(64)])
    given = {"job": job, "given": [{"lr": 1}]}
    assert models.SweepRequest.model_validate(given)
    with pytest.raises(ValidationError, match=r"a job waits for 64 at most\. Name fewer in after"):
        models.SweepRequest.model_validate({**given, "after_each": [SOME_JOB]})
    job = job.model_copy(update={"after": job.after[1:]})
    assert models.SweepRequest.model_validate({**given, "job": job, "after_each": [SOME_JOB]})


def test_a_number_stands_for_all_jobs_that_have_it_and_those_that_never_began_are_told(
    world: ServiceWorld,
) -> None:
    ann, index = world.principal("ann"), "SLURM_ARRAY_TASK_ID"
    given = [{index: 7}, {index: 8}, {index: 7}, {index: 9}]
    request = {"job": a_request(name="list"), "given": given, "max_parallel": 1}
    made = submit(world, models.SweepRequest.model_validate(request), "k")
    assert (made.unbegun, made.never_begun) == ([7, 8, 7, 9], [])
    out = models.LeaveOutRequest(numbers=[7])
    left = sweeps.leave_out(world.service, ann, made.id, out)
    assert (left.unbegun, left.never_begun) == ([8, 9], [7, 7])
    assert stored(world).left_out == (1, 3)
    stopped = sweeps.stop_sweep(world.service, ann, made.id)
    assert (stopped.unbegun, stopped.never_begun) == ([], [7, 8, 7, 9])


def listed(world: ServiceWorld, by: str, **asked: Any) -> list[list[str]]:
    """Names, by page."""
    pages, cursor = [], None
    while True:
        page = sweeps.sweeps(world.service, world.principal(by), cursor=cursor, **asked)
        pages.append([one.name for one in page.sweeps])
        cursor = page.cursor
        if cursor is None:
            return pages


def test_those_that_go_on_come_in_pages_and_of_one_owner(world: ServiceWorld) -> None:
    for number in range(4):
        world.pass_time(1000)
        submit(world, a_sweep(), f"k{number}")
    ada = world.principal("ada")
    world.pass_time(1000)
    sweeps.submit_sweep(world.service, ada, a_sweep(job=a_request(name="adas")), key="k")
    sweeps.stop_sweep(world.service, world.principal("ann"), "search-2")
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    for _ in range(3):
        world.pass_time(1000)
        upkeep.step()
    pages = listed(world, "ada", live=True, limit=2)
    assert pages == [["adas-1", "search-4"], ["search-3", "search-1"]]
    assert listed(world, "ada", live=True, owner="ann") == [["search-4", "search-3", "search-1"]]
    assert listed(world, "ada", owner="ann", limit=4)[0][2] == "search-2"
    # A name leads to nothing that the list without it does not show.
    assert listed(world, "bob", live=True, owner="ann") == [[]]


def test_jobs_that_each_one_waits_for_are_looked_up_at_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = world.principal("ann")
    before = [jobs.submit(world.service, ann, a_request(), key=None).id for _ in range(3)]
    world.pass_time(1000)
    jobs.cancel(world.service, ann, before[0])
    for _ in range(5):
        world.pass_time(10_000)
    assert before[0] not in world.cluster.workloads  # it has ended
    monkeypatch.setattr(world.loop, "wake", lambda: None)
    before.append(jobs.submit(world.service, ann, a_request(), key=None).id)
    assert before[-1] not in world.cluster.workloads  # no cycle has seen it yet
    looks: list[set[str]] = []
    by_id = world.store.workloads_by_id

    def counted(ids: Collection[WorkloadId]) -> dict[WorkloadId, Workload]:
        looks.append(set(ids))
        return by_id(ids)

    monkeypatch.setattr(world.store, "workloads_by_id", counted)
    given = [{"lr": number} for number in range(4)]
    request = {"job": a_request(name="list"), "given": given, "after_each": before}
    submit(world, models.SweepRequest.model_validate(request), "k")
    assert stored(world).after_each == tuple(before)
    assert looks == [set(before)]


def test_nobody_waits_for_what_is_not_theirs_to_see(world: ServiceWorld) -> None:
    others = jobs.submit(world.service, world.principal("ann"), a_request(), key=None).id
    world.pass_time(1000)
    for strange in (others, SOME_JOB):
        request = {"job": a_request(name="list"), "given": [{"lr": 1}], "after_each": [strange]}
        asked = models.SweepRequest.model_validate(request)
        with pytest.raises(UnknownWorkload):
            sweeps.submit_sweep(world.service, world.principal("bob"), asked, key=None)
    with pytest.raises(ValidationError, match="after_each"):
        models.SweepRequest.model_validate({**request, "after_each": ["digits-1"]})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"space": {"a": [1, 2], "b": {"choices": [3], "when": {"a": True}}}}, "a being true"),
        ({"space": {"a": [1], "b": {"choices": [3], "when": {"a": [1, 99]}}}}, "a being 99"),
        (
            {"space": {"a": {"low": 1, "high": 4}, "b": {"choices": [3], "when": {"a": 5}}}},
            "It is drawn from a: whole numbers 1 to 4",
        ),
        (
            {
                "space": {
                    "a": {"low": 0, "high": 1, "step": 0.25},
                    "b": {"choices": [3], "when": {"a": 0.3}},
                }
            },
            "a being 0.3",
        ),
        (
            {"space": {"a": {"low": 0.0, "high": 1}, "b": {"choices": [3], "when": {"a": 0.5}}}},
            "a being 0.5",
        ),
        ({"space": {f"p{i}": list(range(900)) for i in range(12)}}, "more than 10,000 values"),
        (
            {"space": {"a.b": [1], "a-b": [2]}, "values_as": "environment"},
            "a.b and a-b would both be the variable A_B",
        ),
        ({"space": {"gpucommons-attempt": [1]}, "values_as": "environment"}, "GPUCOMMONS_ATTEMPT"),
        (
            {
                "job": a_request(
                    name="search",
                    role={"command": ["python", "-m", NOTEBOOK, "x.ipynb", "--parameters", DEEP]},
                )
            },
            "takes one JSON object",
        ),
    ],
)
def test_what_no_trial_could_be_submitted_with_is_refused_before_it_begins(
    world: ServiceWorld, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(SchedulerError, match=why):
        submit(world, a_sweep(**changes), "k")
    assert not world.store.sweeps.live()


@pytest.mark.parametrize(
    ("low", "high", "step"), [(0.1, 0.1000000000000001, 1e-17), (1e9, 2e9, 1e-5)]
)
def test_a_step_that_is_lost_in_its_range_is_refused(low: float, high: float, step: float) -> None:
    with pytest.raises(ValidationError, match="is too small"):
        a_sweep(space={"x": {"low": low, "high": high, "step": step}})


def test_whole_steps_of_large_whole_numbers_are_taken() -> None:
    large = {"low": 10**15, "high": 10**15 + 3, "step": 1, "type": "int"}
    assert set(a_sweep(space={"x": large}).space) == {"x"}

"""Trials are submitted once, pause at their rungs and end together, whatever dies in between."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from service_world import CONFIG, ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import AttemptEnded, ProgressReported
from gpucommons.scheduler.core.model.types import Progress, State, Workload
from gpucommons.scheduler.errors import Forbidden, Misconfigured, NotFound, PolicyRefused
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import jobs, sweeps
from gpucommons.scheduler.store.memory import MemoryStore

MINUTE = 60_000
GPU = {"milli_gpu": 1000, "cpu_milli": 1000}
SPACE = {
    "lr": {"low": 0.0001, "high": 0.1, "log": True},
    "optimizer": ["sgd", "adam"],
    "momentum": {"low": 0.5, "high": 0.99, "when": {"optimizer": "sgd"}},
}


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def a_sweep(**changes: Any) -> models.SweepRequest:
    fields = {
        "job": a_request(name="digits-sweep", role=GPU),
        "space": SPACE,
        "objective": {"metric": "accuracy", "direction": "maximize"},
        "budget": {"trials": 9},
        "sampler": "random",
        "early_stopping": {"first_step": 1, "last_step": 9, "factor": 3},
        **changes,
    }
    return models.SweepRequest.model_validate(fields)


def a_map(count: int, **job: Any) -> models.SweepRequest:
    return models.SweepRequest.model_validate(
        {"job": a_request(name="digits-map", **job), "given": [{"seed": n} for n in range(count)]}
    )


def submit(
    world: ServiceWorld, request: models.SweepRequest, key: str | None = None
) -> models.SweepView:
    return sweeps.submit_sweep(world.service, world.principal("ann"), request, key=key)


def look(world: ServiceWorld, ref: str) -> models.SweepView:
    return sweeps.sweep(world.service, world.principal("ann"), ref)


def running(world: ServiceWorld) -> Sweeps:
    return Sweeps(world.service, epoch=lambda: world.loop.epoch)


def live(world: ServiceWorld) -> list[Workload]:
    return [one for one in world.cluster.workloads.values() if not is_final(one)]


def number_of(job: Workload) -> int:
    assert job.spec.part_of is not None
    return job.spec.part_of.number


def tell(world: ServiceWorld, job: Workload, step: int, value: float) -> None:
    assert job.current is not None
    progress = Progress(step=step, metrics={"accuracy": value}, at_ms=world.now_ms)
    world.loop.observe(ProgressReported(attempt_id=job.current.attempt_id, progress=progress))


def of_state(world: ServiceWorld, state: State) -> list[Workload]:
    return [one for one in live(world) if one.state is state]


def test_two_hundred_jobs_of_one_cell_all_end_and_one_that_fails_stops_no_other(
    world: ServiceWorld,
) -> None:
    def script_of(launch: Any) -> Script:
        failing = launch.workload.spec.roles[0].command[-2:] == ("--seed", "7")
        return Script(run_ms=1000, exit_code=3 if failing else 0)

    world.machine.script_of = script_of
    made = submit(world, a_map(200), key="cell-1")
    assert submit(world, a_map(200), key="cell-1").id == made.id
    upkeep = running(world)
    waiting = 0
    for _ in range(400):
        upkeep.step()
        waiting = max(waiting, len(world.store.pending_jobs(world.principal("ann").name)))
        world.pass_time(1000)
        if look(world, made.id).ended_ms is not None:
            break
    began = time.perf_counter()
    view = look(world, made.name)
    assert time.perf_counter() - began < 1
    assert (view.done, view.failed, view.begun) == (199, 1, 200)
    assert view.text == "All its jobs are over."
    assert waiting <= 1
    assert sorted(one.values["seed"] for one in view.trials) == list(range(200))
    failed = view.trials[0]  # where it is seen among so many
    assert (failed.state, failed.values, bool(failed.text)) == ("failed", {"seed": 7}, True)
    names = Counter(one.job_name for one in view.trials)
    assert max(names.values()) == 1


def test_trials_take_what_is_idle_pause_at_their_rung_and_the_best_go_on(
    world: ServiceWorld,
) -> None:
    made = submit(world, a_sweep(max_parallel=3))
    upkeep = running(world)
    for _ in range(6):
        upkeep.step()
        world.pass_time(1000)
    began = sorted(of_state(world, State.RUNNING), key=number_of)
    assert [number_of(one) for one in began] == [1, 2, 3]
    assert {one.spec.kind for one in began} == {"retrain"}
    command = began[0].spec.roles[0].command
    assert command[:3] == ("python", "train.py", "--lr")

    for job, value in zip(began, (0.5, 0.9, 0.7), strict=True):
        tell(world, job, 1, value)
    for _ in range(8):
        upkeep.step()
        world.pass_time(20_000)
    view = look(world, made.id)
    assert view.best is not None
    assert (view.best.number, view.best.best) == (2, 0.9)
    assert [(one.step, one.came, one.went_on) for one in view.rungs] == [(1, 3, 1), (3, 0, 0)]
    paused = {number_of(one) for one in of_state(world, State.PAUSED)}
    assert paused == {1, 3}
    # What they gave up others have.
    assert {number_of(one) for one in of_state(world, State.RUNNING)} == {2, 4, 5}


def test_a_sweep_whose_script_never_reports_ends_with_what_it_told(world: ServiceWorld) -> None:
    world.script = Script(run_ms=1000)
    made = submit(world, a_sweep())
    upkeep = running(world)
    for _ in range(30):
        upkeep.step()
        world.pass_time(2000)
    view = look(world, made.id)
    assert view.ended_ms is not None
    assert view.text == (
        "The first 3 trials came to nothing: It ended without a word of accuracy;"
        " it told no metric at all."
    )
    assert live(world) == []


def test_no_number_is_never_the_best_and_never_goes_on(world: ServiceWorld) -> None:
    made = submit(world, a_sweep(max_parallel=3))
    upkeep = running(world)
    for _ in range(6):
        upkeep.step()
        world.pass_time(1000)
    for job in of_state(world, State.RUNNING):
        tell(world, job, 1, float("nan") if number_of(job) == 1 else 0.1)
    for _ in range(3):
        upkeep.step()
        world.pass_time(20_000)
    view = look(world, made.id)
    assert view.best is not None
    assert view.best.number == 2
    assert next(one for one in view.trials if one.number == 1).best is None
    assert 1 in {number_of(one) for one in of_state(world, State.PAUSED)}


def test_without_optuna_a_sweep_waits_and_says_what_to_install(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = submit(world, a_sweep())
    monkeypatch.setitem(sys.modules, "optuna", None)
    running(world).step()
    view = look(world, made.id)
    assert (view.begun, view.ended_ms) == (0, None)
    assert "need Optuna where the scheduler runs: pip install 'gpucommons[sweeps]'" in view.text
    with pytest.raises(Misconfigured, match="need Optuna where the scheduler runs"):
        submit(world, a_sweep())


def test_to_a_grid_no_more_is_added_than_it_has_and_no_time_that_is_over(
    world: ServiceWorld,
) -> None:
    grid = {"sampler": "grid", "space": {"lr": [1, 2, 3]}, "budget": {"trials": 2}}
    made, ann = submit(world, a_sweep(**grid)), world.principal("ann")
    late = models.MoreBudgetRequest(until_ms=1)
    with pytest.raises(Misconfigured, match="is over already"):
        sweeps.add_to_budget(world.service, ann, made.id, late)
    more = models.MoreBudgetRequest(trials=10)
    assert sweeps.add_to_budget(world.service, ann, made.id, more).trials_of == 3
    with pytest.raises(Misconfigured, match="has all 3 trials that it may have"):
        sweeps.add_to_budget(world.service, ann, made.id, more)


def test_a_budget_of_gpu_hours_is_kept_and_can_be_added_to(world: ServiceWorld) -> None:
    made = submit(world, a_sweep(budget={"trials": 9, "gpu_hours": 0.1}, max_parallel=1))
    upkeep = running(world)
    for _ in range(3):
        upkeep.step()
        world.pass_time(1000)
    tell(world, of_state(world, State.RUNNING)[0], 1, 0.5)
    world.pass_time(7 * MINUTE)
    upkeep.step()
    world.pass_time(MINUTE)
    view = look(world, made.id)
    assert (view.text, live(world)) == ("Its budget of 0.1 GPU-hours is used up.", [])
    more = models.MoreBudgetRequest(gpu_hours=0.1)
    sweeps.add_to_budget(world.service, world.principal("ann"), made.name, more)
    for _ in range(3):
        upkeep.step()
        world.pass_time(1000)
    assert look(world, made.id).ended_ms is None
    assert [number_of(one) for one in of_state(world, State.RUNNING)] == [2]
    sweeps.stop_sweep(world.service, world.principal("ann"), made.id)
    upkeep.step()
    world.pass_time(MINUTE)
    assert (look(world, made.id).text, live(world)) == ("It was stopped.", [])


def test_a_sweep_that_was_over_and_is_added_to_is_seen_to_its_new_end(world: ServiceWorld) -> None:
    made, upkeep = submit(world, a_sweep(budget={"trials": 2})), running(world)
    world.script = Script(run_ms=30_000)
    for trials in (2, 5):
        for _ in range(30):
            upkeep.step()
            world.pass_time(1000)
            for job in of_state(world, State.RUNNING):
                tell(world, job, 1, 0.5)
            world.pass_time(MINUTE)
        view = look(world, made.id)
        assert (view.begun, view.text, live(world)) == (trials, "All its trials are over.", [])
        more = models.MoreBudgetRequest(trials=3)
        sweeps.add_to_budget(world.service, world.principal("ann"), made.id, more)


def test_what_a_person_pauses_stays_paused_until_a_person_resumes_it(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    made = submit(world, a_sweep(max_parallel=3))
    upkeep = running(world)
    for _ in range(6):
        upkeep.step()
        world.pass_time(1000)
    first, second, third = sorted(of_state(world, State.RUNNING), key=number_of)
    jobs.pause(world.service, ann, first.workload_id)
    for job, value in ((second, 0.5), (third, 0.9)):
        tell(world, job, 1, value)
    for _ in range(8):
        upkeep.step()
        world.pass_time(20_000)
    states = {one.number: one.state for one in look(world, made.id).trials}
    assert (states[1], states[2]) == ("paused", "held")

    # Taken over by a person where it stood at its rung: being among the best does not wake it.
    jobs.pause(world.service, ann, second.workload_id)
    for job in of_state(world, State.RUNNING):
        tell(world, job, 1, 0.1)
    for _ in range(8):
        upkeep.step()
        world.pass_time(20_000)
    states = {one.number: one.state for one in look(world, made.id).trials}
    assert (states[1], states[2]) == ("paused", "paused")

    jobs.resume(world.service, ann, first.workload_id)
    for _ in range(3):
        world.pass_time(1000)
    assert number_of(first) in {number_of(one) for one in of_state(world, State.RUNNING)} | {
        number_of(one) for one in of_state(world, State.QUEUED)
    }


def test_what_is_over_goes_on_for_its_owner_alone_and_within_what_one_may_have(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ann = submit(world, a_sweep()), world.principal("ann")
    more = models.MoreBudgetRequest(trials=1)
    sweeps.add_to_budget(world.service, world.principal("ada"), made.id, more)
    sweeps.stop_sweep(world.service, world.principal("ada"), made.id)
    with pytest.raises(Forbidden, match="is over and belongs to ann: only they let it go on"):
        sweeps.add_to_budget(world.service, world.principal("ada"), made.id, more)
    monkeypatch.setattr(sweeps, "MAX_LIVE", 1)
    submit(world, a_sweep())
    with pytest.raises(PolicyRefused, match="ann has 1 sweeps and maps that go on"):
        sweeps.add_to_budget(world.service, ann, made.id, more)
    monkeypatch.undo()
    assert sweeps.add_to_budget(world.service, ann, made.id, more).trials_of == 11


def test_a_look_that_fails_is_tried_again_later_and_later_and_a_stop_at_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = submit(world, a_sweep())

    def fails(*_: Any) -> None:
        raise ZeroDivisionError

    upkeep = running(world)
    monkeypatch.setattr(upkeep._sampler, "draw", fails)
    for _ in range(120):
        upkeep.step()
        world.pass_time(1000)
    assert len([one for one in caplog.records if one.exc_info]) == 7
    assert look(world, made.id).text == "The scheduler failed at this sweep; its log says why"
    sweeps.stop_sweep(world.service, world.principal("ann"), made.id)
    upkeep.step()
    assert look(world, made.id).text == "It was stopped."


def test_sweeps_are_listed_by_page_and_what_is_told_meanwhile_is_not_read_back(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [submit(world, a_map(1), key=f"cell-{number}").name for number in range(3)]
    ann, seen = world.principal("ann"), list[str]()
    page = sweeps.sweeps(world.service, ann, limit=2)
    while page is not None:
        seen += [one.name for one in page.sweeps]
        page = (
            None
            if page.cursor is None
            else sweeps.sweeps(world.service, ann, limit=2, cursor=page.cursor)
        )
    assert sorted(seen) == sorted(names)

    submit(world, a_sweep(max_parallel=1, early_stopping=None))
    upkeep = running(world)
    for _ in range(6):
        upkeep.step()
        world.pass_time(1000)
    job = next(one for one in of_state(world, State.RUNNING) if one.spec.kind == "retrain")
    sources, points = world.store.curve_sources, world.store.points
    read = list[Any]()
    monkeypatch.setattr(world.store, "curve_sources", lambda *a: read.append(a) or sources(*a))
    monkeypatch.setattr(world.store, "points", lambda *a, **n: read.append(a) or points(*a, **n))
    for step in range(1, 20):
        tell(world, job, step, 0.5)
        world.pass_time(1000)
        upkeep.step()
    assert read == []
    best = look(world, sweeps.sweeps(world.service, ann, limit=1).sweeps[0].id).best
    assert best is not None
    assert (best.step, best.best, best.best_step) == (19, 0.5, 1)


def test_others_neither_see_nor_steer_it(world: ServiceWorld) -> None:
    made = submit(world, a_sweep())
    with pytest.raises(NotFound):
        sweeps.sweep(world.service, world.principal("bob"), made.id)
    assert sweeps.sweeps(world.service, world.principal("bob")).sweeps == []
    with pytest.raises(Forbidden, match="only its owner, a lead of vision or an admin may stop it"):
        sweeps.stop_sweep(world.service, world.principal("alf"), made.id)
    assert sweeps.stop_sweep(world.service, world.principal("ada"), made.id).steerable


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"space": {}}, "has nothing in it"),
        ({"space": {"lr": []}}, "without any value"),
        ({"space": {"lr": {"low": float("nan"), "high": 1}}}, "not NaN"),
        ({"space": {"lr": {"low": 1, "high": 1}}}, "must be less than"),
        ({"space": {"lr": {"low": 0, "high": 1, "log": True}}}, "low above 0"),
        ({"budget": {"trials": 0}}, "greater than or equal to 1"),
        ({"budget": {"trials": 1, "gpu_hours": 0}}, "greater than 0"),
        ({"early_stopping": {"first_step": 5, "last_step": 5}}, "no rung"),
        ({"objective": None}, "needs an objective"),
        ({"space": {"a": {"low": 0.1, "high": 0.2, "step": 1e-300}}}, "tell such steps apart"),
    ],
)
def test_what_cannot_be_swept_is_refused_with_a_sentence(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        a_sweep(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampler": "grid"}, "grid needs a list or a step for lr"),
        ({"space": {"a": {"choices": [1], "when": {"b": 1}}}}, "no parameter before it"),
        ({"budget": {"trials": 1, "until_ms": 1}}, "is over already"),
    ],
)
def test_what_could_never_run_is_refused_when_it_is_submitted(
    world: ServiceWorld, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Misconfigured, match=words):
        submit(world, a_sweep(**changes))
    assert world.store.sweeps.live() == ()


class Dies(BaseException):
    """The scheduler's process ends here."""


def dying(store: MemoryStore, after: int) -> None:
    """Before the call of so many to the store that writes, or right after it."""
    left = [after]
    inner: dict[str, Any] = {"stand": store.sweeps.stand, "put_intent": store.put_intent}

    def call(name: str, *arguments: Any, **named: Any) -> Any:
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        answer = inner[name](*arguments, **named)
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        return answer

    store.sweeps.stand = lambda *a, **n: call("stand", *a, **n)  # type: ignore[method-assign]
    store.put_intent = lambda *a, **n: call("put_intent", *a, **n)  # type: ignore[method-assign]


moves = st.one_of(
    st.tuples(st.just("look"), st.integers(0, 9)),
    st.tuples(st.just("tell"), st.integers(0, 9)),
    st.tuples(st.just("die"), st.integers(0, 9)),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.integers(0, 9)),
)


class History:
    """One sweep or map, and what people, scripts and kills do to it."""

    def __init__(self, folder: Path, *, is_map: bool) -> None:
        self.world = ServiceWorld(folder)
        self.made = submit(self.world, a_map(7, role=GPU) if is_map else a_sweep(max_parallel=3))
        self.count = 7 if is_map else 9
        self.upkeep = running(self.world)
        self.told = Counter[str]()

    def look(self, _number: int = 0) -> None:
        self.upkeep.step()

    def die(self, number: int) -> None:
        """The scheduler is killed before or after one of its next writes, and begins anew."""
        dying(self.world.store, number)
        try:
            self.upkeep.step()
        except Dies:
            self.upkeep = running(self.world)
        finally:
            del self.world.store.sweeps.stand, self.world.store.put_intent  # type: ignore[misc]

    def wait(self, _number: int = 0) -> None:
        self.world.pass_time(10_000)

    def tell(self, number: int) -> None:
        if (job := self._one(number)) is not None:
            self.told[job.workload_id] += 1 + number % 3
            tell(self.world, job, self.told[job.workload_id], number / 10)

    def end(self, number: int) -> None:
        if (job := self._one(number)) is not None and job.current is not None:
            ended = AttemptEnded(attempt_id=job.current.attempt_id, exit_code=0, finished=True)
            self.world.loop.observe(ended)

    def to_the_end(self) -> models.SweepView:
        """Each that runs tells all, and ends unless it is paused for it."""
        for _ in range(200):
            self.look()
            self.wait()
            for number in range(len(of_state(self.world, State.RUNNING))):
                self.tell(number)
            self.look()
            if self.told and max(self.told.values()) > 0:
                self.end(0)
            self.check()
            if look(self.world, self.made.id).ended_ms is not None:
                break
        self.world.pass_time(MINUTE)
        return look(self.world, self.made.id)

    def check(self) -> None:
        """No number has two jobs."""
        numbers = Counter(number_of(one) for one in self.world.cluster.workloads.values())
        assert not numbers or max(numbers.values()) == 1

    def _one(self, number: int) -> Workload | None:
        jobs = of_state(self.world, State.RUNNING)
        return jobs[number % len(jobs)] if jobs else None


@settings(max_examples=25, deadline=None)
@given(history=st.lists(moves, max_size=40), is_map=st.booleans())
def test_no_trial_is_lost_or_doubled_in_any_history_with_crashes(
    history: list[tuple[str, int]], *, is_map: bool
) -> None:
    with TemporaryDirectory() as folder:
        past = History(Path(folder), is_map=is_map)
        for move, number in history:
            getattr(past, move)(number)
            past.check()
        view = past.to_the_end()
        assert view.ended_ms is not None
        count = view.begun if "came to nothing" in view.text else past.count
        assert sorted(one.number for one in view.trials) == list(range(1, count + 1))
        assert live(past.world) == []


def test_what_passes_is_waited_for_and_what_stays_refused_is_said_of_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**CONFIG, "policy": {"max_pending_per_user": 1}}
    world = ServiceWorld(tmp_path, config=config)
    made = submit(world, a_map(1))
    upkeep = running(world)
    monkeypatch.setattr(world.directory, "knows", lambda _: False)
    upkeep.step()
    view = look(world, made.id)
    assert ([one.state for one in view.trials], view.ended_ms) == (["drawn"], None)
    assert "knows no user ann" in view.text

    monkeypatch.undo()
    later = a_request(not_before_ms=world.now_ms + MINUTE)
    jobs.submit(world.service, world.principal("ann"), later, key=None)
    upkeep.step()
    view = look(world, made.id)
    assert ([one.state for one in view.trials], view.ended_ms) == (["drawn"], None)
    assert "max_pending_per_user" in view.text

    def refused(*_: Any) -> models.JobView:
        raise PolicyRefused

    monkeypatch.setattr("gpucommons.scheduler.background_tasks.sweeps.submit_trial", refused)
    upkeep.step()
    upkeep.step()
    view = look(world, made.id)
    assert ([one.state for one in view.trials], view.ended_ms) == (["failed"], world.now_ms)

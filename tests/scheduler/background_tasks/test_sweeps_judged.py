"""What a trial came to is said once all that its job told was read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.sweeps import Sweeps
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import Progress, Workload, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.service.jobs import sweeps
from gpucommons.scheduler.store.base import LogPoint, WorkloadFilter
from gpucommons.scheduler.sweeps.sweep import Trial, TrialState


def test_a_trial_is_not_judged_before_all_that_its_job_printed_was_read(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    world.script = Script(run_ms=1000)
    asked = models.SweepRequest.model_validate(
        {
            "job": a_request(name="digits-sweep", role={"milli_gpu": 1000, "cpu_milli": 1000}),
            "space": {"lr": {"low": 0.1, "high": 0.2}},
            "objective": {"metric": "accuracy", "direction": "maximize"},
            "budget": {"trials": 1},
            "sampler": "random",
        }
    )
    ann = world.principal("ann")
    made = sweeps.submit_sweep(world.service, ann, asked, key=None)
    unread: list[Workload] = []

    def is_unread(job: Workload) -> bool:
        unread.append(job)
        return len(unread) < 3

    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch, unread=is_unread)
    while len(unread) < 2:
        upkeep.step()
        world.pass_time(1000)
    (trial,) = sweeps.sweep(world.service, ann, made.id).trials
    assert trial.state == "live"
    (job,) = world.store.workloads(WorkloadFilter(live=False)).items
    point = LogPoint(
        attempt_number=1, step=9, at_ms=world.now_ms, metrics={"accuracy": 0.9}, source="log"
    )
    world.store.add_points(world.loop.epoch, {job.workload_id: [point]})
    upkeep.step()
    (trial,) = sweeps.sweep(world.service, ann, made.id).trials
    assert (trial.state, trial.best) == ("done", 0.9)


def test_what_has_ended_is_not_counted_as_running_before_the_next_look(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path)
    world.script = Script(run_ms=1000)
    job = a_request(name="seeds", role={"milli_gpu": 1000, "cpu_milli": 1000})
    asked = models.SweepRequest.model_validate({"job": job, "given": [{"seed": 1}]})
    ann = world.principal("ann")
    made = sweeps.submit_sweep(world.service, ann, asked, key=None)

    def counted() -> tuple[int, int, int]:
        seen = sweeps.sweep(world.service, ann, made.id)
        return seen.waiting, seen.running, seen.done

    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    upkeep.step()
    states = [counted()]
    while states[-1] != (0, 0, 1):
        world.pass_time(1000)
        states.append(counted())
        assert len(states) < 30, states
    assert (0, 1, 0) in states
    (trial,) = world.store.sweeps.trials(ParentId(made.id))
    assert trial.state is TrialState.LIVE, "its sweep has not looked since"


def test_the_best_so_far_stays_as_it_was_when_it_was_told(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    ann = world.principal("ann")
    asked = models.SweepRequest.model_validate(
        {
            "job": a_request(name="search", role={"milli_gpu": 1000, "cpu_milli": 1000}),
            "space": {"lr": {"low": 0.1, "high": 0.2}},
            "objective": {"metric": "loss"},
            "budget": {"trials": 2},
            "sampler": "random",
        }
    )
    made = sweeps.submit_sweep(world.service, ann, asked, key=None)
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    for _ in range(6):
        upkeep.step()
        world.pass_time(1000)
    first, second = sorted(world.cluster.workloads.values(), key=lambda one: one.workload_id)

    def tell(job: Workload, step: int, loss: float) -> int:
        assert job.current is not None
        progress = Progress(step=step, metrics={"loss": loss}, at_ms=world.now_ms)
        world.loop.observe(ProgressReported(attempt_id=job.current.attempt_id, progress=progress))
        world.pass_time(60_000)
        return progress.at_ms

    def shown() -> list[tuple[int, int, float]]:
        view = sweeps.sweep(world.service, ann, made.id)
        assert (view.improvements_thinned, view.improvements_begun_late) == (False, False)
        return [(one.at_ms, one.trial, one.value) for one in view.improvements]

    expected = [(tell(first, 1, 329.0), 1, 329.0)]
    tell(second, 1, 521.0)
    upkeep.step()
    expected += [(tell(first, 2, 200.0), 1, 200.0)]
    upkeep.step()
    assert shown() == expected
    # One that is killed before it looks again: the next one reads the curves.
    expected += [(tell(second, 2, 150.0), 2, 150.0)]
    tell(second, 3, 151.0)
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)
    upkeep.step()
    assert shown() == expected
    sweeps.stop_sweep(world.service, ann, made.id)
    upkeep.step()
    assert shown() == expected
    more = models.MoreBudgetRequest(trials=1)
    sweeps.add_to_budget(world.service, ann, made.id, more, key="more")
    for _ in range(3):
        upkeep.step()
        world.pass_time(1000)
    assert shown() == expected


class _Search:
    """A sweep of two trials that run and have told nothing."""

    def __init__(self, folder: Path) -> None:
        self.world = world = ServiceWorld(folder)
        asked = models.SweepRequest.model_validate(
            {
                "job": a_request(name="search", role={"milli_gpu": 1000, "cpu_milli": 1000}),
                "space": {"lr": {"low": 0.1, "high": 0.2}},
                "objective": {"metric": "loss"},
                "budget": {"trials": 2},
                "sampler": "random",
            }
        )
        self._ann = world.principal("ann")
        self._id = sweeps.submit_sweep(world.service, self._ann, asked, key=None).id
        self.upkeep = self.new_leader()
        for _ in range(6):
            self.upkeep.step()
            world.pass_time(1000)
        self.jobs = sorted(world.cluster.workloads.values(), key=lambda one: one.workload_id)

    def new_leader(self) -> Sweeps:
        return Sweeps(self.world.service, epoch=lambda: self.world.loop.epoch)

    def tell(self, job: Workload, loss: float, *, step: int = 1) -> None:
        assert job.current is not None
        progress = Progress(step=step, metrics={"loss": loss}, at_ms=self.world.now_ms)
        told = ProgressReported(attempt_id=job.current.attempt_id, progress=progress)
        self.world.loop.observe(told)
        self.world.pass_time(1000)

    def shown(self) -> tuple[list[float], bool]:
        """The best over time; whether it is said that an earlier release began it."""
        view = sweeps.sweep(self.world.service, self._ann, self._id)
        return [one.value for one in view.improvements], view.improvements_begun_late


def test_a_read_that_fails_between_two_trials_loses_nothing_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = _Search(tmp_path)
    first, second = search.jobs
    search.tell(first, 5.0)
    search.tell(first, 3.0, step=2)
    search.tell(second, 2.0)
    upkeep, points = search.new_leader(), search.world.store.points

    def of_the_first_alone(job_id: WorkloadId, *given: Any, **named: Any) -> Sequence[LogPoint]:
        if job_id == second.workload_id:
            raise OSError("no store")
        return points(job_id, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(search.world.store, "points", of_the_first_alone)
        upkeep.step()
    assert search.shown() == ([5.0, 3.0], False)
    search.world.pass_time(2000)
    upkeep.step()
    assert search.shown() == ([5.0, 3.0, 2.0], False)


def test_who_reads_a_sweep_while_its_first_value_is_written_is_told_of_no_earlier_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = _Search(tmp_path)
    search.tell(search.jobs[0], 5.0)
    kept = search.world.store.sweeps
    read = kept.trials

    def after_a_look(sweep_id: ParentId) -> tuple[Trial, ...]:
        search.upkeep.step()
        return read(sweep_id)

    monkeypatch.setattr(kept, "trials", after_a_look)
    assert search.shown() == ([5.0], False)


def test_a_metric_that_nobody_tells_is_said_while_the_first_trials_run(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path)
    asked = models.SweepRequest.model_validate(
        {
            "job": a_request(name="digits-sweep", role={"milli_gpu": 1000, "cpu_milli": 1000}),
            "space": {"lr": {"low": 0.1, "high": 0.2}},
            "objective": {"metric": "accuracy"},
            "budget": {"trials": 2},
            "sampler": "random",
        }
    )
    ann = world.principal("ann")
    made = sweeps.submit_sweep(world.service, ann, asked, key=None)
    upkeep = Sweeps(world.service, epoch=lambda: world.loop.epoch)

    def said(*, after_ms: int) -> str:
        world.pass_time(after_ms)
        upkeep.step()
        return sweeps.sweep(world.service, ann, made.id).text

    assert [said(after_ms=1000) for _ in range(3)] == ["", "", ""]
    assert said(after_ms=700_000) == (
        "No trial has told accuracy yet, and digits-sweep-1-1 no metric at all: a script prints it, as in"
        " “accuracy 0.93”, or reports it."
    )
    (job, *_) = world.cluster.workloads.values()
    assert job.current is not None
    for metrics, then in (
        ({"loss": 0.5, "acc": 0.1}, "No trial has told accuracy yet; what digits-sweep-1-1 told: acc, loss."),
        ({"Accuracy": 0.1}, ""),
    ):  # fmt: skip
        progress = Progress(step=1, metrics=metrics, at_ms=world.now_ms)
        world.loop.observe(ProgressReported(attempt_id=job.current.attempt_id, progress=progress))
        assert said(after_ms=1000) == then

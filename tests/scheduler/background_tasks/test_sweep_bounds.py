"""What looks at sweeps may take: of the scheduler's time and memory, and what a lost lead costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.sweeps import Sweeps, _is_news
from gpucommons.scheduler.background_tasks.trial_curves import CurveReader
from gpucommons.scheduler.core.model.state import ProgressReported
from gpucommons.scheduler.core.model.types import Progress, State, Workload
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.service.jobs import sweeps
from gpucommons.scheduler.store.base import Epoch
from gpucommons.scheduler.sweeps.sweep import Trial, TrialState


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    return ServiceWorld(tmp_path)


def submit(world: ServiceWorld) -> models.SweepView:
    request = {
        "job": a_request(name="search", role={"milli_gpu": 1000, "cpu_milli": 1000}),
        "space": {"lr": {"low": 0.1, "high": 1}},
        "objective": {"metric": "accuracy", "direction": "maximize"},
        "budget": {"trials": 9},
        "sampler": "random",
    }
    asked = models.SweepRequest.model_validate(request)
    return sweeps.submit_sweep(world.service, world.principal("ann"), asked, key=None)


def running(world: ServiceWorld) -> list[Workload]:
    return [one for one in world.cluster.workloads.values() if one.state is State.RUNNING]


def begun(world: ServiceWorld, upkeep: Sweeps) -> Workload:
    for _ in range(6):
        upkeep.step()
        world.pass_time(1000)
    return running(world)[0]


def tell(world: ServiceWorld, job: Workload, step: int, value: float) -> None:
    assert job.current is not None
    progress = Progress(step=step, metrics={"accuracy": value}, at_ms=world.now_ms)
    world.loop.observe(ProgressReported(attempt_id=job.current.attempt_id, progress=progress))
    world.pass_time(1000)


def test_a_stopped_sweep_whose_look_fails_is_looked_at_at_once_and_then_more_rarely(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, upkeep = submit(world), Sweeps(world.service, epoch=lambda: world.loop.epoch)
    looks: list[int] = []

    def fails(*_: Any) -> None:
        looks.append(world.now_ms)
        raise ZeroDivisionError

    monkeypatch.setattr(upkeep, "_look", fails)
    for _ in range(20):
        upkeep.step()
        world.pass_time(1000)
    before = len(looks)
    sweeps.stop_sweep(world.service, world.principal("ann"), made.id)
    stopped_ms = world.now_ms
    for _ in range(120):
        upkeep.step()
        world.pass_time(1000)
    assert looks[before] == stopped_ms
    assert len(looks) - before <= 4


def test_nothing_is_kept_of_jobs_that_were_live_when_their_sweep_ended(world: ServiceWorld) -> None:
    made, upkeep = submit(world), Sweeps(world.service, epoch=lambda: world.loop.epoch)
    tell(world, begun(world, upkeep), 1, 0.5)
    upkeep.step()
    sweeps.stop_sweep(world.service, world.principal("ann"), made.id)
    for _ in range(3):
        upkeep.step()
        world.pass_time(1000)
    # Neither in what is known of it, nor in a reader of all.
    assert upkeep._known == {}
    assert not [one for one in vars(upkeep).values() if isinstance(one, CurveReader)]


def test_what_was_read_in_a_look_of_a_lost_lead_is_read_again_by_the_next(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads = [world.loop.epoch]
    made, upkeep = submit(world), Sweeps(world.service, epoch=lambda: leads[-1])
    job = begun(world, upkeep)
    tell(world, job, 1, 0.9)
    tell(world, job, 2, 0.1)
    stand = world.store.sweeps.stand

    def lost(*_: Any) -> None:
        raise LeaderLost("another leads")

    monkeypatch.setattr(world.store.sweeps, "stand", lost)
    with pytest.raises(LeaderLost):
        upkeep.step()
    leads.append(Epoch(world.loop.epoch + 2))
    monkeypatch.setattr(
        world.store.sweeps, "stand", lambda _, kept, trials: stand(leads[0], kept, trials)
    )
    upkeep.step()
    best = sweeps.sweep(world.service, world.principal("ann"), made.id).best
    assert best is not None
    assert (best.best, best.best_step) == (0.9, 1)


class Uncompared(Trial):
    """A trial that takes long to compare."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it is as it was")

    __hash__ = None  # type: ignore[assignment]


def test_of_thousands_of_trials_those_that_are_as_they_were_are_not_compared() -> None:
    trial = Uncompared(number=1, values={"lr": 0.1}, state=TrialState.DONE, best=0.5)
    assert not _is_news(trial, trial)

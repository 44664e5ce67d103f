"""The core played forward: what the forecast says is what then happens."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from builders import World, a_job, a_node, a_notebook, a_team

from gpucommons.scheduler.core.model.intents import Started
from gpucommons.scheduler.core.model.state import CheckpointReported, ProgressReported
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    Idleness,
    Kind,
    Millis,
    Progress,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.forecast.arrivals import Arrival
from gpucommons.scheduler.forecast.estimating import (
    Budget,
    Lengths,
    budget_for,
    estimate,
    if_nothing_ends_early,
)
from gpucommons.scheduler.forecast.runs import History, Likeness, Run
from gpucommons.scheduler.forecast.windows import raw_window

T = TypeVar("T")
MINUTE = 60_000
FEW = Budget(futures=3)


def played(playing: Generator[None, None, T]) -> T:
    while True:
        try:
            next(playing)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def ended(minutes: float, *, count: int = 20, **like: Any) -> list[Run]:
    whose = {
        "kind": Kind.TRAINING,
        "team": TeamName("vision"),
        "user": UserName("ann"),
        "family": "digits",
    }
    run = Run(like=Likeness(**(whose | like)), ran_ms=round(minutes * MINUTE))
    return [run] * count


def a_machine(gpus: int = 1, **quota: int) -> World:
    quota = quota or {"guaranteed_milli_gpu": gpus * 1000}
    return World(a_node(gpus=gpus), teams=[a_team(**quota)])


def forecast(world: World, runs: list[Run], budget: Budget = FEW) -> Lengths:
    return played(estimate(world.cluster, History(runs), budget))


def test_a_forecast_is_exact_when_run_times_are() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    first, second = world.submit(a_job("digits-2")), world.submit(a_job("digits-3"))
    world.wait(4 * MINUTE)
    found = forecast(world, ended(10))
    # 6 of 10 minutes are left; then a run of 10. Only later the grid of time is coarse: 4 %.
    assert found.waits[first] == (6 * MINUTE,) * 3
    assert found.waits[second] == pytest.approx([16 * MINUTE] * 3, rel=0.04)
    assert found.endless == frozenset()


def test_the_same_cluster_has_the_same_futures() -> None:
    world = a_machine(2)
    for number in range(6):
        world.submit(a_job(f"digits-{number}"))
    runs = [run for minutes in range(1, 41) for run in ended(minutes, count=1)]
    assert forecast(world, runs, Budget()) == forecast(world, list(reversed(runs)), Budget())


def test_varied_runs_give_a_window_around_their_median() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    runs = [run for minutes in range(1, 41) for run in ended(minutes, count=1)]
    window = raw_window(forecast(world, runs, Budget()).waits[waits])
    assert window is not None
    assert window.from_ms == pytest.approx(4 * MINUTE, abs=2 * MINUTE)
    assert window.median_ms == pytest.approx(20 * MINUTE, abs=3 * MINUTE)
    assert window.to_ms == pytest.approx(37 * MINUTE, abs=3 * MINUTE)


def test_what_ran_long_already_is_expected_to_run_longer() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    world.wait(15 * MINUTE)
    runs = [*ended(10), *ended(60)]
    assert forecast(world, runs).waits[waits] == pytest.approx([45 * MINUTE] * 3, rel=0.05)


def test_without_history_or_limit_nothing_is_promised() -> None:
    world = a_machine()
    running = world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    found = forecast(world, ended(10, count=19))
    assert found.waits[waits] == (None, None, None)
    assert running in found.endless
    assert raw_window(found.waits[waits]) is None


def test_a_time_limit_bounds_what_history_does_not_know() -> None:
    world = a_machine()
    world.run(a_job("digits-1", max_run_ms=60 * MINUTE))
    waits = world.submit(a_job("digits-2"))
    found = forecast(world, []).waits[waits]
    assert sorted(found) == pytest.approx([10 * MINUTE, 30 * MINUTE, 50 * MINUTE], rel=0.05)
    latest = played(if_nothing_ends_early(world.cluster, [waits], FEW))
    assert latest[waits] == pytest.approx(world.now + 60 * MINUTE, abs=3 * MINUTE)


def test_who_waits_for_something_without_limit_has_no_latest_start() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    assert played(if_nothing_ends_early(world.cluster, [waits], FEW)) == {}


def test_a_job_that_counts_its_steps_is_believed_before_others_runs() -> None:
    world = a_machine()
    running = world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    world.wait(10 * MINUTE)
    progress = Progress(step=25, total_steps=100, at_ms=Millis(world.now))
    world.step(ProgressReported(attempt_id=world.attempt_id(running), progress=progress))
    # A quarter took 10 minutes: 30 are left, give or take a tenth.
    found = forecast(world, ended(11)).waits[waits]
    assert sorted(found) == pytest.approx([28 * MINUTE, 30 * MINUTE, 32 * MINUTE], rel=0.06)


def test_a_job_whose_steps_are_all_done_is_about_to_end_whatever_its_limit() -> None:
    world = a_machine()
    running = world.run(a_job("digits-1", max_run_ms=24 * 60 * MINUTE))
    waits = world.submit(a_job("digits-2"))
    world.wait(120 * MINUTE)
    progress = Progress(step=100, total_steps=100, at_ms=Millis(world.now))
    world.step(ProgressReported(attempt_id=world.attempt_id(running), progress=progress))
    assert max(found or 0 for found in forecast(world, []).waits[waits]) < MINUTE


def test_a_stopped_job_needs_only_the_steps_after_its_checkpoint() -> None:
    teams = [a_team(over_quota_weight=1), a_team("nlp", guaranteed_milli_gpu=1000)]
    world = World(a_node(gpus=1), teams=teams)
    stopped = world.run(a_job("digits-1"))
    attempt_id = world.attempt_id(stopped)
    world.wait(10 * MINUTE)
    progress = Progress(step=50, total_steps=100, at_ms=Millis(world.now))
    saved = Checkpoint(
        attempt_id=attempt_id, step=50, path="", size_bytes=1, sha256="", at_ms=Millis(world.now)
    )
    world.step(
        ProgressReported(attempt_id=attempt_id, progress=progress),
        CheckpointReported(attempt_id=attempt_id, checkpoint=saved),
    )
    winner = world.submit(a_job("bert-1", team=TeamName("nlp"), owner=UserName("bob")))
    world.wait(MINUTE)
    world.end(stopped, 143)
    world.start(winner)
    behind = world.submit(a_job("digits-2"))
    bert = ended(20, team=TeamName("nlp"), user=UserName("bob"), family="bert")
    found = forecast(world, [*bert, *ended(10)])
    assert found.waits[stopped] == pytest.approx([20 * MINUTE] * 3, rel=0.05)
    # 50 steps at 12 s each are 10 minutes more, give or take a tenth.
    assert found.waits[behind] == pytest.approx([30 * MINUTE] * 3, rel=0.12)


def test_a_ticket_waits_for_the_notebooks_of_its_team() -> None:
    world = a_machine(fixed_milli_gpu=1000)
    held = world.submit(a_notebook("ann", 1000))
    world.ask(Started(workload_id=held))
    ticket = world.submit(a_notebook("ada", 1000))
    world.wait(30 * MINUTE)
    leases = ended(50, kind=Kind.NOTEBOOK, user=UserName("zoe"), family="")
    assert forecast(world, [*leases, *ended(1)]).waits[ticket] == pytest.approx(
        [20 * MINUTE] * 3, rel=0.05
    )


def test_an_idle_notebook_that_was_warned_mostly_ends_when_it_was_told() -> None:
    world = a_machine(fixed_milli_gpu=1000)
    held = world.submit(a_notebook("ann", 1000))
    world.ask(Started(workload_id=held))
    ticket = world.submit(a_notebook("ada", 1000))
    lease = world.cluster.workloads[held]
    warned = replace(lease, idleness=Idleness(returns_ms=Millis(world.now + 10 * MINUTE)))
    cluster = replace(world.cluster, workloads={**world.cluster.workloads, held: warned})
    leases = ended(50, kind=Kind.NOTEBOOK, user=UserName("zoe"), family="")
    found = played(estimate(cluster, History(leases), Budget())).waits[ticket]
    assert sum(one == pytest.approx(10 * MINUTE, rel=0.05) for one in found) == 8


def test_who_does_not_start_in_one_future_is_not_looked_for_in_the_others() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2"))
    # Two of five have not ended: in two futures of five nothing is in sight.
    going = [replace(run, ended=False) for run in ended(90, count=16)]
    playing = estimate(world.cluster, History([*ended(10, count=24), *going]), Budget(futures=5))
    found = played(playing).waits[waits]
    first = found.index(None)
    assert first < 4
    assert set(found[first:]) == {None}
    assert raw_window(found) is None


def test_arrivals_are_asked_for_no_further_than_a_future_is_played() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    world.submit(a_job("digits-2"))
    asked = []

    def arriving(_future: int) -> Iterator[Arrival]:
        for hour in range(1, 1000):
            asked.append(hour)
            at_ms = Millis(world.now + hour * 60 * MINUTE)
            yield Arrival(at_ms=at_ms, spec=a_job("other"), run_ms=MINUTE)

    played(estimate(world.cluster, History(ended(10)), FEW, arriving=arriving))
    # Each future ends within ten minutes; a cycle asks for one more at most.
    assert max(asked) <= 5


def test_a_long_line_of_short_runs_is_not_called_out_of_sight() -> None:
    """Cycles that grow with the time until then stand for many runs, of which each device does one."""
    world = a_machine()
    world.run(a_job("digits-0"))
    line = [world.submit(a_job(f"digits-{number}")) for number in range(1, 51)]

    found = forecast(world, ended(180), FEW).waits[line[-1]]

    # Fifty runs of three hours are six days and a quarter.
    assert found == (pytest.approx(150 * 60 * MINUTE, rel=0.15),) * 3


def test_large_clusters_are_looked_at_more_coarsely() -> None:
    world = a_machine()
    ticket = world.submit(a_job("digits-1", 2000))
    one = world.cluster.workloads[ticket]
    sizes = []
    for live in (1, 1_000, 10_000):
        many = replace(world.cluster, workloads={WorkloadId(f"w-{n}"): one for n in range(live)})
        budget = budget_for(many)
        sizes.append(budget.futures * budget.cycles)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] <= 200


def test_who_is_not_waiting_has_no_forecast() -> None:
    world = a_machine()
    world.run(a_job("digits-1"))
    assert forecast(world, ended(10)).waits == {}

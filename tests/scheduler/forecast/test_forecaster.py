"""Forecasts of a running scheduler: what people see, and the books behind it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.errors import UnknownWorkload
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.forecast.estimating import Budget, estimate
from gpucommons.scheduler.forecast.forecast import told_of
from gpucommons.scheduler.forecast.forecast_records import EstimateLedger
from gpucommons.scheduler.forecast.forecaster import FRESH_MS, REFRESH_S, STALE_MS, Forecaster
from gpucommons.scheduler.forecast.past_runs import PastRuns
from gpucommons.scheduler.forecast.runs import History
from gpucommons.scheduler.forecast.windows import Calibration, is_over
from gpucommons.scheduler.service import idle, leases, why
from gpucommons.scheduler.service.advice.calibration import calibration_view
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import WorkloadFilter
from gpucommons.scheduler.store.estimates import Estimate

T = TypeVar("T")
MINUTE = 60_000


def played(playing: Generator[None, None, T]) -> T:
    while True:
        try:
            next(playing)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


class Foreseen(ServiceWorld):
    """A scheduler whose forecaster takes its turns by hand."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.forecaster = Forecaster(
            self.loop,
            self.store,
            now_ms=lambda: self.now_ms,
            why_not=every_size,
            budget=Budget(futures=3),
            idle_after_ms=60 * MINUTE,
        )
        object.__setattr__(self.service, "forecasts", self.forecaster)
        self.ann, self.bob = self.principal("ann"), self.principal("bob")

    def job(self, gpus: int = 3, name: str = "digits", minutes: float = 10) -> models.JobView:
        self.script = Script(run_ms=round(minutes * MINUTE))
        request = a_request(name=name, role={"milli_gpu": gpus * 1000})
        return jobs.submit(self.service, self.ann, request, key=None)

    def past(self, count: int = 20, minutes: float = 10) -> None:
        """So many runs of exactly that length."""
        for _ in range(count):
            self.job(1, minutes=minutes)
            self.pass_time(0)
            self.pass_time(round(minutes * MINUTE))
            self.pass_time(0)
        self.forecaster.round()

    def seen(self, ref: str) -> models.ForecastView | None:
        return jobs.job(self.service, self.ann, ref).forecast


@pytest.fixture
def world(tmp_path: Path) -> Foreseen:
    return Foreseen(tmp_path)


def held_and_waiting(world: Foreseen) -> models.JobView:
    world.job()
    world.pass_time(0)
    world.pass_time(1000)
    return world.job()


def test_a_waiting_job_shows_its_window_and_a_running_one_none(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    assert world.seen(waits.name) is None
    world.forecaster.round()
    found = world.seen(waits.name)
    assert found is not None
    assert found.text == "Likely about 10 min."
    assert (found.from_ms, found.to_ms, found.unknown) == (10 * MINUTE, 10 * MINUTE, None)
    world.pass_time(10 * MINUTE)
    world.pass_time(0)
    assert world.seen(waits.name) is None


def test_the_past_says_up_to_when_it_has_forgotten_some(world: Foreseen) -> None:
    world.past(4)
    by_age = sorted(one.submitted_ms for one in world.store.workloads(WorkloadFilter()).items)
    whole, short = (PastRuns(world.store, remembered=number) for number in (4, 2))
    whole.look(world.loop.cluster)
    short.look(world.loop.cluster)
    assert (whole.forgotten_ms, short.forgotten_ms) == (0, by_age[1])
    world.job(1)
    world.pass_time(0)
    short.look(world.loop.cluster)
    world.pass_time(10 * MINUTE)
    world.pass_time(0)
    short.look(world.loop.cluster)
    assert len(short.runs(world.loop.cluster)) == 2
    assert short.forgotten_ms == by_age[2]


def test_without_a_past_it_says_a_wide_range_and_that_there_is_little_to_judge_by(
    world: Foreseen,
) -> None:
    waits = held_and_waiting(world)
    world.forecaster.round()
    found = world.seen(waits.name)
    assert found is not None
    assert (found.basis, found.unknown, found.at_latest_ms) == ("thin", None, None)
    assert found.text == "Likely between 5 min and 5 h, few jobs to judge by."
    assert (found.span, found.note) == ("between 5 min and 5 h", "few jobs to judge by")
    # Its record is a record of its own: it neither flatters nor widens what like runs say.
    (kept,) = world.store.estimates()
    assert (kept.wait_class, kept.withheld) == ("job gpu thin", False)


def test_who_waits_for_a_lost_node_is_told_no_range(world: Foreseen) -> None:
    waits = held_and_waiting(world)
    nodes = [replace(node, state=NodeState.LOST) for node in world.cluster.nodes.values()]
    lost = replace(world.cluster, nodes={node.node_id: node for node in nodes})
    lengths = played(estimate(lost, History(()), Budget(futures=3)))
    said = told_of(lengths, WorkloadId(waits.id), Calibration())
    assert said.text.startswith("Likely start unknown: too little is known")


@pytest.mark.parametrize(
    ("who", "holder"), [("ann", "digits-1"), ("bob", "another job")], ids=["own team", "others"]
)
def test_what_was_wrong_too_often_is_wide_and_bounded_by_a_time_limit(
    world: Foreseen, monkeypatch: pytest.MonkeyPatch, who: str, holder: str
) -> None:
    wrong = {"job gpu": Calibration(in_time=0.1)}
    monkeypatch.setattr(EstimateLedger, "calibrations", lambda *_: wrong)
    request = a_request(role={"milli_gpu": 3000}, max_run_s=7200)
    jobs.submit(world.service, world.principal(who), request, key=None)
    world.pass_time(0)
    world.pass_time(1000)
    waits = world.job()
    world.forecaster.round()
    found = world.seen(waits.name)
    assert found is not None
    assert (found.basis, found.to_ms, found.at_latest_ms) == ("wrong", 120 * MINUTE, 120 * MINUTE)
    assert found.text == (
        "Likely between 5 min and 2 h, past estimates were often wrong; at the latest in about 2 h,"
        f" when {holder}'s time limit ends."
    )
    (kept,) = world.store.estimates()
    assert (kept.wait_class, kept.withheld) == ("job gpu", True)


def test_the_first_window_of_a_wait_is_kept_and_compared(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    world.forecaster.round()
    world.forecaster.round()
    (kept,) = world.store.estimates()
    assert (kept.workload_id, kept.wait_class, kept.started_ms) == (waits.id, "job gpu", None)
    world.pass_time(11 * MINUTE)  # an age at which another window is kept
    world.pass_time(0)
    world.forecaster.round()
    first: Estimate = world.store.estimates()[0]
    assert first.started_ms is not None
    assert first.started_ms - first.made_ms == 11 * MINUTE


def test_a_wait_that_was_told_no_range_is_counted_once_it_has_started_and_teaches_nothing(
    world: Foreseen,
) -> None:
    waits = held_and_waiting(world)
    nodes = [replace(node, state=NodeState.LOST) for node in world.cluster.nodes.values()]
    lost = replace(world.cluster, nodes={node.node_id: node for node in nodes})
    lengths = played(estimate(lost, History(()), Budget(futures=3)))
    one = WorkloadId(waits.id)
    told = {one: told_of(lengths, one, Calibration())}
    ledger = EstimateLedger(world.store)
    (untold,) = ledger.note(lost, lengths, told, {})
    assert ledger.note(lost, lengths, told, {}) == [], "once for each age of the wait"
    assert (untold.foreseen, untold.withheld, untold.left) == (False, True, False)
    assert not is_over(untold, Millis(1 << 50))

    world.pass_time(10 * MINUTE)
    world.pass_time(0)
    (started,) = ledger.settle(world.cluster)
    assert is_over(started, world.now_ms)
    assert {found.compared for found in ledger.calibrations(world.now_ms).values()} == {0}
    view = calibration_view([started], [], from_ms=Millis(0), now_ms=Millis(world.now_ms))
    jobs_row = next(row for row in view.clocks if row.what == "Job starts")
    assert (jobs_row.withheld, jobs_row.share.of, view.notes) == (1, 0, [])


def test_a_range_that_comes_after_none_is_kept_as_the_first(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    one = WorkloadId(waits.id)
    known = played(estimate(world.cluster, History(()), Budget(futures=3)))
    none = replace(known, waits={one: (None,)}, thin={})
    told = {one: told_of(none, one, Calibration())}
    ledger = EstimateLedger(world.store)
    assert [kept.foreseen for kept in ledger.note(world.cluster, none, told, {})] == [False]
    told = {one: told_of(known, one, Calibration())}
    assert [kept.foreseen for kept in ledger.note(world.cluster, known, told, {})] == [True]
    assert ledger.note(world.cluster, none, told, {}) == []


def test_a_wait_that_had_a_range_is_not_counted_as_told_none_at_any_age(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    one = WorkloadId(waits.id)
    ledger = EstimateLedger(world.store)
    known = played(estimate(world.cluster, History(()), Budget(futures=3)))
    told = {one: told_of(known, one, Calibration())}
    assert [kept.foreseen for kept in ledger.note(world.cluster, known, told, {})] == [True]
    for minutes in (9, 11, 12, 61):
        made_ms = Millis(known.made_ms + minutes * MINUTE)
        none = replace(known, made_ms=made_ms, waits={one: (None,)}, thin={})
        told = {one: told_of(none, one, Calibration())}
        assert ledger.note(world.cluster, none, told, {}) == []


def test_a_long_wait_is_forecast_again_at_a_few_ages(world: Foreseen) -> None:
    world.past(minutes=60)
    world.job(minutes=60)
    world.pass_time(0)
    world.job(minutes=60)
    for _ in range(5):
        world.forecaster.round()
        world.pass_time(4 * MINUTE)
    ages = [one.made_ms - world.store.estimates()[0].made_ms for one in world.store.estimates()]
    assert ages == [0, 12 * MINUTE]


def test_who_leaves_the_line_is_not_compared(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    world.forecaster.round()
    done(jobs.cancel(world.service, world.ann, waits.name))
    world.forecaster.round()
    assert [one.left for one in world.store.estimates()] == [True]


def test_a_restart_knows_the_past_and_the_open_windows(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    world.forecaster.round()
    again = Forecaster(
        world.loop,
        world.store,
        now_ms=lambda: world.now_ms,
        why_not=every_size,
        budget=Budget(futures=3),
    )
    again.round()
    assert len(world.store.estimates()) == 1
    assert again.of(world.cluster.workloads[waits.id]) is not None  # type: ignore[index]


def test_old_forecasts_are_not_shown(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    world.forecaster.round()
    world.now_ms = type(world.now_ms)(world.now_ms + STALE_MS + 1)
    assert world.seen(waits.name) is None


def test_why_says_place_window_and_what_would_start_it(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    world.forecaster.round()
    found = done(why.why_job(world.service, world.ann, waits.name))
    assert found.reason is not None
    assert (found.position, found.text) == (1, found.reason.text)
    assert found.forecast is not None
    assert [way.text for way in found.ways] == found.forecast.ways
    assert found.forecast.ways == [
        "Would start now with 1 GPU.",
    ]
    assert found.at_latest_ms is None
    running = world.cluster.workloads
    assert jobs.job(world.service, world.ann, waits.name).state == "queued"
    assert len(running) == 2


def test_on_a_large_cluster_why_leaves_trial_cycles_to_the_thread_of_the_forecasts(
    world: Foreseen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "LARGE", 1)
    world.past()
    waits = held_and_waiting(world)
    asked = why.why_job(world.service, world.ann, waits.name)
    assert asked.probe() is None
    meanwhile = asked.give_up()
    assert (meanwhile.ways, meanwhile.position, meanwhile.reason is not None) == ([], 1, True)
    world.forecaster.round()
    found = asked.probe()
    assert found is not None
    assert [way.text for way in found.ways] == [
        "Would start now with 1 GPU.",
    ]
    # What was found is good for a while, and then worked out anew.
    assert why.why_job(world.service, world.ann, waits.name).probe() is not None
    world.now_ms = type(world.now_ms)(world.now_ms + FRESH_MS + 1)
    assert why.why_job(world.service, world.ann, waits.name).probe() is None


def test_nobody_reads_the_windows_of_other_teams(world: Foreseen) -> None:
    world.past()
    waits = held_and_waiting(world)
    world.forecaster.round()
    listed = jobs.jobs(world.service, world.bob, jobs.JobFilter(team="vision"), cursor=None).jobs
    assert [(job.owner, job.forecast) for job in listed] == [("", None)] * 2
    with pytest.raises(UnknownWorkload):
        why.why_job(world.service, world.bob, waits.id)


def test_a_ticket_has_a_forecast_as_well(world: Foreseen) -> None:
    asked = models.LeaseRequest(user="ann", milli_gpu=1000)
    held = done(leases.acquire(world.service, world.hub_service, asked, key=None))
    done(leases.started(world.service, world.hub_service, held.id, models.StartedReport()))
    mine = models.LeaseRequest(server_name="b", milli_gpu=1000)
    ticket = done(leases.wait_in_line(world.service, world.ann, mine, key=None))
    assert ticket.forecast is None
    world.forecaster.round()
    found = leases.lease(world.service, world.ann, ticket.id).forecast
    assert found is not None
    assert found.basis == "thin"
    assert found.text == (
        "Likely between 25 min and 6 h, few notebooks to judge by:"
        " vision's notebooks hold the GPUs for as long as they are used."
    )
    told = done(why.why_lease(world.service, world.ann, ticket.id))
    assert (told.position, told.forecast) == (1, found)
    with pytest.raises(UnknownWorkload):
        why.why_lease(world.service, world.bob, ticket.id)


def held_by(world: Foreseen, user: str) -> models.LeaseView:
    """A whole GPU of its team's fixed quota."""
    asked = models.LeaseRequest(user=user, milli_gpu=1000)
    held = done(leases.acquire(world.service, world.hub_service, asked, key=None))
    return done(leases.started(world.service, world.hub_service, held.id, models.StartedReport()))


@pytest.mark.parametrize(
    ("announced", "likely"), [(False, "25 min and 6 h"), (True, "40 and 55 min")]
)
def test_a_ticket_behind_an_idle_notebook_says_when_that_would_be_returned(
    world: Foreseen, announced: bool, likely: str
) -> None:
    held, _ = held_by(world, "ann"), held_by(world, "bob")
    returns_ms = world.now_ms + 40 * MINUTE if announced else None
    said = models.IdleReport(idle_since_ms=world.now_ms - 20 * MINUTE, returns_ms=returns_ms)
    done(idle.report_idle(world.service, world.culler, held.id, said))
    mine = models.LeaseRequest(server_name="b", milli_gpu=1000)
    ticket = done(leases.wait_in_line(world.service, world.ann, mine, key=None))
    world.forecaster.round()
    found = leases.lease(world.service, world.ann, ticket.id).forecast
    assert found is not None
    assert found.text == (
        f"Likely between {likely}, few notebooks to judge by:"
        " vision's notebooks hold the GPUs for as long as they are used;"
        " in about 40 min if what is idle stays idle."
    )
    # It may be used again: that is no promise.
    assert found.at_latest_ms is None


def test_the_thread_answers_soon_and_ends(world: Foreseen) -> None:
    world.past()
    answered = threading.Event()
    told = world.forecaster.round

    def round_and_tell() -> None:
        told()
        answered.set()

    world.forecaster.round = round_and_tell  # type: ignore[method-assign]
    world.forecaster.start()
    try:
        waits = held_and_waiting(world)
        while world.seen(waits.name) is None:
            assert answered.wait(REFRESH_S)
            answered.clear()
    finally:
        world.forecaster.stop()


def test_a_job_behind_notebooks_is_told_whose_and_behind_other_jobs_is_not(world: Foreseen) -> None:
    asked = models.LeaseRequest(user="bob", milli_gpu=1000)
    held = done(leases.acquire(world.service, world.hub_service, asked, key=None))
    done(leases.started(world.service, world.hub_service, held.id, models.StartedReport()))
    waits = world.job(4, minutes=10)
    world.pass_time(0)
    world.forecaster.round()
    found = world.seen(waits.name)
    assert found is not None
    assert (found.basis, "nlp's notebooks hold the GPUs" in found.text) == ("thin", True)
    assert "bob" not in found.text
    world.job(1, name="other")
    world.pass_time(0)
    world.pass_time(2 * FRESH_MS)
    world.forecaster.round()
    found = world.seen(waits.name)
    assert found is not None
    assert found.note == "few jobs to judge by"

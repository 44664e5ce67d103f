"""Sample data of the demo: ninety days that never were, so that pages of the past show what they can show.

They lie in a store of their own, in memory, made when somebody first asks for them. Nothing of them is
in the scheduler's store: not in its reports, and not in what forecasts and plans learn from. Numbers
come from the calendar alone, so each start shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gpucommons.scheduler.core.model.price_and_budget import Price
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Changes, Event
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.plans import ChosenPlan, Said
from gpucommons.scheduler.service.service import Sample
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.estimates import Estimate, Window
from gpucommons.scheduler.store.memory import MemoryStore
from gpucommons.scheduler.store.plans.base import Actual, JudgedRun
from gpucommons.scheduler.store.quota_minutes.base import WHOLE_POOL, QuotaMinute

DAYS = 90
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
#: Rows of the last days are as fine as they are drawn.
_FINE_MS, _QUARTER_MS = 3 * _DAY_MS, 15 * _MINUTE_MS
_GPUS = 4000
#: Of a GPU and hour.
_PRICE, _CURRENCY = 1.2, "EUR"
_POOL = PoolName("gpu")
_VISION, _NLP = TeamName("vision"), TeamName("nlp")
#: Fixed and guaranteed together, as in the demo's configuration.
_QUOTAS = {_VISION: 2500, _NLP: 1500}
_SATURDAY = 5
#: When people work, and when they have lunch.
_WORK, _LUNCH = range(8, 18), (12, 13)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hold:
    """What somebody holds for a while."""

    name: str
    team: TeamName
    owner: str
    kind: Kind
    hold_class: HoldClass
    milli_gpu: int
    percent: int
    idle: bool = False
    lost: bool = False
    #: It holds nothing, and would hold that.
    parked: bool = False
    project: str = ""


def sample_history(now_ms: int) -> Sample:
    """The days before the hour of a moment."""
    store = MemoryStore()
    epoch = store.take_lead("sample data")
    end_ms = now_ms - now_ms % _HOUR_MS
    steps = list(_steps(end_ms))
    store.add_ledger(
        epoch, [row for at_ms, span_ms in steps for row in _rows(at_ms, span_ms, end_ms)]
    )
    store.quota_minutes.put(
        epoch, [row for at_ms, span_ms in steps for row in _sizes(at_ms, span_ms, end_ms)]
    )
    jobs = tuple(_jobs(end_ms))
    store.commit(
        epoch, Changes(now_ms=Millis(now_ms), workloads=jobs, events=tuple(_events(end_ms)))
    )
    store.add_estimates(epoch, [_estimate(number, end_ms) for number in range(120)])
    store.plans.judge(epoch, [_run(number, end_ms) for number in range(90)])
    # Readers leave out the last minute, which a ledger has not written yet.
    pool = Pool(
        name=_POOL,
        currency=_CURRENCY,
        prices=(Price(from_ms=Millis(0), micro_per_gpu_h=round(_PRICE * 1e6)),),
    )
    return Sample(store=store, now_ms=Millis(end_ms + _MINUTE_MS), priced={_POOL: pool})


def _steps(end_ms: int) -> Iterator[tuple[int, int]]:
    """Hours, and at the end quarters of them."""
    fine_ms = end_ms - _FINE_MS
    for at_ms in range(end_ms - DAYS * _DAY_MS, fine_ms, _HOUR_MS):
        yield at_ms, _HOUR_MS
    for at_ms in range(fine_ms, end_ms, _QUARTER_MS):
        yield at_ms, _QUARTER_MS


def _holds(at_ms: int, end_ms: int) -> Iterator[_Hold]:
    """Notebooks by day, training by night, and in later weeks more that is borrowed."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    weeks = (at_ms - (end_ms - DAYS * _DAY_MS)) // (7 * _DAY_MS)
    works = at.weekday() < _SATURDAY and at.hour in _WORK
    if works:
        lunch = at.hour in _LUNCH
        yield _notebook("lab-alice", _VISION, "alice", (500, 0 if lunch else 34), idle=lunch)
        # Idle for an hour, it is parked until he is back from lunch: others have his GPU.
        bob = _notebook(
            "lab-bob", _NLP, "bob", (1000, 0 if lunch else 27), idle=at.hour in (12, 16)
        )
        yield replace(bob, parked=at.hour == _LUNCH[-1])
    yield _job("digits", _VISION, "ada", (500, 86), HoldClass.GUARANTEED)
    if at.hour % 24 not in (6, 7):
        yield _job("thesis", _NLP, "nora", (500, 91), HoldClass.GUARANTEED)
    borrowed = (1000 if works else 1000 * min(2, 1 + weeks // 5)) if (at.day + weeks) % 6 else 0
    if borrowed:
        # Each morning somebody's notebook wins a GPU back.
        lost = at.weekday() < _SATURDAY and at.hour == _WORK.start
        borrower = _job("pretrain-small", _NLP, "nora", (borrowed, 93), HoldClass.OVER_QUOTA)
        yield replace(borrower, lost=lost)
    if not works and weeks > 5:  # noqa: PLR2004 - the sixth week
        yield _job("segmentation", _VISION, "ada", (1000, 78), HoldClass.OVER_QUOTA)


def _notebook(name: str, team: TeamName, owner: str, use: tuple[int, int], *, idle: bool) -> _Hold:
    return _Hold(
        name=name,
        team=team,
        owner=owner,
        kind=Kind.NOTEBOOK,
        hold_class=HoldClass.FIXED,
        milli_gpu=use[0],
        percent=use[1],
        idle=idle,
    )


def _job(
    name: str,
    team: TeamName,
    owner: str,
    use: tuple[int, int],
    hold_class: HoldClass,
) -> _Hold:
    return _Hold(
        name=name,
        team=team,
        owner=owner,
        kind=Kind.TRAINING,
        hold_class=hold_class,
        milli_gpu=use[0],
        percent=use[1],
        project=name,
    )


def _rows(at_ms: int, span_ms: int, end_ms: int) -> Iterator[LedgerRow]:
    for hold in _holds(at_ms, end_ms):
        size = hold.milli_gpu * span_ms
        held = 0 if hold.parked else size
        yield LedgerRow(
            workload_id=WorkloadId(f"sample-{hold.name}"),
            minute_ms=Millis(at_ms),
            team=hold.team,
            pool=_POOL,
            owner=UserName(hold.owner),
            kind=hold.kind,
            hold_class=hold.hold_class,
            held_milli_gpu_ms=held,
            lost_milli_gpu_ms=held // 4 if hold.lost else 0,
            parked_milli_gpu_ms=size - held,
            idle=hold.idle,
            compute_percent_mean=None if hold.parked else hold.percent,
            project=hold.project,
        )


def _sizes(at_ms: int, span_ms: int, end_ms: int) -> Iterator[QuotaMinute]:
    """All GPUs are in quotas: what was borrowed is shared out over what teams did not use of theirs."""
    own = dict.fromkeys(_QUOTAS, 0)
    borrowed = 0
    for hold in _holds(at_ms, end_ms):
        if hold.hold_class is HoldClass.OVER_QUOTA:
            borrowed += hold.milli_gpu
        elif not hold.parked:
            own[hold.team] += hold.milli_gpu
    unused = {team: quota - own[team] for team, quota in _QUOTAS.items()}
    at, whole = Millis(at_ms), sum(unused.values())
    yield QuotaMinute(minute_ms=at, pool=_POOL, team=WHOLE_POOL, size=_GPUS * span_ms)
    for team, quota in _QUOTAS.items():
        lent = borrowed * span_ms * unused[team] // whole
        yield QuotaMinute(minute_ms=at, pool=_POOL, team=team, size=quota * span_ms, lent=lent)


def _jobs(end_ms: int) -> Iterator[Workload]:
    """Experiments that were finished: from five to nine a working day."""
    for day in range(DAYS):
        start_ms = end_ms - (DAYS - day) * _DAY_MS
        at = datetime.fromtimestamp(start_ms / 1000, UTC)
        for number in range(2 if at.weekday() >= _SATURDAY else 5 + day // 20):
            team, owner = ((_VISION, "ada"), (_NLP, "nora"))[(day + number) % 2]
            ended_ms = Millis(start_ms + number * 2 * _HOUR_MS)
            yield Workload(
                workload_id=WorkloadId(f"sample-{day}-{number}"),
                spec=Spec(
                    kind=Kind.TRAINING,
                    name=f"sample-{day}-{number}",
                    team=team,
                    owner=UserName(owner),
                    submitted_by=UserName(owner),
                    pools=(_POOL,),
                    roles=(Role(milli_gpu=500),),
                ),
                state=State.SUCCEEDED,
                submitted_ms=Millis(ended_ms - _HOUR_MS),
                since_ms=ended_ms,
                ended_ms=ended_ms,
            )


def _events(end_ms: int) -> Iterator[Event]:
    """Changes of the kind that admins make."""
    for days_ago, team, text in (
        (52, _VISION, "vision in pool gpu: guaranteed 0 → ½."),
        (24, _NLP, "nlp in pool gpu: weight 1 → 2."),
    ):
        yield Event(
            at_ms=Millis(end_ms - days_ago * _DAY_MS),
            kind="quota-changed",
            by="admin",
            text=text,
            team=team,
        )


def _estimate(number: int, end_ms: int) -> Estimate:
    """Eight of ten windows hold; of the others most were too early."""
    made_ms = end_ms - (120 - number) * 17 * _HOUR_MS
    low = (2 + number % 9) * _MINUTE_MS
    window = Window(from_ms=low, median_ms=2 * low, to_ms=3 * low)
    took_ms = {3: 5 * low, 7: low // 2}.get(number % 10, 2 * low + number % 5 * 10_000)
    return Estimate(
        workload_id=WorkloadId(f"sample-wait-{number}"),
        made_ms=Millis(made_ms),
        wait_class=("notebook gpu", "job gpu")[number // 10 % 2],
        raw=window,
        window=window,
        started_ms=Millis(made_ms + took_ms),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shape:
    """What a run asked for, and by how much it came out otherwise than planned."""

    grade: str
    #: Of what was planned.
    off: float
    step_s: float
    gpus: int
    hours: float

    @property
    def gpu_hours(self) -> float:
        """As planned."""
        return self.gpus * self.hours


def _run(number: int, end_ms: int) -> JudgedRun:
    """Plans of all grades, the better the more was measured."""
    grade = "ABC"[number % 3]
    shape = _Shape(
        grade=grade,
        off={"A": 0.04, "B": 0.09, "C": 0.3}[grade] * (1 if number % 7 else 4),
        step_s=0.5 + number % 11 * 0.2,
        gpus=1 + number % 2,
        hours=1.0 + number % 4,
    )
    ended_ms = Millis(end_ms - (90 - number) * 23 * _HOUR_MS)
    submitted_ms = Millis(ended_ms - round(shape.hours * _HOUR_MS))
    return JudgedRun(
        workload_id=WorkloadId(f"sample-run-{number}"),
        team=(_VISION, _NLP)[number % 2],
        submitted_ms=submitted_ms,
        ended_ms=ended_ms,
        state="succeeded",
        plan=_plan(shape, f"sample-{number}", made_ms=submitted_ms - _MINUTE_MS),
        actual=Actual(
            gpus=shape.gpus,
            pool=_POOL,
            step_s=shape.step_s * (1 + shape.off),
            memory_mib=17_200,
            # One of nine waits longer than was said.
            wait_ms=90_000 if number % 9 else 15 * _MINUTE_MS,
            wait_is_whole=True,
            held_milli_gpu_ms=round(1000 * shape.gpu_hours * (1 + shape.off) * _HOUR_MS),
            cost_micro=round(shape.gpu_hours * (1 + shape.off) * _PRICE * 1e6),
        ),
    )


def _plan(shape: _Shape, plan_id: str, *, made_ms: int) -> ChosenPlan:
    width = {"A": 1.1, "B": 1.2, "C": 1.5}[shape.grade]

    def around(middle: float) -> Said:
        return Said(middle / width, middle, middle * width)

    return ChosenPlan(
        plan_id=plan_id,
        made_ms=made_ms,
        pool=_POOL,
        gpu_kind="A100-40",
        simulated=False,
        gpus=shape.gpus,
        layout=f"DDP × {shape.gpus}",
        grade=shape.grade,
        verdict="fits",
        batch=64,
        steps=round(shape.hours * 3600 / shape.step_s),
        memory_mib=18_000,
        samples_per_s=around(64 / shape.step_s),
        wait_s=Said(0.0, 60.0, 600.0),
        run_s=around(shape.hours * 3600),
        gpu_hours=around(shape.gpu_hours),
        cost=around(shape.gpu_hours * _PRICE),
        currency=_CURRENCY,
        formula_s=shape.step_s,
        signature="sample",
        family="sample",
    )

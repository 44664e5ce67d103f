"""What a report says is what the ledger has: whole months and parts of days, with prices that change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_world import CONFIG, ServiceWorld

from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    PoolName,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.service.administration import usage_report
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.memory import MemoryStore

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
BEGIN = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
END = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)
PRICES = [
    {"per_gpu_h": 2},
    {"per_gpu_h": 3, "since": "2026-10-10"},
    {"per_gpu_h": 1.5, "since": "2026-10-20"},
]

minutes = st.integers(BEGIN // MINUTE - 2 * DAY // MINUTE, END // MINUTE + 2 * DAY // MINUTE)
ledger_rows = st.lists(
    st.builds(
        LedgerRow,
        workload_id=st.integers(0, 30).map(lambda number: WorkloadId(f"w-{number}")),
        minute_ms=minutes.map(lambda minute: Millis(minute * MINUTE)),
        team=st.sampled_from([TeamName("vision"), TeamName("nlp")]),
        pool=st.sampled_from([PoolName("gpu"), PoolName("cpu")]),
        owner=st.sampled_from([UserName("ann"), UserName("bob")]),
        project=st.sampled_from(["", "thesis"]),
        kind=st.sampled_from([Kind.TRAINING, Kind.NOTEBOOK]),
        hold_class=st.sampled_from(list(HoldClass)),
        held_milli_gpu_ms=st.integers(1, 8000 * MINUTE),
        surplus_milli_gpu_ms=st.just(0),
        lost_milli_gpu_ms=st.integers(0, 1000 * MINUTE),
        parked_milli_gpu_ms=st.integers(0, 8000 * MINUTE),
        idle=st.booleans(),
        compute_percent_mean=st.none() | st.integers(0, 100),
    ),
    max_size=60,
)


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    pools = [{**CONFIG["pools"][0], "currency": "EUR", "prices": PRICES}, CONFIG["pools"][1]]
    made = ServiceWorld(tmp_path, config={**CONFIG, "pools": pools})
    made.now_ms = Millis(END + 3 * DAY)
    return made


def totals(world: ServiceWorld, from_ms: int, to_ms: int, *, drawn: bool) -> Any:
    return usage_report.report(
        world.service, world.admin, from_ms=from_ms, to_ms=to_ms, drawn=drawn
    )


@given(rows=ledger_rows, cut=st.sampled_from([(0, 0), (DAY, 0), (HOUR, 3 * HOUR)]))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
def test_totals_are_the_ledgers_within_a_thousandth_however_the_report_is_asked_for(
    world: ServiceWorld, rows: list[LedgerRow], cut: tuple[int, int]
) -> None:
    store = MemoryStore()
    store.add_ledger(store.take_lead("me"), rows)
    object.__setattr__(world.service, "store", store)
    from_ms, to_ms = BEGIN + cut[0], END - cut[1]
    plain = totals(world, from_ms, to_ms, drawn=False)
    drawn = totals(world, from_ms, to_ms, drawn=True)
    assert drawn.rows == plain.rows
    inside = store.ledger(from_ms=Millis(from_ms), to_ms=Millis(to_ms))
    # Each row of the report is rounded to a thousandth of a GPU hour.
    slack = len(plain.rows)
    held = sum(row.held_milli_gpu_ms for row in inside) / HOUR
    assert abs(sum(row.held_milli_gpu_h for row in plain.rows) - held) <= slack + held / 1000
    for field, of in (
        ("lost_milli_gpu_h", lambda row: row.lost_milli_gpu_ms),
        ("parked_milli_gpu_h", lambda row: row.parked_milli_gpu_ms),
        ("borrowed_milli_gpu_h", lambda row: row.borrowed_milli_gpu_ms),
        ("idle_milli_gpu_h", lambda row: row.held_milli_gpu_ms if row.idle else 0),
    ):
        exact = sum(of(row) for row in inside) / HOUR
        assert abs(sum(getattr(row, field) for row in plain.rows) - exact) <= slack + exact / 1000
    cost = sum(_micro(row) for row in inside if row.pool == "gpu")
    assert abs(sum(row.cost_micro or 0 for row in plain.rows) - cost) <= len(PRICES) * slack + 1


def test_a_month_is_read_from_the_ledger_once(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    usage = type(world.store.reports).usage

    def counted(self: Any, steps: Any, **named: Any) -> Any:
        if steps.to_ms - steps.from_ms > DAY:
            asked.append(steps)
        return usage(self, steps, **named)

    monkeypatch.setattr(type(world.store.reports), "usage", counted)
    totals(world, BEGIN, END, drawn=True)
    assert len(asked) == 1


def _micro(row: LedgerRow) -> float:
    price = next(one["per_gpu_h"] for one in reversed(PRICES) if row.minute_ms >= _from_ms(one))
    return row.held_milli_gpu_ms * price * 1_000_000 / (1000 * HOUR)


def _from_ms(price: Any) -> int:
    if "since" not in price:
        return 0
    day = datetime.fromisoformat(price["since"]).replace(tzinfo=UTC)
    return int(day.timestamp() * 1000)

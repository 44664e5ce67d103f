"""Who lent what: shared out by what was unused, never more than was borrowed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.model.resources import Node, NodeState, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    Millis,
    NodeId,
    PoolName,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.loop.quota_minutes import quota_minutes
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.quota_minutes.base import WHOLE_POOL

MINUTE_MS = 60_000
POOL = PoolName("train")
VISION, NLP = TeamName("vision"), TeamName("nlp")


def cluster(gpus: int, quotas: dict[TeamName, tuple[int, int]], **node: object) -> Cluster:
    """Quotas are (fixed, guaranteed) in whole GPUs."""
    devices = tuple(
        Device(device_id=DeviceId(f"g{n}"), index=n, kind="A100", memory_mib=40_000)
        for n in range(gpus)
    )
    one = Node(
        node_id=NodeId("n"), pool=POOL, devices=devices, cpu_milli=1000, memory_mib=1000, **node
    )  # type: ignore[arg-type]
    return Cluster(
        nodes={one.node_id: one},
        pools={POOL: Pool(name=POOL)},
        teams={
            name: Team(
                name=name,
                quotas={
                    POOL: Quota(
                        fixed_milli_gpu=fixed * 1000, guaranteed_milli_gpu=guaranteed * 1000
                    )
                },
            )
            for name, (fixed, guaranteed) in quotas.items()
        },
    )


def held(
    team: TeamName, hold_class: HoldClass, gpus: float, minute: int = 0, surplus: float = 0
) -> LedgerRow:
    return LedgerRow(
        workload_id=WorkloadId(f"{team}-{hold_class}"),
        minute_ms=Millis(minute * MINUTE_MS),
        team=team,
        pool=POOL,
        owner=UserName("ada"),
        kind=Kind.TRAINING,
        hold_class=hold_class,
        held_milli_gpu_ms=round(gpus * 1000 * MINUTE_MS),
        surplus_milli_gpu_ms=round(surplus * 1000 * MINUTE_MS),
    )


def lent(of: Cluster, *rows: LedgerRow) -> dict[TeamName, float]:
    """In whole GPUs, in the first minute."""
    return {
        row.team: row.lent / 1000 / MINUTE_MS
        for row in quota_minutes(of, [0], rows)
        if row.team != WHOLE_POOL
    }


def test_borrowers_hold_of_each_teams_unused_quota_and_of_what_is_in_none() -> None:
    of = cluster(8, {VISION: (2, 0), NLP: (0, 4)})
    rows = [
        held(VISION, HoldClass.FIXED, 1),
        held(NLP, HoldClass.GUARANTEED, 1),
        held(VISION, HoldClass.OVER_QUOTA, 3),
    ]
    # 1 of vision's, 3 of nlp's and 2 in nobody's quota were unused: half of each was borrowed.
    assert lent(of, *rows) == {VISION: 0.5, NLP: 1.5}


def test_unused_fixed_quota_is_not_used_up_by_guaranteed_work() -> None:
    of = cluster(4, {VISION: (2, 2)})
    rows = [held(VISION, HoldClass.GUARANTEED, 2), held(NLP, HoldClass.OVER_QUOTA, 2)]
    assert lent(of, *rows) == {VISION: 2.0}


def test_surplus_workers_of_a_guaranteed_job_borrow() -> None:
    of = cluster(4, {VISION: (0, 2), NLP: (0, 2)})
    # One of vision's own two and nlp's two were unused: of the three, its surplus workers held two.
    assert lent(of, held(VISION, HoldClass.GUARANTEED, 3, surplus=1.5)) == {VISION: 0.3, NLP: 1.2}


def test_a_minute_tells_of_the_whole_pool_also_where_nothing_is_held() -> None:
    of = cluster(3, {VISION: (1, 1), NLP: (0, 0)})
    rows = quota_minutes(of, [0, MINUTE_MS], [])
    assert [(row.minute_ms, row.team, row.size, row.lent) for row in rows] == [
        (minute_ms, team, gpus * 1000 * MINUTE_MS, 0)
        for minute_ms in (0, MINUTE_MS)
        for team, gpus in ((WHOLE_POOL, 3), (VISION, 2))
    ]


def test_gpus_of_a_lost_node_are_not_there() -> None:
    of = cluster(3, {}, state=NodeState.LOST)
    assert [row.size for row in quota_minutes(of, [0], [])] == [0]


@given(
    gpus=st.integers(0, 12),
    vision=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    nlp=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    amounts=st.lists(
        st.tuples(
            st.sampled_from([VISION, NLP, TeamName("guests")]),
            st.sampled_from(HoldClass),
            st.floats(0, 9),
            st.floats(0, 1),
        ),
        max_size=8,
    ),
)
def test_teams_lend_at_most_what_is_borrowed_and_what_they_have_unused(
    gpus: int,
    vision: tuple[int, int],
    nlp: tuple[int, int],
    amounts: list[tuple[TeamName, HoldClass, float, float]],
) -> None:
    of = cluster(gpus, {VISION: vision, NLP: nlp})
    rows = [
        replace(
            held(team, hold_class, amount, surplus=amount * part),
            workload_id=WorkloadId(str(number)),
        )
        for number, (team, hold_class, amount, part) in enumerate(amounts)
    ]
    found = [row for row in quota_minutes(of, [0], rows) if row.team != WHOLE_POOL]
    borrowed = sum(row.borrowed_milli_gpu_ms for row in rows)
    assert 0 <= sum(row.lent for row in found) <= borrowed
    for row in found:
        assert row.lent <= row.size


@given(st.lists(st.integers(1, 59_999), min_size=1, max_size=7), st.integers(3, 7))
def test_where_all_gpus_are_in_quotas_teams_lent_all_that_was_borrowed_to_the_millisecond(
    spans_ms: list[int], teams: int
) -> None:
    of = cluster(teams, {TeamName(f"t{n}"): (0, 1) for n in range(teams)})
    rows = [
        replace(
            held(TeamName(f"t{n % teams}"), HoldClass.OVER_QUOTA, 0),
            workload_id=WorkloadId(str(n)),
            held_milli_gpu_ms=span_ms,
        )
        for n, span_ms in enumerate(spans_ms)
    ]
    found = [row for row in quota_minutes(of, [0], rows) if row.team != WHOLE_POOL]
    assert sum(row.lent for row in found) == sum(spans_ms)

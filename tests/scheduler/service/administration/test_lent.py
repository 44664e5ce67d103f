"""The report says who lent what others borrowed, and its sums agree with the ledger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from service_world import ServiceWorld, a_request

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName, UserName
from gpucommons.scheduler.service.administration import usage_report
from gpucommons.scheduler.service.costs import Cost
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.service.views.history import lent_fields, report_rows
from gpucommons.scheduler.store.quota_minutes.base import QuotaMinute
from gpucommons.scheduler.store.reports.base import UsageSum, written_ms

MINUTE_MS = 60_000


def run_for(world: ServiceWorld, minutes: int) -> None:
    for _ in range(minutes):
        world.pass_time(MINUTE_MS)
    # Agents are given a moment to measure a minute that is over.
    world.pass_time(10_000)


def report(world: ServiceWorld, by: str = "root") -> models.Report:
    principal = world.admin if by == "root" else world.principal(by)
    return usage_report.report(
        world.service, principal, from_ms=world.now_ms - 600 * MINUTE_MS, to_ms=world.now_ms
    )


def test_lent_and_what_is_in_no_quota_make_up_what_was_borrowed(world: ServiceWorld) -> None:
    role = {"milli_gpu": 4000, "command": ["sleep"]}
    jobs.submit(world.service, world.principal("ann"), a_request(role=role), key=None)
    run_for(world, 20)

    found = report(world)

    rows = world.store.ledger(from_ms=Millis(0), to_ms=written_ms(world.now_ms))
    held = sum(row.held_milli_gpu_ms for row in rows)
    borrowed = sum(row.borrowed_milli_gpu_h for row in found.rows)
    assert borrowed == round(held / 3_600_000) > 1000
    # Four GPUs, two in vision's quota and two in nlp's, all of them held by one borrower.
    assert found.capacity_milli_gpu_h is not None
    lent = {row.team: row.lent_milli_gpu_h for row in found.lent}
    assert set(lent) == {"vision", "nlp"}
    # Each half of it, and to the thousandth all of it.
    assert all(abs(one - borrowed / 2) < 1 for one in lent.values())
    assert sum(lent.values()) == borrowed
    assert (found.lent_unknown_milli_gpu_h, found.lent_by_none_milli_gpu_h) == (0, 0)


def test_what_a_borrower_held_in_the_minute_that_it_ended_in_is_not_of_gpus_in_no_quota(
    world: ServiceWorld,
) -> None:
    """Its minutes are written when it ends, who lent it when the minute is over."""
    role = {"milli_gpu": 4000, "command": ["sleep"]}
    job = jobs.submit(world.service, world.principal("ann"), a_request(role=role), key=None)
    run_for(world, 5)
    world.pass_time(20_000)
    jobs.cancel(world.service, world.principal("ann"), job.id)
    world.pass_time(5_000)

    found = report(world)

    assert world.store.ledger(
        from_ms=Millis(world.now_ms - world.now_ms % MINUTE_MS), to_ms=Millis(world.now_ms)
    )
    borrowed = sum(row.borrowed_milli_gpu_h for row in found.rows)
    assert found.lent_by_none_milli_gpu_h == 0
    assert sum(row.lent_milli_gpu_h for row in found.lent) == borrowed > 0


def test_a_span_of_long_ago_that_cuts_folded_minutes_is_widened_and_its_columns_agree(
    world: ServiceWorld,
) -> None:
    began_ms = world.now_ms
    role = {"milli_gpu": 4000, "command": ["sleep"]}
    jobs.submit(world.service, world.principal("ann"), a_request(role=role), key=None)
    run_for(world, 40)
    world.pass_time(3 * 24 * 60 * MINUTE_MS)

    asked = {"from_ms": began_ms + 17 * MINUTE_MS, "to_ms": began_ms + 21 * MINUTE_MS}
    found = usage_report.report(world.service, world.admin, **asked)

    quarter_ms = 15 * MINUTE_MS
    assert (found.from_ms % quarter_ms, found.to_ms % quarter_ms) == (0, 0)
    assert 0 <= asked["from_ms"] - found.from_ms < quarter_ms
    assert 0 <= found.to_ms - asked["to_ms"] < quarter_ms
    held = 4000 * (found.to_ms - found.from_ms) // (60 * MINUTE_MS)
    assert sum(row.borrowed_milli_gpu_h for row in found.rows) == held
    assert sum(row.lent_milli_gpu_h for row in found.lent) == held == found.capacity_milli_gpu_h


def test_a_team_reads_what_it_lent_itself_and_no_others(world: ServiceWorld) -> None:
    run_for(world, 2)
    found = report(world, by="ann")
    assert [row.team for row in found.lent] == ["vision"]
    assert not found.all_teams


amounts = st.integers(0, 40 * 3_600_000)


@given(
    lent=st.lists(amounts, max_size=6),
    by_none=amounts,
    unknown=amounts,
    owners=st.integers(1, 40),
)
def test_what_is_shown_of_who_lent_adds_up_to_what_is_shown_as_borrowed(
    lent: list[int], by_none: int, unknown: int, owners: int
) -> None:
    """To the thousandth, however the rows of borrowers are rounded."""

    def sums(whole: int, parts: int) -> list[UsageSum]:
        return [
            UsageSum(
                from_ms=Millis(0), team=TeamName("t"), owner=UserName(f"u{index}"),
                pool=PoolName("p"), held=amount, used=None, idle=0, borrowed=amount, lost=0,
            )
            for index in range(parts)
            for amount in [whole // parts + (index < whole % parts)]
        ]  # fmt: skip

    minutes = [
        QuotaMinute(
            minute_ms=Millis(0), pool=PoolName("p"), team=TeamName(f"t{index}"), size=one, lent=one
        )
        for index, one in enumerate(lent)
    ]
    none = by_none if minutes else 0
    borrowed = sums(sum(lent) + none + unknown, owners)
    rows = report_rows([(one, Cost()) for one in borrowed], "")
    shown = sum(row.borrowed_milli_gpu_h for row in rows)

    found = lent_fields(minutes, borrowed, sums(unknown, 1), None, shown)

    parts = [*(row.lent_milli_gpu_h for row in found["lent"]), found["lent_by_none_milli_gpu_h"]]
    parts.append(found["lent_unknown_milli_gpu_h"])
    exact = [*lent, none, unknown]
    assert all(part == 0 for part, one in zip(parts, exact, strict=True) if not one)
    off = abs(shown * 3_600_000 - sum(exact))
    if off <= 3_600_000:
        assert sum(parts) == shown
    assert all(
        abs(part * 3_600_000 - one) < 3_600_000 + off
        for part, one in zip(parts, exact, strict=True)
    )

"""Prices of pools are data: what a job costs before, while and after it runs, and in the report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import a_node
from pydantic import ValidationError
from service_world import PAUSES, ServiceWorld, a_request, done
from stored_rows import ledger_row

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.models.text.report_rows import report_csv, report_table
from gpucommons.scheduler.service import advice, costs, job_quote
from gpucommons.scheduler.service.administration import cluster, settings, usage_report
from gpucommons.scheduler.service.jobs import jobs, logs

DAY_MS = 86_400_000
HOUR = 1000 * 3_600_000
TEAM = {
    "name": "vision",
    "members": ["ann"],
    "quotas": {"gpu": {"guaranteed_milli_gpu": 2000}},
}
POOL: dict[str, Any] = {
    "name": "gpu",
    "currency": "EUR",
    "prices": [{"per_gpu_h": 1.2}, {"per_gpu_h": 2, "since": "1970-01-03"}],
    **PAUSES,
}


def config(**changes: Any) -> models.ConfigModel:
    return models.ConfigModel(pools=[{**POOL, **changes}], teams=[TEAM])  # type: ignore[list-item] # as YAML has it


@pytest.fixture
def world(tmp_path: Path) -> ServiceWorld:
    nodes = (a_node("n1", 4, pool="gpu"),)
    return ServiceWorld(tmp_path, nodes=nodes, config=config().model_dump(exclude_unset=True))


def test_prices_come_back_as_they_were_written_and_are_audited(world: ServiceWorld) -> None:
    read = settings.get_config(world.service, world.admin).pools[0]
    written = yaml.safe_load(yaml.safe_dump(read.model_dump(mode="json")))
    again = models.ConfigModel(pools=[written], teams=[])
    assert settings.check_config(world.service, world.admin, again).changes == []

    dearer = config(prices=[{"per_gpu_h": 2.5}])
    (change,) = settings.check_config(world.service, world.admin, dearer).changes
    assert "prices 1.2, 2 from 1970-01-03 → 2.5" in change
    (pool,) = cluster.pools(world.service, world.admin).pools
    assert (pool.price_micro_per_gpu_h, pool.currency) == (2_000_000, "EUR")


def test_the_cost_of_the_past_follows_the_prices_of_then(world: ServiceWorld) -> None:
    night = 2 * DAY_MS
    rows = [
        ledger_row(
            (night - 3_600_000) // 60_000, held_milli_gpu_ms=10 * HOUR, pool=PoolName("gpu")
        ),
        ledger_row(night // 60_000, held_milli_gpu_ms=10 * HOUR, pool=PoolName("gpu")),
        ledger_row(5, held_milli_gpu_ms=3 * HOUR, pool=PoolName("gone")),
        ledger_row(6, held_milli_gpu_ms=HOUR, pool=PoolName("gone"), owner=UserName("=bob()")),
    ]
    world.store.add_ledger(world.loop._epoch, rows)

    report = usage_report.report(world.service, world.admin, from_ms=0, to_ms=3 * DAY_MS)

    ada = next(row for row in report.rows if row.owner == "ada")
    assert ada.held_milli_gpu_h == 23_000
    assert (ada.cost_micro, ada.unpriced_milli_gpu_h) == (32_000_000, 3_000)
    # What costs and what has no price make up all that the ledger has.
    held = sum(row.held_milli_gpu_ms for row in rows)
    assert sum(row.held_milli_gpu_h for row in report.rows) * 3_600_000 == held
    shown = report_table(report, unknown="unknown")
    assert shown.columns[-1] == "Cost, EUR"
    assert [row[-1] for row in shown.rows] == ["32.00", "unknown"]
    assert shown.total[-1] == "32.00"
    assert shown.note == "4.000 GPU hours had no price and are in no cost."
    assert "'=bob()" in report_csv(report)


def test_a_job_says_what_it_will_cost_and_what_it_has_cost(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    request = a_request(role={"milli_gpu": 2000, "command": ["true"]}, max_run_s=7200)

    text = job_quote.quote_job(world.service, ann, request).text
    assert "It costs 4.00 EUR per hour, at most 8.00 EUR for the 2 h that it may run." in text
    job = jobs.submit(world.service, ann, request, key=None)
    world.loop.cycle()
    mine = {"workload_id": WorkloadId(job.id), "pool": PoolName("gpu"), "team": TeamName("vision")}
    minute = world.now_ms // 60_000
    world.store.add_ledger(
        world.loop._epoch, [ledger_row(minute, held_milli_gpu_ms=HOUR // 2, **mine)]
    )
    use = logs.job_use(world.service, ann, job.id)
    assert (use.cost_micro, use.currency) == (1_000_000, "EUR")
    assert use.text.endswith(", cost 1.00 EUR so far")
    # A minute without a price hides nothing of the others.
    gone = ledger_row(minute + 1, held_milli_gpu_ms=HOUR // 4, **{**mine, "pool": PoolName("gone")})
    world.store.add_ledger(world.loop._epoch, [gone])
    use = logs.job_use(world.service, ann, job.id)
    assert (use.cost_micro, use.unpriced_milli_gpu_h) == (1_000_000, 250)
    assert use.text.endswith(", cost 1.00 EUR so far (0.250 GPU hours had no price)")


def test_an_elastic_job_is_bounded_by_its_most_workers_and_the_dearest_price(
    world: ServiceWorld,
) -> None:
    day = datetime.fromtimestamp(world.now_ms / 1000 + 864_000, UTC).date().isoformat()
    dearer = config(prices=[{"per_gpu_h": 2}, {"per_gpu_h": 3, "since": day}])
    settings.put_config(world.service, world.admin, dearer)
    world.loop.cycle()
    asked = {"command": ["true"], "milli_gpu": 1000, "count": 4}
    elastic = a_request(role=asked, min_workers=1, max_workers=4, max_run_s=7200)

    text = job_quote.quote_job(world.service, world.principal("ann"), elastic).text

    assert "It costs 2.00 EUR to 8.00 EUR per hour now, at most 24.00 EUR for the 2 h" in text


def test_plans_have_costs_where_pools_have_prices(world: ServiceWorld) -> None:
    asked = models.AdviceRequest.model_validate(
        {
            "network": {
                "kind": "traced",
                "parameters": 25_000_000,
                "forward_flops": 8e9,
                "activation_bytes": 9e7,
            },
            "batch": 256,
            "steps": 100_000,
            "objective": "cheapest",
        }
    )
    found = done(advice.advise(world.service, world.principal("ann"), asked))
    assert found.currency == "EUR"
    assert found.plans[0].cost == pytest.approx(2.0 * found.plans[0].gpu_hours, rel=0.01)
    assert found.plans[0].why.startswith("Takes the least money")


@pytest.mark.parametrize(
    "changes",
    [
        {"prices": [{"per_gpu_h": -1}]},
        {"prices": [{"per_gpu_h": float("inf")}]},
        {"prices": [{"per_gpu_h": 1, "since": "soon"}]},
        {"prices": [{"per_gpu_h": 1}, {"per_gpu_h": 2}]},
        {"currency": ""},
        {"currency": "euro"},
    ],
)
def test_prices_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**changes)


def test_a_hub_has_one_currency(world: ServiceWorld) -> None:
    dollars = models.PoolModel(
        name="other", currency="USD", prices=[models.PriceModel(per_gpu_h=1)]
    )
    with pytest.raises(Misconfigured, match="prices in EUR and USD"):
        settings.put_config(world.service, world.admin, models.ConfigModel(pools=[dollars]))


def test_a_span_is_cut_where_a_price_changes(world: ServiceWorld) -> None:
    pools = world.cluster.pools.values()
    assert costs.spans(pools, 0, 3 * DAY_MS) == [(0, 2 * DAY_MS), (2 * DAY_MS, 3 * DAY_MS)]
    assert costs.spans(pools, Millis(5), Millis(6)) == [(5, 6)]

"""Dashboard and alerts ask for what `/metrics` serves, and each alert leads to what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from builders import World, a_device, a_job, a_node, a_notebook, a_team
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpucommons.scheduler.background_tasks.metrics import Metrics
from gpucommons.scheduler.core.model.intents import NoteParked, Park, ReportIdle, Started
from gpucommons.scheduler.core.model.reason import CANNOT_START
from gpucommons.scheduler.core.model.resources import UnhealthyDevice
from gpucommons.scheduler.core.model.state import Cluster, SliceCleared
from gpucommons.scheduler.threads.pulse import Pulse
from tests.kubernetes.chart.chart import CHART, of_kind, rendered
from tests.kubernetes.fixtures import need

ALERTS = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
RUNBOOK = Path(__file__).parents[3] / "docs/howto/when-an-alert-fires.md"
DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
TARGETS = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
#: What counts in each replica for itself; all else each replica tells of the same cluster.
COUNTED = frozenset({"rate", "increase"})


@dataclass
class Deciding:
    cluster: Cluster
    pulse: Pulse = field(default_factory=lambda: Pulse(lambda: 0.0))


def a_busy_cluster() -> Cluster:
    """One of each that has a number: a job, one that waits, a notebook that is idle, one parked."""
    ill = (UnhealthyDevice(device=a_device("n1-g9", 9), text="GPU is lost"),)
    team = a_team(fixed_milli_gpu=2000, guaranteed_milli_gpu=1000, limit_milli_gpu=1000)
    world = World(replace(a_node("n1", 3), unhealthy=ill), teams=(team,))
    idle, parked = (world.submit(a_notebook(who, 1000), redeem=True) for who in ("ann", "ada"))
    for lease in (idle, parked):
        world.ask(Started(workload_id=lease), "hub")
    world.ask(ReportIdle(workload_id=idle, idle_since_ms=world.now, returns_ms=None))
    world.ask(Park(workload_id=parked))
    world.ask(NoteParked(workload_id=parked, host_mib=2048))
    world.step(SliceCleared(attempt_id=world.attempt_id(parked)))
    world.run(a_job("runs"))
    world.submit(a_job("waits"))
    return world.cluster


@pytest.fixture(scope="module")
def served() -> dict[str, set[str]]:
    """The names of what is scraped, each with its labels."""
    metrics = Metrics(Deciding(a_busy_cluster()))
    metrics.request("GET", "whoami", 200, 0.1)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> Iterator[tuple[str, str, set[str]]]:
    """Who asks, the expression, and the labels that a text names of its result."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            yield panel["title"], target["expr"].replace("$__range", "1d"), named
    for rule in RULES:
        named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        yield rule["alert"], rule["expr"], named


ASKED = [pytest.param(*one, id=one[0]) for one in expressions()]


def labels_of(node: Any, served: dict[str, set[str]], around: frozenset[str]) -> set[str]:
    """The labels of its result. Names and labels that are not served are refused."""
    kind = type(node).__name__
    if kind == "AggregateExpr":
        wanted = set(node.modifier.labels) if node.modifier is not None else set()
        inside = labels_of(node.expr, served, frozenset({str(node.op)}))
        lost = inside - wanted if "sum" in around else set()
        assert wanted <= inside, node.prettify()
        assert not lost, node.prettify()
        return wanted
    if kind == "Call":
        parts = [labels_of(one, served, around | {node.func.name}) for one in node.args]
        found = set().union(*parts)
        return found - {"le"} if node.func.name == "histogram_quantile" else found
    if kind == "BinaryExpr":
        return labels_of(node.lhs, served, around) | labels_of(node.rhs, served, around)
    if kind in {"ParenExpr", "SubqueryExpr"}:
        return labels_of(node.expr, served, around)
    if kind == "NumberLiteral":
        return set()
    return labels_of_metric(getattr(node, "vector_selector", node), served, around)


def labels_of_metric(node: Any, served: dict[str, set[str]], around: frozenset[str]) -> set[str]:
    assert node.name in served, node.prettify()
    assert {one.name for one in node.matchers.matchers} <= served[node.name], node.prettify()
    once = around & {"max", "min", "absent"}
    assert once or around & COUNTED, f"{node.name} is told by each replica: take its max"
    return served[node.name]


@pytest.mark.parametrize(("who", "expression", "named"), ASKED)
def test_what_is_asked_is_served_with_these_labels_and_once_for_all_replicas(
    who: str, expression: str, named: set[str], served: dict[str, set[str]]
) -> None:
    assert named <= labels_of(promql_parser.parse(expression), served, frozenset()), who


@pytest.mark.parametrize(
    "expression",
    [
        "max by (pool) (gpucommons_capacity)",
        "max by (pool) (gpucommons_capacity_milli_gpu{node='n1'})",
        "max by (team) (gpucommons_capacity_milli_gpu)",
        "sum by (pool) (gpucommons_capacity_milli_gpu)",
        "max(sum by (pool) (gpucommons_capacity_milli_gpu))",
        "sum(max by (pool) (gpucommons_capacity_milli_gpu))",
    ],
)
def test_what_is_not_served_is_found(expression: str, served: dict[str, set[str]]) -> None:
    with pytest.raises(AssertionError):
        labels_of(promql_parser.parse(expression), served, frozenset())


def test_choices_of_the_dashboard_are_values_of_labels_that_are_served(
    served: dict[str, set[str]],
) -> None:
    for query in QUERIES:
        ((metric, label),) = re.findall(r"^label_values\((\w+), (\w+)\)$", query)
        assert label in served[metric]


def test_grafana_takes_the_dashboard_with_whatever_prometheus_it_has() -> None:
    panels = DASHBOARD["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    source = {"type": "prometheus", "uid": "${source}"}
    variables = [one for one in DASHBOARD["templating"]["list"] if one["type"] != "datasource"]
    assert all(one["datasource"] == source for one in [*panels, *TARGETS, *variables])
    (chosen,) = [one for one in DASHBOARD["templating"]["list"] if one["type"] == "datasource"]
    assert (chosen["name"], chosen["query"]) == ("source", "prometheus")
    for panel in panels:
        ids = [one["refId"] for one in panel["targets"]]
        assert len(set(ids)) == len(ids)


def test_no_panel_lies_on_another_or_beyond_the_edge() -> None:
    places = [one["gridPos"] for one in DASHBOARD["panels"]]
    assert all(one["x"] >= 0 and one["x"] + one["w"] <= 24 for one in places)
    for one, other in combinations(places, 2):
        apart = any(
            low[at] + low[size] <= high[at]
            for at, size in (("x", "w"), ("y", "h"))
            for low, high in ((one, other), (other, one))
        )
        assert apart, (one, other)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_prometheus_can_read_what_is_asked(rule: dict[str, str]) -> None:
    promql_parser.parse(rule["expr"])
    assert re.fullmatch(r"\d+m", rule.get("for", "0m"))


def test_the_reader_refuses_what_prometheus_would() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse("sum(rate(gpucommons_failed_cycles_total[10m])")


def test_what_cannot_start_is_told_by_reasons_that_there_are() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "GpuCommonsCannotStart"]
    (reasons,) = re.findall(r'reason=~"([^"]+)"', rule["expr"])
    assert set(reasons.split("|")) <= {one.value for one in CANNOT_START}


def test_each_alert_says_what_is_wrong_and_has_a_section_that_says_what_to_do() -> None:
    sections = dict(
        re.findall(r"^## (\w+)\n\n(.+?)(?=^## |\Z)", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL)
    )
    assert sections.keys() == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert {"summary", "description"} <= rule["annotations"].keys()
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_the_chart_makes_one_object_of_them_with_a_link_for_each() -> None:
    need("helm")
    values = {"alerts.enabled": True, "alerts.runbook": "https://docs.example.org/alerts"}
    (found,) = of_kind(rendered(values), "PrometheusRule", "gpucommons")
    rules = [rule for group in found["spec"]["groups"] for rule in group["rules"]]
    assert [(rule["alert"], rule["expr"]) for rule in rules] == [
        (rule["alert"], rule["expr"]) for rule in RULES
    ]
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}
    assert links["GpuCommonsNodeLost"] == "https://docs.example.org/alerts#gpucommonsnodelost"
    (without,) = of_kind(rendered({"alerts.enabled": True}), "PrometheusRule", "gpucommons")
    assert "runbook_url" not in str(without)
    assert not of_kind(rendered({}), "PrometheusRule")


def test_the_dashboard_is_in_its_config_map() -> None:
    need("helm")
    (found,) = of_kind(rendered({"dashboard.enabled": True}), "ConfigMap", "gpucommons-dashboard")
    assert json.loads(found["data"]["gpucommons.json"]) == DASHBOARD

"""Alerts ask for metrics that there are, and each leads to a section that says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser
import pytest
import yaml

from gpucommons.scheduler.core.model.reason import CANNOT_START
from tests.kubernetes.chart.chart import CHART, of_kind, rendered
from tests.kubernetes.chart.test_chart import metric_names
from tests.kubernetes.fixtures import need

ALERTS = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
RUNBOOK = Path(__file__).parents[3] / "docs/howto/when-an-alert-fires.md"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_prometheus_can_read_what_is_asked(rule: dict[str, str]) -> None:
    promql_parser.parse(rule["expr"])
    assert re.fullmatch(r"\d+m", rule.get("for", "0m"))


def test_the_reader_refuses_what_prometheus_would() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse("sum(rate(gpucommons_failed_cycles_total[10m])")


def test_alerts_ask_for_metrics_that_there_are() -> None:
    for rule in RULES:
        asked = set(re.findall(r"gpucommons_[a-z_]+", rule["expr"]))
        assert asked, rule["alert"]
        assert asked <= metric_names(), rule["alert"]


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

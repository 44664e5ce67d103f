"""The scheduler's own pod and rights, as the chart writes them: where it may run, and what its pools need."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from tests.kubernetes.chart.chart import of_kind, rendered
from tests.kubernetes.fixtures import need


@pytest.fixture(autouse=True)
def _helm() -> None:
    need("helm")


@pytest.mark.parametrize("scale_up", ["placeholder", "provisioning-request"])
def test_requests_for_nodes_may_be_made_where_a_pool_asks_by_them_and_removed_anywhere(
    scale_up: str,
) -> None:
    documents = rendered({"jobs.pools.train.scale_up": scale_up})
    (role,) = of_kind(documents, "Role", "gpucommons-scheduler")

    def verbs(resource: str) -> set[str]:
        rules = (rule for rule in role["rules"] if resource in rule["resources"])
        return {verb for rule in rules for verb in rule["verbs"]}

    asks = scale_up == "provisioning-request"
    makes = {"watch", "create"} if asks else set()
    assert verbs("provisioningrequests") == {"list", "delete"} | makes
    assert verbs("podtemplates") == {"delete"} | (makes - {"watch"})
    (config,) = of_kind(documents, "ConfigMap", "gpucommons-scheduler")
    found = KubernetesSettings.model_validate(yaml.safe_load(config["data"]["kubernetes.yaml"]))
    assert found.place_of("train").scale_up == scale_up


def scheduler_pod(values: dict[str, Any]) -> dict[str, Any]:
    (made,) = of_kind(rendered(values), "Deployment", "gpucommons-scheduler")
    pod: dict[str, Any] = made["spec"]["template"]["spec"]
    return pod


def test_a_successor_starts_beside_its_predecessor_whatever_else_is_asked_for() -> None:
    other = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "hub"}}}
    rather = {"weight": 1, "podAffinityTerm": other}
    wishes = {
        "requiredDuringSchedulingIgnoredDuringExecution": [other],
        "preferredDuringSchedulingIgnoredDuringExecution": [rather],
    }
    found = scheduler_pod({"scheduler.affinity": {"podAffinity": wishes}})["affinity"][
        "podAffinity"
    ]
    first, own = found["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (first, own["topologyKey"]) == (other, "kubernetes.io/hostname")
    assert found["preferredDuringSchedulingIgnoredDuringExecution"] == [rather]


def test_on_a_volume_of_many_nodes_it_may_start_on_any_and_says_where_it_is_reached() -> None:
    values = {"database.sqlite.accessMode": "ReadWriteMany"}
    pod = scheduler_pod(values)
    assert "affinity" not in pod
    args = pod["containers"][0]["args"]
    assert {"--stand-by", "--replica-url=http://$(POD_IP):8000"} <= set(args)
    (claim,) = of_kind(rendered(values), "PersistentVolumeClaim", "gpucommons-state")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]

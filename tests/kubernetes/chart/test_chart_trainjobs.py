"""TrainJobs in the chart: nothing of it where no namespace is named, and rights there alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tests.kubernetes.api import wait_for
from tests.kubernetes.chart.chart import HelmRefused, of_kind, rendered
from tests.kubernetes.fixtures import need
from tests.kubernetes.kubectl import Kubectl

SETTINGS: dict[str, Any] = {
    "namespaces": {"research": {"teams": ["vision"], "user": "ann"}},
    "pools": {"trainers": {}, "others": {"gpu_resource": "example.com/card"}},
    "sent": {"namespace": "outbox"},
}
GROUP = "trainer.kubeflow.org"


@pytest.fixture(autouse=True)
def _helm() -> None:
    need("helm")


def rules(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Rules about Trainer's objects, with where they hold."""
    return [
        {"namespace": one["metadata"].get("namespace"), "name": one["metadata"]["name"], **rule}
        for one in of_kind(documents, kind)
        for rule in one.get("rules") or ()
        if GROUP in rule["apiGroups"]
    ]


def test_without_the_value_there_is_nothing_of_it() -> None:
    plain = rendered()
    assert not [one for one in plain if "trainjobs" in one["metadata"]["name"]]
    assert GROUP not in str(plain)
    assert "trainjob.yaml" not in str(plain)


def test_jobs_are_sent_out_with_the_images_that_other_jobs_have() -> None:
    images = {"": "registry.example/any:1", "torch": "registry.example/torch:2"}
    own = {"namespace": "outbox", "environments": {"torch": "registry.example/torch:3"}}
    for sent, found in (
        (SETTINGS["sent"], images),
        (own, {**images, "torch": "registry.example/torch:3"}),
    ):
        given = {"trainjobs.settings": {**SETTINGS, "sent": sent}, "jobs.environments": images}
        (config,) = [
            one for one in of_kind(rendered(given), "ConfigMap") if "trainjob.yaml" in one["data"]
        ]
        told = yaml.safe_load(config["data"]["trainjob.yaml"])["sent"]
        assert (told["environments"], told["any_image"]) == (found, False)


def test_rights_hold_in_the_named_namespaces_alone() -> None:
    documents = rendered({"trainjobs.settings": SETTINGS})
    (everywhere,) = rules(documents, "ClusterRole")
    assert (everywhere["resources"], everywhere["verbs"]) == (["clustertrainingruntimes"], ["get"])
    there = rules(documents, "Role")
    assert {one["namespace"] for one in there} == {"research", "outbox"}
    creates = [one["namespace"] for one in there if "create" in one["verbs"]]
    assert creates == ["outbox"]
    assert not [one for one in there if {"delete", "*"} & set(one["verbs"])]
    # Who hands in sees no pods.
    (hands_in,) = [
        one
        for one in of_kind(documents, "Role")
        if one["metadata"]["name"] == "gpucommons-trainjobs"
    ]
    assert hands_in["metadata"]["namespace"] == "research"
    assert "pods" not in str(hands_in["rules"])


def test_a_value_that_is_none_of_its_is_refused() -> None:
    with pytest.raises(HelmRefused, match="namespace"):
        rendered({"trainjobs.settings": {"namespace": {}}})


def a_pod(name: str, *, gpus: int, **spec: Any) -> dict[str, Any]:
    amounts = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "node", "image": "img:1", "resources": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


@pytest.fixture
def guarded(api: client.ApiClient, kubeconfig: Path, namespace: str) -> Iterator[Kubectl]:
    """A namespace where the policy holds."""
    admin = Kubectl(kubeconfig, namespace)
    there = {**SETTINGS, "namespaces": {namespace: SETTINGS["namespaces"]["research"]}}
    policies = [
        one
        for one in rendered({"trainjobs.settings": there})
        if one["kind"].startswith("ValidatingAdmissionPolicy")
        and one["metadata"]["name"] == "gpucommons-trainjobs"
    ]
    assert len(policies) == 2
    admin.apply(*policies)
    probe = a_pod("probe", gpus=1)
    wait_for(
        lambda: (
            admin.try_("create", "--dry-run=server", "-f", "-", stdin=json.dumps(probe)).returncode
        ),
        "the policy holds",
    )
    yield admin
    for one in policies:
        admin("delete", one["kind"], "gpucommons-trainjobs")


def test_a_pod_with_a_gpu_waits_at_our_gate_and_nobody_else_lifts_it(guarded: Kubectl) -> None:
    refusal = guarded.refused("create", "-f", "-", stdin=json.dumps(a_pod("now", gpus=1)))
    assert "GPUs in this namespace are given in turn: make a TrainJob" in refusal
    gate = [{"name": "gpucommons.io/placement"}]
    guarded.apply(a_pod("waits", gpus=1, schedulingGates=gate), a_pod("cpu", gpus=0))
    lifted = '[{"op":"remove","path":"/spec/schedulingGates"}]'
    refusal = guarded.refused("patch", "pod", "waits", "--type=json", "-p", lifted)
    assert "the scheduler of GPU Commons alone lifts the gate" in refusal
    guarded("label", "pod", "waits", "mine=yes")


def test_so_does_one_with_what_a_pool_calls_its_gpus(guarded: Kubectl) -> None:
    pod = a_pod("now", gpus=0)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"example.com/card": "1"}}
    refusal = guarded.refused("create", "-f", "-", stdin=json.dumps(pod))
    assert "GPUs in this namespace are given in turn" in refusal

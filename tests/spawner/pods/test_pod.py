"""A notebook's pod holds its slice and nothing else, whatever was in it before."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from notebook_pods import LEASE, NO_LEASE, needs, plain_pod

from gpucommons.gpu.providers import Injection, PodParts
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER
from gpucommons.spawner.pods.pod import fitted, is_gpu_resource, notebook_of
from gpucommons.spawner.pods.pod_changes import changed


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in container["env"]}


def dirty_pod() -> dict[str, Any]:
    """What a GPU profile, an admin's hook and an old slice may have left."""
    pod = plain_pod()
    pod["metadata"]["labels"]["gpucommons.io/slice"] = "an-old-one"
    pod["metadata"]["annotations"]["gpucommons.io/devices"] = "GPU-old"
    notebook = pod["spec"]["containers"][0]
    notebook["resources"] = {
        "limits": {"cpu": "2", "nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "1"},
        "requests": {"cpu": "1", "nvidia.com/gpu": "1"},
    }
    notebook["env"] += [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"},
        {"name": "GPUCOMMONS_SLICE_ID", "value": "an-old-one"},
        {"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/mps"},
    ]
    notebook["volumeMounts"].append({"name": "old", "mountPath": "/run/gpucommons/slice"})
    pod["spec"]["volumes"].append({"name": "old", "csi": {"driver": CSI_DRIVER}})
    pod["spec"]["tolerations"] = [
        {"key": "gpucommons.io/pool", "operator": "Exists"},
        {"key": "hub.jupyter.org/dedicated", "operator": "Equal", "value": "user"},
    ]
    pod["spec"]["initContainers"] = [
        {"name": "chown", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    ]
    pod["spec"]["containers"].append(
        {"name": "sidecar", "resources": {"limits": {"amd.com/gpu": "1"}}}
    )
    return pod


def test_a_pod_without_a_slice_keeps_nothing_of_a_gpu_that_was_left_in_it() -> None:
    pod = fitted(dirty_pod(), needs(NO_LEASE))
    notebook = notebook_of(pod)
    env = env_of(notebook)
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert not [name for name in env if name.startswith(("CUDA_MPS_", "GPUCOMMONS_SLICE"))]
    assert notebook["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    assert "gpucommons.io/slice" not in pod["metadata"]["labels"]
    assert pod["metadata"]["annotations"]["gpucommons.io/devices"] == "void"
    assert pod["spec"]["tolerations"] == [
        {"key": "hub.jupyter.org/dedicated", "operator": "Equal", "value": "user"}
    ]
    assert not [volume for volume in pod["spec"]["volumes"] if "csi" in volume]
    assert [mount["name"] for mount in notebook["volumeMounts"]] == ["home"]


def test_every_other_container_is_told_that_it_has_no_gpu() -> None:
    for lease in (NO_LEASE, LEASE):
        spec = fitted(dirty_pod(), needs(lease))["spec"]
        for container in (spec["initContainers"][0], spec["containers"][1]):
            assert env_of(container) == {"NVIDIA_VISIBLE_DEVICES": "void"}
        assert spec["containers"][1]["resources"]["limits"] == {}


def test_what_an_admin_set_stays() -> None:
    before = plain_pod()
    before["spec"]["affinity"] = {"podAffinity": {"x": 1}}
    pod = fitted(before, needs(LEASE))
    assert pod["metadata"]["labels"]["component"] == "singleuser-server"
    assert env_of(notebook_of(pod))["EDITOR"] == "vi"
    assert pod["spec"]["affinity"]["podAffinity"] == {"x": 1}
    assert pod["spec"]["volumes"][0] == before["spec"]["volumes"][0]


def test_a_pod_with_a_slice_gets_its_device_last_and_its_folder() -> None:
    pod = fitted(dirty_pod(), needs(LEASE))
    notebook = notebook_of(pod)
    assert notebook["env"][-1] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-aaaa"}
    assert env_of(notebook)["GPUCOMMONS_SLICE_ID"] == LEASE.slice.slice_id
    assert "nvidia.com/gpu" not in notebook["resources"]["limits"]
    [volume] = [volume for volume in pod["spec"]["volumes"] if "csi" in volume]
    assert volume["csi"]["volumeAttributes"] == {"slice": LEASE.slice.slice_id}
    assert volume["name"] in [mount["name"] for mount in notebook["volumeMounts"]]
    labels = pod["metadata"]["labels"]
    assert labels["gpucommons.io/workload"] == LEASE.id
    assert labels["gpucommons.io/team"] == "vision"
    assert labels["gpucommons.io/kind"] == "notebook"
    assert labels["gpucommons.io/slice"] == LEASE.slice.slice_id


def test_it_says_which_slots_its_cards_are() -> None:
    """By this the scheduler knows after a restart which card each slot's pods run on."""
    held = LEASE.slice.model_copy(update={"visible_devices": ["GPU-a"], "device_ids": ["n1/gpu-0"]})
    lease = LEASE.model_copy(update={"slice": held})
    assert fitted(dirty_pod(), needs(lease))["metadata"]["annotations"]["gpucommons.io/slots"] == (
        "n1/gpu-0"
    )
    assert (
        "gpucommons.io/slots" not in fitted(dirty_pod(), needs(NO_LEASE))["metadata"]["annotations"]
    )


def test_it_goes_to_the_chosen_node_and_tolerates_only_its_pool() -> None:
    spec = fitted(dirty_pod(), needs(LEASE))["spec"]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["gpu-03"]}]
    assert spec["tolerations"][-1] == {
        "key": "gpucommons.io/pool",
        "operator": "Equal",
        "value": "gpu",
        "effect": "NoSchedule",
    }
    assert len([one for one in spec["tolerations"] if "gpucommons" in one["key"]]) == 1


def test_each_of_an_admins_alternatives_names_the_node_too() -> None:
    pod = plain_pod()
    purpose = {"key": "hub.jupyter.org/node-purpose", "operator": "In", "values": ["user"]}
    rest = {"key": "zone", "operator": "Exists"}
    terms = [{"matchExpressions": [purpose]}, {"matchExpressions": [rest]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    affinity = fitted(pod, needs(LEASE))["spec"]["affinity"]["nodeAffinity"]
    found = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"] for term in found] == [[purpose], [rest]]
    assert all(term["matchFields"][0]["values"] == ["gpu-03"] for term in found)


def test_a_node_that_a_hook_fixed_does_not_bypass_the_scheduler() -> None:
    pod = plain_pod()
    pod["spec"]["nodeName"] = "another"
    assert "nodeName" not in fitted(pod, needs(LEASE))["spec"]


def test_fitting_twice_changes_nothing() -> None:
    for lease in (NO_LEASE, LEASE):
        once = fitted(dirty_pod(), needs(lease))
        assert fitted(once, needs(lease)) == once


def test_the_pod_that_came_is_left_as_it_is() -> None:
    before = dirty_pod()
    kept = copy.deepcopy(before)
    fitted(before, needs(LEASE))
    assert before == kept


def test_a_providers_parts_reach_the_pod() -> None:
    parts = PodParts(
        annotations={"gpu-fraction": "0.5"},
        labels={"kai.scheduler/queue": "vision"},
        limits={"nvidia.com/gpumem": "9000"},
        resource_claims=({"name": "gpu", "resourceClaimName": "claim-1"},),
        scheduler_name="kai-scheduler",
        runtime_class="nvidia",
    )
    pod = fitted(plain_pod(), needs(LEASE, injection=Injection(pod=parts)))
    notebook = notebook_of(pod)
    assert pod["metadata"]["annotations"]["gpu-fraction"] == "0.5"
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "vision"
    assert notebook["resources"]["limits"]["nvidia.com/gpumem"] == "9000"
    assert notebook["resources"]["claims"] == [{"name": "gpu"}]
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "claim-1"}]
    assert pod["spec"]["schedulerName"] == "kai-scheduler"
    assert pod["spec"]["runtimeClassName"] == "nvidia"


def test_the_priority_class_is_that_of_slices_only_with_a_slice() -> None:
    pod = plain_pod()
    pod["spec"]["priorityClassName"] = "of-the-admin"
    with_slice = fitted(pod, needs(LEASE, priority_class="gpucommons-notebook"))
    assert with_slice["spec"]["priorityClassName"] == "gpucommons-notebook"
    without = fitted(pod, needs(NO_LEASE, priority_class="gpucommons-notebook"))
    assert without["spec"]["priorityClassName"] == "of-the-admin"


@pytest.mark.parametrize(
    ("name", "is_gpu"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("amd.com/gpu", True),
        ("gpu.intel.com/i915", True),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", True),
        ("cpu", False),
        ("memory", False),
        ("hugepages-2Mi", False),
        ("smarter-devices/fuse", False),
    ],
)
def test_gpu_resources_are_known_by_name(name: str, is_gpu: bool) -> None:
    assert is_gpu_resource(name) is is_gpu


def test_an_unchanged_pod_and_one_with_harmless_additions_pass() -> None:
    asked = fitted(dirty_pod(), needs(LEASE))
    stored = copy.deepcopy(asked)
    stored["metadata"]["labels"]["istio.io/rev"] = "default"
    stored["spec"]["containers"].append({"name": "proxy"})
    stored["spec"]["tolerations"].append({"key": "node.kubernetes.io/not-ready"})
    assert changed(asked, stored) == []


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (lambda pod: notebook_of(pod)["env"].pop(), "NVIDIA_VISIBLE_DEVICES"),
        (
            lambda pod: notebook_of(pod)["env"].append(
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
            ),
            "NVIDIA_VISIBLE_DEVICES",
        ),
        (
            lambda pod: pod["metadata"]["labels"].pop("gpucommons.io/slice"),
            "gpucommons.io/slice",
        ),
        (
            lambda pod: notebook_of(pod)["resources"]["limits"].update({"nvidia.com/gpu": "1"}),
            "the GPUs it asks of the device plugin",
        ),
        (lambda pod: pod["spec"].pop("affinity"), "its node"),
        (lambda pod: pod["spec"].update(volumes=[]), "the folder of its slice"),
    ],
)
def test_a_changed_key_of_the_slice_is_found(spoil: Any, name: str) -> None:
    asked = fitted(dirty_pod(), needs(LEASE))
    stored = copy.deepcopy(asked)
    spoil(stored)
    assert changed(asked, stored) == [name]

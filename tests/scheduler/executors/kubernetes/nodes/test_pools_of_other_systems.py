"""Pools whose slices KAI, HAMi or the cluster's own allocation makes: what is offered, asked, refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import a_node
from cluster_objects import FILES, JOB, a_launch, a_pod, an_attempt
from published_schemas import validate

from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.executors.kubernetes.attempts import sentences
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import (
    LayOut,
    expected_of,
    lay_out,
)
from gpucommons.scheduler.executors.kubernetes.nodes import reservation_pods
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import (
    Holdings,
    nodes_of,
    taken_by_others,
)
from gpucommons.scheduler.executors.kubernetes.nodes.other_systems import isolation_of, why_not
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    NodeSeen,
    OtherPod,
    read_node,
    read_other,
    read_pod,
)
from gpucommons.scheduler.executors.kubernetes.settings import (
    KubernetesSettings,
    PoolPlace,
    read_settings,
)

POOL = Pool(name=PoolName("train"), executor="kubernetes", gpu_kind="A100-40")
#: ½ of a card of 40 GiB, less what the driver keeps.
HALF_MIB = 19_866
KAI = {"provider": "kai"}
HAMI = {"provider": "hami"}
DRA = {"provider": "dra"}
SHARED = {"provider": "dra", "shared_memory": True}
OWNER = {"metadata": {"name": JOB, "uid": "job-uid"}}


def settings(place: dict[str, Any], **more: Any) -> KubernetesSettings:
    return KubernetesSettings.model_validate(
        {"environments": {"": "python:3"}, "pools": {"train": place}, **more}
    )


def seen(name: str = "n0", **changes: Any) -> NodeSeen:
    node = NodeSeen(
        name=name,
        labels={"gpucommons.io/pool": "train", "nvidia.com/gpu.count": "2"},
        ready=True,
        ready_changed_s=0,
        cordoned=False,
        allocatable={"nvidia.com/gpu": 2},
        cpu_milli=8000,
        memory_mib=16_000,
    )
    return replace(node, **changes)


def offered(place: dict[str, Any], node: NodeSeen, *others: OtherPod | None) -> list[str]:
    taken = taken_by_others(one for one in others if one is not None)
    (found,) = nodes_of([node], [POOL], settings(place), Holdings(taken=taken))
    return [device.device_id for device in found.devices]


def another(namespace: str = "anybodys", gpus: int = 0, **parts: Any) -> OtherPod | None:
    meta = {"uid": "u", "namespace": namespace, "annotations": parts.get("annotations", {})}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {
        "nodeName": "n0",
        "containers": [{"name": "c", "resources": {"limits": limits}}],
        "resourceClaims": parts.get("claims", []),
    }
    return read_other({"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


# --- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ({"provider": "mig"}, "'kai', 'hami' or 'dra'"),
        ({"provider": "kai", "reservations": "standing"}, "leave one of the two out"),
        ({"provider": "hami", "gpu_resource": "amd.com/gpu"}, "hands out nvidia.com/gpu alone"),
        ({"provider": "kai", "shared_memory": True}, "belong to provider: dra alone"),
        ({"device_class": "gpu.nvidia.com"}, "belong to provider: dra alone"),
        ({"provider": "dra", "device_class": "Not A Class"}, "device_class"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_why(
    tmp_path: Path, place: dict[str, Any], says: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump({"pools": {"train": place}}))
    with pytest.raises(BadRequest, match=says):
        read_settings(file)


def test_a_pool_that_names_nobody_is_ours() -> None:
    assert PoolPlace().provider is None
    assert why_not(PoolPlace(), POOL, (), 125) is None


# --- what is offered -------------------------------------------------------------------------


@pytest.mark.parametrize("place", [KAI, HAMI, DRA])
def test_cards_are_offered_though_no_reservation_holds_them(place: dict[str, Any]) -> None:
    assert offered(place, seen()) == ["n0/gpu-0", "n0/gpu-1"]
    nodes: list[Node] = [replace(a_node("n0", gpus=2), pool=POOL.name)]
    slots = [device.device_id for device in nodes[0].devices]
    assert reservation_pods.wanted(nodes, slots, settings({})) != {}
    assert reservation_pods.wanted(nodes, slots, settings(place)) == {}


@pytest.mark.parametrize(("place", "allocatable"), [(HAMI, 20), (DRA, 0)])
def test_where_the_kubelet_offers_no_cards_feature_discovery_counts_them(
    place: dict[str, Any], allocatable: int
) -> None:
    node = seen(allocatable={"nvidia.com/gpu": allocatable} if allocatable else {})
    assert len(offered(place, node)) == 2
    assert offered(place, replace(node, labels={"gpucommons.io/pool": "train"})) == []
    hostile = {**node.labels, "nvidia.com/gpu.count": "9" * 30}
    assert len(offered(place, replace(node, labels=hostile))) == 64


def test_what_kai_holds_for_parts_is_not_counted_beside_the_parts() -> None:
    held = another("kai-resource-reservation", gpus=1)
    assert len(offered(KAI, seen(), held)) == 2
    # Elsewhere such a pod is like any other.
    assert len(offered({}, seen(), held)) == 1


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu-fraction": "0.5"},
        {"gpu-memory": "2000"},
        {"nvidia.com/container.main.gpu-memory.request": "2000Mi"},
    ],
)
def test_a_strangers_part_of_a_card_takes_the_card(annotations: dict[str, str]) -> None:
    assert len(offered(KAI, seen(), another(annotations=annotations))) == 1
    several = {**annotations, "gpu-fraction-num-devices": "2"}
    assert offered(KAI, seen(), another(annotations=several)) == []


def test_a_strangers_claim_takes_a_card_only_where_cards_are_claimed() -> None:
    stranger = another(claims=[{"name": "x", "resourceClaimName": "x"}])
    assert len(offered(DRA, seen(), stranger)) == 1
    assert len(offered(KAI, seen(), stranger)) == 2


# --- what is promised, and refused -----------------------------------------------------------


def test_a_pool_promises_what_its_system_keeps_on_every_node() -> None:
    ready = frozenset({"gpu-fractioning.nvidia.com/Ready"})
    nodes = [seen("n0", conditions=ready), seen("n1")]

    def promised(place: dict[str, Any], *on: NodeSeen) -> str:
        return isolation_of(PoolPlace.model_validate(place), POOL, on)

    assert promised(KAI, *nodes) == "none"
    assert promised(KAI, nodes[0]) == "kernel"
    assert promised(HAMI, *nodes) == "cooperative"
    assert promised(SHARED, *nodes) == "none"
    assert promised(DRA, *nodes) == "hardware"


def test_conditions_count_only_while_they_are_true() -> None:
    def conditions(status: str) -> frozenset[str]:
        said = [{"type": "gpu-fractioning.nvidia.com/Ready", "status": status}]
        return read_node({"metadata": {"name": "n"}, "status": {"conditions": said}}).conditions

    assert conditions("True") == {"gpu-fractioning.nvidia.com/Ready"}
    assert conditions("False") == conditions("Unknown") == frozenset()


@pytest.mark.parametrize(
    ("place", "milli_gpu", "says"),
    [(DRA, 500, "Pool train gives whole GPUs only"), (KAI, 20, "GiB"), (SHARED, 20, "GiB")],
)
def test_a_size_that_is_not_made_is_refused_before_anything_is_made(
    place: dict[str, Any], milli_gpu: int, says: str
) -> None:
    why = why_not(PoolPlace.model_validate(place), POOL, [seen()], milli_gpu)
    assert why is not None
    assert says in why
    with pytest.raises(BadRequest, match=says):
        laid_out(place, milli_gpu)


@pytest.mark.parametrize(
    ("place", "milli_gpu"), [(DRA, 1000), (DRA, 4000), (DRA, 0), (SHARED, 250), (KAI, 500)]
)
def test_a_size_that_is_made_is_not(place: dict[str, Any], milli_gpu: int) -> None:
    assert why_not(PoolPlace.model_validate(place), POOL, [seen()], milli_gpu) is None
    assert why_not(PoolPlace.model_validate(place), POOL, [], milli_gpu) is None


# --- jobs ------------------------------------------------------------------------------------


def laid_out(place: dict[str, Any], milli_gpu: int = 500, *roles: str, **more: Any) -> LayOut:
    nodes = {name: seen(name) for name in ("n0", "n1")}
    launch = a_launch(an_attempt(*roles, milli_gpu=milli_gpu))
    return lay_out(launch, settings(place, **more), POOL, FILES, nodes)


def template_of(plan: LayOut) -> dict[str, Any]:
    found: dict[str, Any] = plan.jobs[0]["spec"]["template"]
    return found


def env_of(plan: LayOut) -> dict[str, Any]:
    (container,) = template_of(plan)["spec"]["containers"]
    return {one["name"]: one for one in container["env"]}


@pytest.mark.parametrize("place", [KAI, HAMI, SHARED], ids=["kai", "hami", "dra"])
@pytest.mark.parametrize("milli_gpu", [500, 1000, 0])
@pytest.mark.parametrize("roles", [("worker",), ("chief", "worker", "worker")])
def test_everything_meets_the_published_schemas(
    place: dict[str, Any], milli_gpu: int, roles: tuple[str, ...]
) -> None:
    plan = laid_out(place, milli_gpu, *roles, agents=True, agent_in_clear=True)
    for document in [*plan.jobs, *(body for _, body in plan.owned(OWNER))]:
        validate(document, "1.36", strict=True)
    template = template_of(plan)
    assert template["spec"]["schedulingGates"] == [{"name": "gpucommons.io/placement"}]
    assert template["metadata"]["labels"]["gpucommons.io/team"] == "vision"


@pytest.mark.parametrize("place", [KAI, HAMI, SHARED], ids=["kai", "hami", "dra"])
@pytest.mark.parametrize("milli_gpu", [500, 1000])
def test_the_other_system_names_the_card_and_no_agent_mounts_anything(
    place: dict[str, Any], milli_gpu: int
) -> None:
    plan = laid_out(place, milli_gpu, agents=True, agent_in_clear=True)
    env = env_of(plan)
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & env.keys()
    assert env["GPUCOMMONS_SLICE_ID"]["valueFrom"]["fieldRef"]["fieldPath"].endswith("slice']")
    assert [v for v in template_of(plan)["spec"]["volumes"] if "csi" in v] == []


@pytest.mark.parametrize("place", [KAI, HAMI, SHARED], ids=["kai", "hami", "dra"])
def test_a_worker_without_a_gpu_sees_none_there_either(place: dict[str, Any]) -> None:
    plan = laid_out(place, 0)
    assert env_of(plan)["NVIDIA_VISIBLE_DEVICES"]["value"] == "void"
    assert "schedulerName" not in template_of(plan)["spec"]


def test_kai_is_told_queue_and_share_in_the_jobs_own_container() -> None:
    template = template_of(laid_out(KAI))
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    assert template["metadata"]["labels"]["kai.scheduler/queue"] == "vision"
    assert template["metadata"]["annotations"] == {
        "gpucommons.io/devices": "void",
        "gpu-memory": str(HALF_MIB),
        "gpu-fraction-container-name": template["spec"]["containers"][0]["name"],
    }
    whole = template_of(laid_out(KAI, 1000))
    assert whole["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "gpu-memory" not in whole["metadata"]["annotations"]


def test_kai_is_told_a_limit_where_the_node_keeps_it() -> None:
    node = seen(conditions=frozenset({"gpu-fractioning.nvidia.com/Ready"}))
    launch = a_launch(an_attempt(milli_gpu=500))
    plan = lay_out(launch, settings(KAI), POOL, FILES, {"n0": node})
    annotations = template_of(plan)["metadata"]["annotations"]
    assert f"{HALF_MIB}Mi" in annotations.values()
    assert "gpu-memory" not in annotations


def test_hami_is_told_memory_in_mib() -> None:
    template = template_of(laid_out(HAMI))
    limits = template["spec"]["containers"][0]["resources"]["limits"]
    assert template["spec"]["schedulerName"] == "hami-scheduler"
    assert (limits["nvidia.com/gpu"], limits["nvidia.com/gpumem"]) == ("1", str(HALF_MIB))


def test_every_worker_gets_a_claim_of_its_own_from_a_template_that_goes_with_the_job() -> None:
    plan = laid_out(
        {**SHARED, "device_class": "cards.example.org"}, 500, "chief", "worker", "worker"
    )
    made = [(path, body) for path, body in plan.owned(OWNER) if "claim" in path]
    assert [path for path, _ in made] == ["resourceclaimtemplates"] * 2
    for job, (_, template) in zip(plan.jobs, made, strict=True):
        pod = job["spec"]["template"]["spec"]
        name = template["metadata"]["name"]
        assert pod["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": name}]
        assert pod["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
        assert template["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        assert request["exactly"] == {
            "deviceClassName": "cards.example.org",
            "capacity": {"requests": {"memory": f"{HALF_MIB}Mi"}},
        }


def test_a_node_that_is_not_seen_is_waited_for() -> None:
    with pytest.raises(Unavailable, match="n0 is not seen"):
        lay_out(a_launch(), settings(KAI), POOL, FILES, {})


def test_a_webhook_of_that_system_may_change_the_gpus_but_not_the_gate() -> None:
    expected = expected_of(laid_out(HAMI, 1000))
    assert (expected.gpus, expected.last) == ({"worker": None}, {"worker": None})
    pod = read_pod(a_pod())
    assert pod is not None
    assert sentences.pod_changed(replace(pod, gpus=7), gpus=None, last=None) == ""
    free = sentences.pod_changed(replace(pod, gates=()), gpus=None, last=None)
    assert "does not wait for its place" in free

"""Every system that makes slices for pods: installed or not, sized, and written as it reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from published_schemas import validate

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.errors import SliceTooSmall
from gpucommons.gpu.providers.cluster.cluster import ClusterTraits, PodWish
from gpucommons.gpu.providers.cluster.pods import POD_PROVIDERS, foreign_injection
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import ISOLATION_MODES

NOTHING = ClusterTraits()
KAI = ClusterTraits(crds=frozenset({"queues.scheduling.run.ai", "bindrequests.scheduling.run.ai"}))
NV_FRACTIONS = replace(KAI, node_conditions=frozenset({"gpu-fractioning.nvidia.com/Ready"}))
HAMI = ClusterTraits(node_annotations=frozenset({"hami.io/node-nvidia-register"}))
DRA = ClusterTraits(
    resource_api=frozenset({"v1", "v1beta2"}), device_classes=frozenset({"gpu.nvidia.com"})
)
DRA_SHARED = replace(DRA, shared_memory=True)
INSTALLED = {"kai": KAI, "hami": HAMI, "dra": DRA}

CARDS = tuple(
    Device(
        device_id=DeviceId(f"GPU-00000000-0000-0000-0000-00000000000{index}"),
        index=index,
        kind="A100-40",
        memory_mib=40_960,
    )
    for index in range(2)
)
WISH = PodWish(container="notebook", queue="vision", claim="gpucommons-a")


def a_slice(milli_gpu: int, *cards: Device) -> GpuSlice:
    shares = tuple(DeviceShare(device_id=c.device_id, milli_gpu=milli_gpu) for c in cards)
    memory_mib = sum(share_memory_mib(card, milli_gpu) for card in cards)
    return GpuSlice(slice_id=SliceId("a"), shares=shares, memory_mib=memory_mib)


HALF = a_slice(500, CARDS[0])
HALF_MIB = HALF.memory_mib
WHOLE = a_slice(1000, *CARDS)


@pytest.mark.parametrize("name", POD_PROVIDERS)
def test_where_it_is_not_installed_it_says_so(name: str) -> None:
    capability = POD_PROVIDERS[name].probe(NOTHING)
    assert not capability.usable
    assert capability.reason.endswith(".")
    assert POD_PROVIDERS[name].probe(INSTALLED[name]).usable


@pytest.mark.parametrize("name", POD_PROVIDERS)
@pytest.mark.parametrize("milli_gpu", [250, 500, 1000])
def test_a_grant_is_what_was_asked_and_claims_a_known_isolation(name: str, milli_gpu: int) -> None:
    traits = replace(INSTALLED[name], shared_memory=True)
    grant = POD_PROVIDERS[name].quantize(CARDS[0], milli_gpu, traits)
    assert grant is not None
    assert (grant.provider, grant.milli_gpu) == (name, milli_gpu)
    assert grant.memory_mib == share_memory_mib(CARDS[0], milli_gpu)
    assert grant.isolation in ISOLATION_MODES


@pytest.mark.parametrize("name", POD_PROVIDERS)
def test_a_share_without_room_for_a_context_is_refused(name: str) -> None:
    with pytest.raises(SliceTooSmall):
        POD_PROVIDERS[name].quantize(CARDS[0], 25, replace(INSTALLED[name], shared_memory=True))


def test_what_is_not_enforced_is_not_said_to_be() -> None:
    def isolation(name: str, traits: ClusterTraits, milli_gpu: int = 500) -> str | None:
        grant = POD_PROVIDERS[name].quantize(CARDS[0], milli_gpu, traits)
        return None if grant is None else grant.isolation

    assert isolation("kai", KAI) == "none"
    assert isolation("kai", NV_FRACTIONS) == "kernel"
    assert isolation("hami", HAMI) == "cooperative"
    assert isolation("dra", DRA) is None
    assert isolation("dra", DRA_SHARED) == "none"
    assert isolation("dra", DRA, 1000) == "hardware"


@pytest.mark.parametrize("name", POD_PROVIDERS)
@pytest.mark.parametrize("gpu_slice", [HALF, WHOLE], ids=["half", "whole"])
def test_what_it_writes_is_a_pod_that_the_api_takes(name: str, gpu_slice: GpuSlice) -> None:
    given = foreign_injection(POD_PROVIDERS[name], gpu_slice, CARDS, WISH)
    parts = given.pod
    container = {
        "name": "notebook",
        "image": "i",
        "env": [{"name": key, "value": value} for key, value in given.env.items()],
        "volumeMounts": list(parts.volume_mounts),
        "resources": {
            "limits": dict(parts.limits),
            "claims": [{"name": one["name"]} for one in parts.resource_claims],
        },
    }
    spec = {
        "containers": [container],
        "volumes": list(parts.volumes),
        "resourceClaims": list(parts.resource_claims),
        **({"schedulerName": parts.scheduler_name} if parts.scheduler_name else {}),
    }
    metadata = {
        "name": "p",
        "labels": dict(parts.labels),
        "annotations": dict(parts.annotations),
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    validate(pod, "1.36", strict=True)
    for found in parts.objects:
        validate(dict(found), "1.36", strict=True)


@pytest.mark.parametrize("name", POD_PROVIDERS)
def test_the_other_system_names_the_device_and_we_the_slice(name: str) -> None:
    given = foreign_injection(POD_PROVIDERS[name], HALF, CARDS, WISH)
    assert "NVIDIA_VISIBLE_DEVICES" not in given.env
    assert "CUDA_VISIBLE_DEVICES" not in given.env
    assert given.env["GPUCOMMONS_SLICE_ID"] == "a"
    assert given.pod.volumes


def test_a_device_that_we_do_not_know_is_not_watched() -> None:
    given = foreign_injection(POD_PROVIDERS["kai"], HALF, (), WISH)
    assert given.pod.volumes == ()


def test_kai_plans_by_memory_and_names_the_container_and_the_queue() -> None:
    parts = foreign_injection(POD_PROVIDERS["kai"], HALF, CARDS, WISH).pod
    assert parts.scheduler_name == "kai-scheduler"
    assert parts.labels == {"kai.scheduler/queue": "vision"}
    assert parts.annotations == {
        "gpu-memory": str(HALF_MIB),
        "gpu-fraction-container-name": "notebook",
    }
    assert parts.limits == {}


def test_kai_with_nv_fractions_limits_the_container() -> None:
    wish = replace(WISH, isolation="kernel")
    parts = foreign_injection(POD_PROVIDERS["kai"], HALF, CARDS, wish).pod
    assert parts.annotations == {
        "nvidia.com/container.notebook.gpu-memory.request": f"{HALF_MIB}Mi",
        "nvidia.com/container.notebook.gpu-memory.limit": f"{HALF_MIB}Mi",
        "nvidia.com/container.notebook.gpu-compute.mode": "time-slicing",
    }


def test_kai_gives_whole_gpus_by_the_device_plugin_alone() -> None:
    parts = foreign_injection(POD_PROVIDERS["kai"], WHOLE, CARDS, WISH).pod
    assert parts.limits == {"nvidia.com/gpu": "2"}
    assert parts.annotations == {}


def test_kai_counts_fractions_of_several_devices() -> None:
    parts = foreign_injection(POD_PROVIDERS["kai"], a_slice(500, *CARDS), CARDS, WISH).pod
    assert parts.annotations["gpu-fraction-num-devices"] == "2"
    assert parts.annotations["gpu-memory"] == str(HALF_MIB)


@pytest.mark.parametrize("queue", ["", "a b", "-x", "x" * 64, "a\nb"])
def test_a_team_whose_name_is_no_label_gets_no_other_queue(queue: str) -> None:
    parts = foreign_injection(POD_PROVIDERS["kai"], HALF, CARDS, replace(WISH, queue=queue)).pod
    assert parts.labels == {}


def test_hami_gets_memory_in_mib_and_the_devices_that_we_chose() -> None:
    parts = foreign_injection(POD_PROVIDERS["hami"], HALF, CARDS[:1], WISH).pod
    assert parts.limits == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(HALF_MIB)}
    assert parts.annotations == {"nvidia.com/use-gpuuuid": CARDS[0].device_id}
    assert parts.scheduler_name == "hami-scheduler"


def test_hami_gives_a_whole_device_to_one_pod_alone() -> None:
    parts = foreign_injection(POD_PROVIDERS["hami"], WHOLE, CARDS, WISH).pod
    assert parts.limits == {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "100"}


def test_dra_claims_a_share_of_the_device_that_we_chose() -> None:
    parts = foreign_injection(POD_PROVIDERS["dra"], HALF, CARDS[:1], WISH).pod
    assert parts.resource_claims == ({"name": "gpu", "resourceClaimName": "gpucommons-a"},)
    (claim,) = parts.objects
    assert claim["metadata"]["name"] == "gpucommons-a"
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [
            {
                "cel": {
                    "expression": 'device.attributes["gpu.nvidia.com"].uuid == '
                    f'"{CARDS[0].device_id}"'
                }
            }
        ],
        "capacity": {"requests": {"memory": f"{HALF_MIB}Mi"}},
    }


def test_a_hostile_uuid_ends_no_expression() -> None:
    evil = replace(CARDS[0], device_id=DeviceId('GPU-1" || true || "'))
    (claim,) = foreign_injection(
        POD_PROVIDERS["dra"], a_slice(1000, evil), [evil], WISH
    ).pod.objects
    (request,) = claim["spec"]["devices"]["requests"]
    (selector,) = request["exactly"]["selectors"]
    assert selector["cel"]["expression"].count('"') == 4

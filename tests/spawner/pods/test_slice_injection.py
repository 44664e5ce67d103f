"""A slice's devices in a pod: those of its slots, or those that somebody else picks."""

from __future__ import annotations

import pytest
from notebook_pods import LEASE, held, needs, plain_pod

from gpucommons.gpu.providers import Injection
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER
from gpucommons.scheduler.models import LeaseView
from gpucommons.spawner.pods.pod import fitted, notebook_of
from gpucommons.spawner.pods.slice_injection import NotBound, SliceMakers, slice_injection


def given(lease: LeaseView) -> Injection:
    assert lease.slice is not None
    return slice_injection(lease, lease.slice, SliceMakers())


def test_the_devices_are_those_that_the_slots_are_bound_to() -> None:
    env = given(LEASE).env
    assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-aaaa"
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"


def test_an_admins_libraries_stay_behind_those_of_the_slice() -> None:
    pod = plain_pod()
    notebook_of(pod)["env"].append({"name": "LD_LIBRARY_PATH", "value": "/opt/mine"})
    once = fitted(pod, needs(LEASE, injection=given(LEASE)))
    again = fitted(once, needs(LEASE, injection=given(LEASE)))
    for found in (once, again):
        env = {one["name"]: one["value"] for one in notebook_of(found)["env"]}
        assert env["LD_LIBRARY_PATH"].startswith("/run/gpucommons/slice/shim:")
        assert env["LD_LIBRARY_PATH"].endswith(":/opt/mine")
        assert env["LD_LIBRARY_PATH"].count("/opt/mine") == 1


def test_a_simulated_device_is_no_device_for_the_container_toolkit() -> None:
    env = given(held(simulated=True, visible_devices=[], device_ids=["sim-1"])).env
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_several_devices_are_all_named() -> None:
    lease = held(
        visible_devices=["GPU-b", "GPU-a"],
        device_ids=["n/gpu-0", "n/gpu-1"],
        device_indices=[0, 1],
        milli_gpu=2000,
        isolation="hardware",
    )
    assert given(lease).env["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"


def test_a_slot_that_is_not_bound_is_said() -> None:
    with pytest.raises(NotBound, match="not bound to its slot yet"):
        given(held(visible_devices=[]))


@pytest.mark.parametrize(("isolation", "has_folder"), [("hardware", True), ("none", False)])
def test_whole_gpus_of_the_device_plugin_are_asked_of_it_and_named_by_it(
    isolation: str, has_folder: bool
) -> None:
    lease = held(
        visible_devices=[],
        device_ids=["gpu-03/gpu-0", "gpu-03/gpu-1"],
        device_indices=[0, 1],
        plugin_devices=2,
        milli_gpu=2000,
        isolation=isolation,
    )
    pod = fitted(plain_pod(), needs(lease, injection=given(lease)))
    notebook = notebook_of(pod)
    assert notebook["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    names = {one["name"] for one in notebook["env"]}
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & names
    drivers = [v["csi"]["driver"] for v in pod["spec"]["volumes"] if "csi" in v]
    assert drivers == ([CSI_DRIVER] if has_folder else [])
    assert ("GPUCOMMONS_SLICE_SOCKET" in names) is has_folder


def test_kai_is_told_the_share_and_picks_the_device() -> None:
    parts = given(held(provider="kai", visible_devices=[])).pod
    assert parts.scheduler_name == "kai-scheduler"
    assert parts.labels["kai.scheduler/queue"] == "vision"
    assert parts.annotations["gpu-memory"] == "19866"


def test_a_claim_goes_with_its_slice() -> None:
    lease = held(provider="dra", milli_gpu=1000, isolation="hardware")
    assert lease.slice is not None
    found = given(lease)
    [claim] = found.pod.objects
    assert claim["metadata"]["name"] == f"gpucommons-{lease.slice.slice_id}"
    pod = fitted(plain_pod(), needs(lease, injection=found))
    [used] = pod["spec"]["resourceClaims"]
    assert used["resourceClaimName"] == claim["metadata"]["name"]
    assert notebook_of(pod)["resources"]["claims"] == [{"name": used["name"]}]

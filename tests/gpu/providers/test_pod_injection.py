"""What a pod gets to use its slice."""

from __future__ import annotations

import pytest

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.providers.cluster.pods import MOUNT_PATH, pod_injection, slice_folder
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

CARD = Device(device_id=DeviceId("GPU-1"), index=0, kind="A100-40", memory_mib=40_960)


def half(milli_gpu: int = 500) -> GpuSlice:
    return GpuSlice(
        slice_id=SliceId("0193f0aa-0"),
        shares=(DeviceShare(device_id=CARD.device_id, milli_gpu=milli_gpu),),
        memory_mib=share_memory_mib(CARD, milli_gpu),
    )


def test_a_pod_mounts_the_folder_of_its_slice_and_says_no_more_than_its_name() -> None:
    given = pod_injection(half(), [CARD], isolation="cooperative")

    (volume,) = given.pod.volumes
    assert volume["csi"] == {
        "driver": "slices.gpucommons.io",
        "volumeAttributes": {"slice": "0193f0aa-0"},
    }
    (mount,) = given.pod.volume_mounts
    assert (mount["name"], mount["mountPath"]) == (volume["name"], MOUNT_PATH)
    assert given.env["GPUCOMMONS_SLICE_SOCKET"] == f"{MOUNT_PATH}/usage.sock"


def test_the_devices_are_named_for_the_container_toolkit_and_for_cuda() -> None:
    given = pod_injection(half(), [CARD], isolation="cooperative")
    assert given.env["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert given.env["CUDA_VISIBLE_DEVICES"] == "GPU-1"


def test_where_the_interposer_keeps_the_memory_programs_find_it_first() -> None:
    given = pod_injection(half(), [CARD], isolation="cooperative")
    assert given.prepend["LD_LIBRARY_PATH"].split(":")[0] == f"{MOUNT_PATH}/shim"
    # Programs see the slice as the card, so nearly all of what they see is theirs.
    assert given.env["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.950"


def test_where_the_driver_keeps_the_memory_the_toolkit_gets_both_numbers() -> None:
    given = pod_injection(half(), [CARD], isolation="kernel")
    memory_mib = str(half().memory_mib)
    assert given.env["NVIDIA_GPU_MEMORY_REQUEST"] == memory_mib
    assert given.env["NVIDIA_GPU_MEMORY_LIMIT"] == memory_mib
    assert "LD_LIBRARY_PATH" not in given.prepend


@pytest.mark.parametrize("isolation", ["kernel", "cooperative", "hardware"])
def test_a_whole_card_needs_no_limit(isolation: str) -> None:
    given = pod_injection(half(1000), [CARD], isolation=isolation)
    assert "NVIDIA_GPU_MEMORY_LIMIT" not in given.env
    assert "LD_LIBRARY_PATH" not in given.prepend
    assert given.pod.volumes


def test_a_pod_without_a_gpu_sees_none_and_mounts_nothing() -> None:
    given = pod_injection(
        GpuSlice(slice_id=SliceId("0193f0aa-0"), shares=(), memory_mib=0), [], isolation="none"
    )
    assert given.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert given.pod.volumes == ()


def test_a_worker_of_a_job_names_its_attempt() -> None:
    (volume,) = slice_folder({"attempt": "0193f0aa"}).pod.volumes
    assert volume["csi"]["volumeAttributes"] == {"attempt": "0193f0aa"}

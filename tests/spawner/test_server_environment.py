"""A server sees its slice and nothing else, and says so in every case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.models import LeaseView, SliceView
from gpucommons.spawner.server_environment import Attachment, environment_of

ATTACHMENT = Attachment(
    scheduler_url="http://127.0.0.1:5000", agent_dir="/state/agent", shared_account=True
)
SLICE_ID = "0190aaaa-0000-7000-8000-0000000000aa"


def lease(**slice_fields: object) -> LeaseView:
    held = SliceView(
        slice_id=SLICE_ID,
        node="here",
        gpu_kind="A100-40",
        isolation="none",
        **{
            "device_ids": ["GPU-aaaa"],
            "device_indices": [3],
            "milli_gpu": 500,
            "memory_mib": 19866,
            "simulated": False,
            **slice_fields,
        },
    )
    return LeaseView(
        id="0190aaaa-0000-7000-8000-000000000001",
        user="alice",
        server_name="",
        team="vision",
        pool="gpu",
        state="active",
        milli_gpu=held.milli_gpu,
        requested_ms=0,
        since_ms=0,
        slice=held,
    )


def test_a_server_without_a_slice_is_told_that_it_has_no_gpu() -> None:
    env = environment_of(None, ATTACHMENT)
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert "GPUCOMMONS_SLICE_ID" not in env


def test_a_server_with_a_slice_is_told_its_device_and_its_socket() -> None:
    env = environment_of(lease(), ATTACHMENT)
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"
    assert env["GPUCOMMONS_SLICE_ID"] == SLICE_ID
    assert env["GPUCOMMONS_NODE"] == lease().slice.node
    assert env["GPUCOMMONS_SLICE_SOCKET"] == f"/state/agent/slices/{SLICE_ID}/usage.sock"
    assert env["GPUCOMMONS_LEASE_ID"] == "0190aaaa-0000-7000-8000-000000000001"


def test_a_simulated_slice_shows_no_real_gpu() -> None:
    env = environment_of(lease(simulated=True, device_ids=["sim-1"]), ATTACHMENT)
    # No GPU has such a name, so CUDA finds none.
    assert env["CUDA_VISIBLE_DEVICES"] == "sim-1"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_whole_gpus_are_all_named() -> None:
    held = lease(device_ids=["GPU-a", "GPU-b"], device_indices=[0, 1], milli_gpu=2000)
    assert environment_of(held, ATTACHMENT)["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"


@pytest.mark.parametrize(("of_admin", "chosen"), [("30", "3"), ("2", "2"), ("soon", "3")])
def test_saved_kernels_stay_as_their_user_chose_and_no_longer_than_the_admin_said(
    of_admin: str, chosen: str
) -> None:
    base = {"GPUCOMMONS_KERNELS_KEPT_DAYS": of_admin}
    asked = replace(ATTACHMENT, kernels_kept_days=3)
    assert environment_of(None, asked, base)["GPUCOMMONS_KERNELS_KEPT_DAYS"] == chosen


def test_a_shared_account_is_said() -> None:
    assert environment_of(None, ATTACHMENT)["GPUCOMMONS_SHARED_ACCOUNT"] == "1"
    alone = Attachment(scheduler_url="", agent_dir="", shared_account=False)
    assert environment_of(None, alone).keys() == {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}

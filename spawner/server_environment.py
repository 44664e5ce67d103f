"""The environment variables of a notebook server: what it is told about its slice, in every case.

A server without a slice gets ``void`` rather than nothing, because an unset variable means *all*
GPUs to CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.providers import Injection, injection, no_gpu
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, MpsDaemon, SliceId
from gpucommons.scheduler.models import LeaseView, SliceView

_KEPT_DAYS = "GPUCOMMONS_KERNELS_KEPT_DAYS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Where a notebook finds the parts it may talk to."""

    scheduler_url: str
    agent_dir: str
    shared_account: bool
    #: What a node agent made for the slice; None where none makes slices.
    prepared: Injection | None = None
    #: From the word to stop until the server is killed: within that it keeps what it can.
    stop_seconds: int = 0
    #: Its user wants saved kernels removed after so many days; 0 = whenever that is due.
    kernels_kept_days: int = 0
    #: What the form calls its environment; empty where nothing is on offer.
    environment_name: str = ""


def environment_of(
    lease: LeaseView | None, attachment: Attachment, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of one server; with a value for each GPU variable, slice or not."""
    env: dict[str, str] = dict(base or {})
    if attachment.scheduler_url:
        env["GPUCOMMONS_URL"] = attachment.scheduler_url
    if attachment.shared_account:
        env["GPUCOMMONS_SHARED_ACCOUNT"] = "1"
    if attachment.environment_name:
        env["GPUCOMMONS_ENVIRONMENT"] = attachment.environment_name
    if attachment.stop_seconds:
        env["GPUCOMMONS_STOP_SECONDS"] = str(attachment.stop_seconds)
    if attachment.kernels_kept_days:
        env[_KEPT_DAYS] = str(_fewer(env.get(_KEPT_DAYS), attachment.kernels_kept_days))
    if lease is None or lease.slice is None:
        return no_gpu().apply(env)
    env["GPUCOMMONS_LEASE_ID"] = lease.id
    env["GPUCOMMONS_SLICE_ID"] = lease.slice.slice_id
    env["GPUCOMMONS_NODE"] = lease.slice.node
    if attachment.agent_dir:
        socket = f"{attachment.agent_dir}/slices/{lease.slice.slice_id}/usage.sock"
        env["GPUCOMMONS_SLICE_SOCKET"] = socket
    given = attachment.prepared or injection(gpu_slice(lease.slice), devices(lease.slice))
    return given.apply(env)


def _fewer(of_admin: str | None, chosen: int) -> int:
    """A user's choice is never longer than what the hub's admin set for all servers."""
    is_number = of_admin is not None and of_admin.isascii() and of_admin.isdigit()
    return min(int(of_admin), chosen) if of_admin is not None and is_number else chosen


def gpu_slice(view: SliceView) -> GpuSlice:
    """The slice in the words of the GPU part; several devices share evenly."""
    each = view.milli_gpu // max(1, len(view.device_ids))
    return GpuSlice(
        slice_id=SliceId(view.slice_id),
        shares=tuple(
            DeviceShare(device_id=DeviceId(device_id), milli_gpu=each)
            for device_id in view.device_ids
        ),
        memory_mib=view.memory_mib,
        mps=None if view.mps is None else MpsDaemon(**view.mps.model_dump()),
    )


def devices(view: SliceView) -> tuple[Device, ...]:
    """The devices of a slice, as far as the slice tells: their memory is that of the slice."""
    return tuple(
        Device(
            device_id=DeviceId(device_id),
            index=index,
            kind=view.gpu_kind,
            memory_mib=view.memory_mib,
            simulated=view.simulated,
        )
        for device_id, index in zip(view.device_ids, view.device_indices, strict=True)
    )

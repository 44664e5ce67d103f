"""JSON of the node agent's sockets, in both directions, checked on the way in.

Newline-separated JSON objects: a field has the name it has in the dataclass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.errors import BadAgentRequest
from gpucommons.gpu.linux.pod_groups import POD_UID
from gpucommons.gpu.providers.base import Injection
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, MpsDaemon, SliceId
from gpucommons.gpu.slices.usage import UsageMinute, UsageSample

#: A slice's name is the name of a folder, so it must be a plain one.
_SLICE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\.[A-Za-z0-9_-]{1,99}){0,3}")
_MAX_ID_CHARACTERS = 128
_MAX_PATH_CHARACTERS = 1024
_MPS_SERVER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_SHARES = 64
#: No card comes near a PiB; a JSON integer could.
_MAX_MEMORY_MIB = 1 << 30
_MAX_UID = (1 << 32) - 2

Json = dict[str, Any]

#: Kept: making one costs as much as a sample.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode(message: Mapping[str, Any]) -> bytes:
    """One line, in ASCII: JSON may carry what no UTF-8 can (half a surrogate pair)."""
    return _ENCODER.encode(message).encode("ascii") + b"\n"


def decode(line: bytes) -> Json:
    """Read one line as an object.

    Raises
    ------
    BadAgentRequest
        When the line is anything else.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise BadAgentRequest("This line is no JSON object; send one object per line.") from None
    if not isinstance(message, dict):
        raise BadAgentRequest("This line is JSON but no object; send one object per line.")
    return message


def slice_id_from(message: Mapping[str, object]) -> SliceId:
    """The ``slice_id`` of a request, fit to be the name of a folder."""
    value = message.get("slice_id")
    if (
        not isinstance(value, str)
        or len(value) > _MAX_ID_CHARACTERS
        or not _SLICE_ID.fullmatch(value)
    ):
        raise BadAgentRequest(
            "slice_id must be a name of letters, digits, '-', '_' and single dots, at most "
            f"{_MAX_ID_CHARACTERS} characters."
        )
    return SliceId(value)


def integer_from(message: Mapping[str, object], field: str, *, least: int, most: int) -> int:
    """An integer field within bounds."""
    value = message.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadAgentRequest(f"{field} must be an integer from {least} to {most}.")
    return value


def slice_from(message: Mapping[str, object]) -> GpuSlice:
    """The slice of an ``open`` request."""
    slice_id = slice_id_from(message)
    shares = message.get("shares")
    if not isinstance(shares, list) or not 0 < len(shares) <= _MAX_SHARES:
        raise BadAgentRequest(f"shares must be a list of 1 to {_MAX_SHARES} shares of devices.")
    read = tuple(_share_from(share) for share in shares)
    if len({share.device_id for share in read}) != len(read):
        raise BadAgentRequest("shares must name each device once.")
    return GpuSlice(
        slice_id=slice_id,
        shares=read,
        memory_mib=memory_mib_from(message),
        mps=_mps_from(message.get("mps")),
    )


def _mps_from(value: object) -> MpsDaemon | None:
    """The daemon of a pool that opted in to MPS."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadAgentRequest("mps must be an object with pipe, version and server.")
    pipe, server = value.get("pipe"), value.get("server", "")
    if not isinstance(pipe, str) or not 0 < len(pipe) <= _MAX_PATH_CHARACTERS or pipe[0] != "/":
        raise BadAgentRequest("The pipe of mps must be an absolute path.")
    if not isinstance(server, str) or not (server == "" or _MPS_SERVER.fullmatch(server)):
        raise BadAgentRequest("The server of mps must be a name of letters, digits, '-' and '_'.")
    version = integer_from({"version": value.get("version", 2)}, "version", least=2, most=3)
    return MpsDaemon(pipe=pipe, version=version, server=server)


def memory_mib_from(message: Mapping[str, object]) -> int:
    """The memory of a slice."""
    return integer_from(message, "memory_mib", least=1, most=_MAX_MEMORY_MIB)


def _share_from(share: object) -> DeviceShare:
    device_id = share.get("device_id") if isinstance(share, dict) else None
    if not isinstance(device_id, str) or not 0 < len(device_id) <= _MAX_ID_CHARACTERS:
        raise BadAgentRequest("A share must be an object with device_id and milli_gpu.")
    return DeviceShare(
        device_id=DeviceId(device_id),
        milli_gpu=integer_from(
            cast("dict[str, object]", share), "milli_gpu", least=1, most=WHOLE_MILLI_GPU
        ),
    )


def uid_from(message: Mapping[str, object]) -> int | None:
    """The account that will use a slice; None when the request names none."""
    if message.get("uid") is None:
        return None
    return integer_from(message, "uid", least=0, most=_MAX_UID)


def devices_from(message: Mapping[str, object], field: str) -> tuple[DeviceId, ...]:
    """A list of devices; none where the field is missing."""
    found = message.get(field, [])
    if not isinstance(found, list) or len(found) > _MAX_SHARES:
        raise BadAgentRequest(f"{field} must be a list of at most {_MAX_SHARES} devices.")
    if not all(isinstance(one, str) and 0 < len(one) <= _MAX_ID_CHARACTERS for one in found):
        raise BadAgentRequest(f"{field} must be a list of names of devices.")
    return tuple(map(DeviceId, found))


def pod_from(message: Mapping[str, object]) -> str:
    """The uid of a pod."""
    value = message.get("pod")
    if not isinstance(value, str) or not POD_UID.fullmatch(value):
        raise BadAgentRequest("pod must be the uid of a pod.")
    return value


def slice_json(gpu_slice: GpuSlice) -> Json:
    """A slice as ``open`` takes it and ``slices`` gives it."""
    return {
        "slice_id": gpu_slice.slice_id,
        "shares": [
            {"device_id": share.device_id, "milli_gpu": share.milli_gpu}
            for share in gpu_slice.shares
        ],
        "memory_mib": gpu_slice.memory_mib,
        **({} if gpu_slice.mps is None else {"mps": asdict(gpu_slice.mps)}),
    }


def sample_json(sample: UsageSample) -> Json:
    """A sample for the panel, the widget and the scheduler."""
    return {
        "slice_id": sample.slice_id,
        "at_ms": sample.at_ms,
        "compute_percent": sample.compute_percent,
        "memory_used_mib": sample.memory_used_mib,
        "memory_limit_mib": sample.memory_limit_mib,
        "processes": sample.processes,
        "contention": sample.contention,
        "simulated": sample.simulated,
        "active_ms": sample.active_ms,
        "isolation": sample.isolation,
        "stops_ms": sample.stops_ms,
        "notice": sample.notice,
    }


def sample_from(message: Mapping[str, Any]) -> UsageSample:
    """A sample as the agent sent it."""
    return UsageSample(**message)


def injection_json(injection: Injection) -> Json:
    """What a workload gets."""
    return {
        "env": dict(injection.env),
        "prepend": dict(injection.prepend),
        "cgroup": injection.cgroup,
    }


def injection_from(message: Mapping[str, Any]) -> Injection:
    """What a workload gets, as the agent sent it."""
    return Injection(env=message["env"], prepend=message["prepend"], cgroup=message["cgroup"])


def minute_json(minute: UsageMinute) -> Json:
    """A minute of one slice."""
    return asdict(minute)


def minute_from(message: Mapping[str, Any]) -> UsageMinute:
    """A minute as the agent sent it."""
    return UsageMinute(**message)


def device_json(device: Device) -> Json:
    """A device."""
    return asdict(device)


def device_from(message: Mapping[str, Any]) -> Device:
    """A device as the agent sent it."""
    return Device(**message)


def notice_json(notice: CloudNotice) -> Json:
    """What a node's cloud says of it."""
    return asdict(notice)


def notice_from(value: object) -> CloudNotice:
    """What a node's cloud says of it, as the agent sent it; nothing where that cannot be read."""
    told = value if isinstance(value, dict) else {}
    leaves_ms = told.get("leaves_ms")
    is_time = isinstance(leaves_ms, int) and not isinstance(leaves_ms, bool) and leaves_ms >= 0
    return CloudNotice(
        leaves_ms=leaves_ms if is_time else None, at_risk=told.get("at_risk") is True
    )

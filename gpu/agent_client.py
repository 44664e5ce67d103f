"""How the scheduler, the local executor and the spawner talk to the node agent of their machine.

Blocking, one connection per call: every call is a few hundred microseconds on a unix socket and
safe from any thread.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucommons.gpu import errors, wire
from gpucommons.gpu.devices import Device, DeviceId
from gpucommons.gpu.errors import AgentUnavailable, GpuError
from gpucommons.gpu.providers.base import Injection
from gpucommons.gpu.slices import GpuSlice, SliceId
from gpucommons.gpu.unix_sockets import connect
from gpucommons.gpu.usage import UsageMinute, UsageSample

_RECEIVE_BYTES = 1 << 18
#: No answer of an honest agent is longer.
_MAX_ANSWER_BYTES = 32 << 20
_ERRORS: Mapping[str, type[GpuError]] = {
    error.__name__: error
    for error in (
        errors.BadAgentRequest,
        errors.CannotShrink,
        errors.LimitNotInForce,
        errors.SliceInUse,
        errors.SliceTooSmall,
        errors.UnknownDevice,
        errors.UnknownSlice,
    )
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeReport:
    """What a node offers."""

    node: str
    devices: tuple[Device, ...]
    cpu_milli: int
    memory_mib: int
    #: One of ``usage.ISOLATION_MODES``.
    isolation: str
    #: What the driver says is wrong, for each device that is ill.
    troubles: Mapping[DeviceId, str] = field(default_factory=dict)
    #: Isolation of the slices of each device; ``isolation`` is the weakest of them.
    isolations: Mapping[DeviceId, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A slice whose limit is in force and was read back."""

    socket: Path
    injection: Injection
    #: One of ``usage.ISOLATION_MODES``.
    isolation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceReading:
    """A fresh look at one slice."""

    #: None only before the first look.
    sample: UsageSample | None
    #: Live processes of the slice, on the device or not; empty = its device may be handed on.
    pids: tuple[int, ...]


class AgentClient:
    """Calls of one node agent.

    Every method raises ``AgentUnavailable`` when the agent does not answer in time, and the
    error that the agent names when it refuses.
    """

    def __init__(self, path: Path | str, *, timeout_s: float = 5.0) -> None:
        self._path = Path(path)
        self._timeout_s = timeout_s

    def devices(self) -> NodeReport:
        """The node and its devices."""
        answer = self._call("devices")
        return NodeReport(
            node=answer["node"],
            devices=tuple(wire.device_from(device) for device in answer["devices"]),
            cpu_milli=answer["cpu_milli"],
            memory_mib=answer["memory_mib"],
            isolation=answer["isolation"],
            troubles=answer["troubles"],
            isolations=answer.get("isolations", {}),
        )

    def open(self, gpu_slice: GpuSlice) -> Path:
        """Begin to watch a slice; answers the path of its socket. Repeating it is harmless."""
        return Path(self._call("open", **wire.slice_json(gpu_slice))["socket"])

    def prepare(self, gpu_slice: GpuSlice, *, uid: int | None = None) -> Prepared:
        """Put a slice's limit in force before anything starts on it; repeating it verifies again.

        ``uid`` is the account that will use it. Raises ``LimitNotInForce`` when the limit cannot be
        verified: nothing may start then.
        """
        answer = self._call("prepare", **wire.slice_json(gpu_slice), uid=uid)
        return Prepared(
            socket=Path(answer["socket"]),
            injection=wire.injection_from(answer),
            isolation=answer["isolation"],
        )

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory of a slice in use; raises ``CannotShrink`` when more is in use."""
        self._call("resize", slice_id=slice_id, memory_mib=memory_mib)

    def bind(self, slice_id: SliceId, pid: int) -> bool:
        """Make a process and its descendants part of the slice; False when it ended already."""
        return bool(self._call("bind", slice_id=slice_id, pid=pid)["bound"])

    def close_slice(self, slice_id: SliceId) -> None:
        """Stop watching a slice; one that is not open is no error."""
        self._call("close", slice_id=slice_id)

    def reading(self, slice_id: SliceId) -> SliceReading:
        """Look at one slice now."""
        answer = self._call("reading", slice_id=slice_id)
        sample = answer["sample"]
        return SliceReading(
            sample=None if sample is None else wire.sample_from(sample),
            pids=tuple(answer["pids"]),
        )

    def usage(self) -> tuple[UsageSample, ...]:
        """The newest sample of every open slice."""
        return tuple(wire.sample_from(sample) for sample in self._call("usage")["samples"])

    def minutes(self, after_ms: int = -1) -> tuple[UsageMinute, ...]:
        """Finished minutes that start later than ``after_ms``, oldest first; the last hour."""
        answer = self._call("minutes", after_ms=after_ms)
        return tuple(wire.minute_from(minute) for minute in answer["minutes"])

    def slices(self) -> tuple[GpuSlice, ...]:
        """The open slices."""
        return tuple(wire.slice_from(saved) for saved in self._call("slices")["slices"])

    def _call(self, request: str, /, **fields: object) -> wire.Json:
        deadline_s = time.monotonic() + self._timeout_s
        try:
            with connect(self._path, timeout_s=self._timeout_s) as connection:
                connection.sendall(wire.encode({"request": request, **fields}))
                line = _line(connection, deadline_s)
            answer = wire.decode(line)
        except (OSError, errors.BadAgentRequest) as error:
            message = (
                f"The node agent at {self._path} does not answer ({error}); "
                "start it with `gpucommons up`."
            )
            raise AgentUnavailable(message) from error
        if not answer.get("ok"):
            raise _refusal(answer)
        return answer


def _line(connection: socket.socket, deadline_s: float) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left_s)
        chunk = connection.recv(_RECEIVE_BYTES)
        if not chunk or len(received) > _MAX_ANSWER_BYTES:
            raise ConnectionError("the connection ended within an answer")
        received += chunk
    return bytes(received)


def _refusal(answer: Mapping[str, Any]) -> GpuError:
    kind = _ERRORS.get(str(answer.get("error")), GpuError)
    return kind(str(answer.get("message") or "The node agent refused without a reason."))

"""How the scheduler, the local executor and the spawner talk to a node agent.

Blocking, one connection per call: every call is a few hundred microseconds on a unix socket, a
millisecond or two through the HTTP API of another machine's agent, and safe from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucommons.gpu import errors
from gpucommons.gpu.client import wire
from gpucommons.gpu.client.agent_transports import SocketTransport, Transport
from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.driver_versions import driver_version_from
from gpucommons.gpu.devices.topology import DeviceLink, links_from
from gpucommons.gpu.errors import AgentUnavailable, GpuError
from gpucommons.gpu.providers.base import Injection
from gpucommons.gpu.shim import Overlay
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.gpu.slices.usage import AuditEntry, UsageMinute, UsageSample

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
    #: Those of them that compute for nobody until they are well: lost, or in need of a reset.
    unhealthy: Mapping[DeviceId, str] = field(default_factory=dict)
    #: Isolation of the slices of each device; ``isolation`` is the weakest of them.
    isolations: Mapping[DeviceId, str] = field(default_factory=dict)
    #: Version of the GPUs' driver; "" where the agent does not tell one.
    driver: str = ""
    #: Pairs of GPUs of which it tells how near they are to each other; an older agent tells of none.
    links: tuple[DeviceLink, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A slice whose limit is in force and was read back."""

    socket: Path
    injection: Injection
    #: One of ``usage.ISOLATION_MODES``.
    isolation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What a pod is shown of its slice."""

    folder: Path
    overlays: tuple[Overlay, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldDevices:
    """Devices that the kubelet gave to a pod, by UUID."""

    namespace: str
    pod: str
    device_ids: tuple[DeviceId, ...]


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

    def __init__(self, agent: Path | str | Transport, *, timeout_s: float = 5.0) -> None:
        if isinstance(agent, (Path, str)):
            agent = SocketTransport(path=Path(agent))
        self._transport = agent
        self._timeout_s = timeout_s
        self._memory: str | None = None
        self._notice = CloudNotice()
        self._driver: str | None = None
        self._unhealthy: Mapping[DeviceId, str] | None = None

    @property
    def notice(self) -> CloudNotice:
        """What the node's cloud said of it when the agent last answered."""
        return self._notice

    @property
    def driver(self) -> str | None:
        """Version of its GPUs' driver, "" where it knows none; None until it was asked for devices, or has none."""
        return self._driver

    @property
    def unhealthy(self) -> Mapping[DeviceId, str] | None:
        """GPUs that compute for nobody, with the driver's word; None until it was asked for devices."""
        return self._unhealthy

    @property
    def memory(self) -> str | None:
        """What the agent called its memory when it last answered; another one: it lost the old."""
        return self._memory

    def memories(self) -> Mapping[Any, str]:
        """The same of the one node that this is, as of many nodes' agents."""
        return {} if self._memory is None else {"": self._memory}

    def devices(self) -> NodeReport:
        """The node and its devices."""
        answer = self._call("devices")
        devices = tuple(wire.device_from(device) for device in answer["devices"])
        driver = driver_version_from(answer.get("driver"))
        self._driver = driver if devices else None
        # An agent of an earlier release does not say which of its troubles are of that sort.
        self._unhealthy = unhealthy = answer.get("unhealthy", {})
        return NodeReport(
            node=answer["node"],
            devices=devices,
            cpu_milli=answer["cpu_milli"],
            memory_mib=answer["memory_mib"],
            isolation=answer["isolation"],
            troubles=answer["troubles"],
            unhealthy=unhealthy,
            isolations=answer.get("isolations", {}),
            driver=driver,
            links=links_from(answer.get("links")),
        )

    def open(self, gpu_slice: GpuSlice, *, used: bool = False) -> Path:
        """Begin to watch a slice; answers the path of its socket. Repeating it is harmless.

        ``used`` says that processes may run in it already. An agent that never knew of it then
        takes care not to call it empty.
        """
        return Path(self._call("open", **wire.slice_json(gpu_slice), used=used)["socket"])

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

    def admit(self, slice_id: SliceId, pod: str, device_ids: Sequence[DeviceId] = ()) -> Admission:
        """Put an open slice's limit in force for a pod (by uid); only on the agent's own machine.

        Raises ``UnknownSlice`` before the scheduler has opened it, ``LimitNotInForce`` and
        ``SliceInUse`` when the pod must not start, ``UnknownDevice`` when the slice's devices are
        those that the kubelet gave to the pod, which are to be named.
        """
        answer = self._call("admit", slice_id=slice_id, pod=pod, device_ids=list(device_ids))
        return Admission(
            folder=Path(answer["folder"]),
            overlays=tuple(
                Overlay(
                    name=one["name"], source=Path(one["source"]), writable=bool(one["writable"])
                )
                for one in answer["overlays"]
            ),
        )

    def dismiss(self, pod: str) -> bool:
        """A pod does not have its slice any more; False when it had none."""
        return bool(self._call("dismiss", pod=pod)["dismissed"])

    def tenants(self) -> Mapping[SliceId, frozenset[str]]:
        """The pods that have each open slice, by uid."""
        found = self._call("tenants")["tenants"]
        return {SliceId(one): frozenset(pods) for one, pods in found.items()}

    def held(self) -> tuple[HeldDevices, ...]:
        """What the kubelet gave to which pod; only through the HTTP API of a node of Kubernetes."""
        return tuple(
            HeldDevices(
                namespace=one["namespace"],
                pod=one["pod"],
                device_ids=tuple(map(DeviceId, one["device_ids"])),
            )
            for one in self._call("held")["held"]
        )

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory of a slice in use; raises ``CannotShrink`` when more is in use."""
        self._call("resize", slice_id=slice_id, memory_mib=memory_mib)

    def bind(self, slice_id: SliceId, pid: int) -> bool:
        """Make a process and its descendants part of the slice; False when it ended already."""
        return bool(self._call("bind", slice_id=slice_id, pid=pid)["bound"])

    def park(self, slice_id: SliceId) -> tuple[int, ...]:
        """Let nothing of a slice use its devices until it is opened again; answers who still does."""
        return tuple(self._call("park", slice_id=slice_id)["pids"])

    def close_slice(self, slice_id: SliceId) -> None:
        """Stop watching a slice; one that is not open is no error."""
        self._call("close", slice_id=slice_id)

    def reading(self, slice_id: SliceId) -> SliceReading:
        """Look at one slice now.

        Raises ``UnknownSlice`` when it is not open: that is no proof that nobody is in it. On
        Kubernetes it is answered all the same, by the pods that are shown it.
        """
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

    def audit(self, after: int = 0) -> tuple[AuditEntry, ...]:
        """What the agent did to somebody's process since entry ``after``, oldest first."""
        entries = self._call("audit", after=after)["entries"]
        return tuple(AuditEntry.from_json(entry) for entry in entries)

    def slices(self) -> tuple[GpuSlice, ...]:
        """The open slices."""
        return tuple(wire.slice_from(saved) for saved in self._call("slices")["slices"])

    def _call(self, request: str, /, **fields: object) -> wire.Json:
        line = wire.encode({"request": request, **fields})
        try:
            answer = wire.decode(self._transport.ask(line, self._timeout_s))
        except (OSError, errors.BadAgentRequest) as error:
            message = (
                f"The node agent at {self._transport.place} does not answer ({error}); "
                f"{self._transport.advice}."
            )
            raise AgentUnavailable(message) from error
        if not answer.get("ok"):
            raise _refusal(answer)
        memory = answer.get("memory")
        self._memory = memory if isinstance(memory, str) else self._memory
        self._notice = wire.notice_from(answer.get("cloud"))
        return answer


def _refusal(answer: Mapping[str, Any]) -> GpuError:
    kind = _ERRORS.get(str(answer.get("error")), GpuError)
    return kind(str(answer.get("message") or "The node agent refused without a reason."))

"""The control socket's requests: a table from name to answer.

Whoever may open the control socket owns the node; the socket's mode is the authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpucommons.gpu import shim
from gpucommons.gpu.agent.limits.audit import AuditLog
from gpucommons.gpu.agent.state.chosen_later import is_chosen_later
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.client import wire
from gpucommons.gpu.client.wire import Json
from gpucommons.gpu.clouds.notice_source import CloudNotice
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.devices.topology import DeviceLink, links_json
from gpucommons.gpu.errors import BadAgentRequest, GpuError, LimitNotInForce, UnknownDevice
from gpucommons.gpu.providers.node.shim import SHIM
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slices import GpuSlice

#: What may be asked from another machine: nothing that names a process or a pod of this one.
REMOTE_REQUESTS = frozenset({
    "devices", "open", "prepare", "park", "resize", "close", "reading", "usage", "minutes", "slices",
    "tenants", "audit",
})  # fmt: skip

_MAX_PID = (1 << 31) - 1
_MAX_MS = 1 << 53


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFacts:
    """What never changes while the agent runs."""

    name: str
    cpu_milli: int
    memory_mib: int
    #: One of ``usage.ISOLATION_MODES``: the weakest of its devices.
    isolation: str = "none"
    #: What slices of each device have.
    isolations: Mapping[DeviceId, str] = field(default_factory=dict)
    #: Version of the GPUs' driver; "" where there is none, or it does not tell.
    driver: str = ""
    #: Pairs of GPUs of which the driver tells how near they are to each other.
    links: tuple[DeviceLink, ...] = ()


def refusal(error: GpuError) -> bytes:
    """The answer to a request that was not done."""
    return wire.encode({"ok": False, "error": type(error).__name__, "message": str(error)})


class Requests:
    """Answers one request line at a time."""

    def __init__(
        self,
        watch: Watch,
        node: NodeFacts,
        folders: SliceFolders,
        audit: AuditLog | None = None,
        cloud: Callable[[], CloudNotice] | None = None,
    ) -> None:
        """``cloud`` is what the machine's cloud said of it last; None where nobody asks it."""
        self._audit = audit
        self._cloud = cloud
        self._watch = watch
        self._node = node
        self.folders = folders
        self._answers: Mapping[str, Callable[[Json, int], Json]] = {
            "devices": self._devices,
            "open": self._open,
            "prepare": self._prepare,
            "admit": self._admit,
            "dismiss": self._dismiss,
            "tenants": self._tenants,
            "resize": self._resize,
            "bind": self._bind,
            "park": self._park,
            "close": self._close,
            "reading": self._reading,
            "usage": self._usage,
            "minutes": self._minutes,
            "slices": self._slices,
            "audit": self._record,
        }

    def answer(self, line: bytes, *, now_ms: int) -> bytes:
        """Do what one line asks; a refusal is an answer too."""
        try:
            message = wire.decode(line)
            name = message.get("request")
            handler = self._answers.get(name) if isinstance(name, str) else None
            if handler is None:
                known = ", ".join(self._answers)
                raise BadAgentRequest(f'"request" must be one of: {known}.')
            done = {"ok": True, "memory": self._watch.memory}
            if self._cloud is not None:
                # With each answer: of a notice of 30 s no second is to be lost.
                done["cloud"] = wire.notice_json(self._cloud())
            return wire.encode(done | handler(message, now_ms))
        except GpuError as error:
            return refusal(error)
        except OSError as error:
            # A full disk, for example: the caller may try again, the agent goes on watching.
            return refusal(GpuError(f"The node agent could not do this: {error}."))

    def _devices(self, _message: Json, _now_ms: int) -> Json:
        return {
            "node": self._node.name,
            "devices": [wire.device_json(device) for device in self._watch.devices],
            "cpu_milli": self._node.cpu_milli,
            "memory_mib": self._node.memory_mib,
            "isolation": self._node.isolation,
            "isolations": dict(self._node.isolations),
            "driver": self._node.driver,
            "links": links_json(self._node.links),
            "troubles": dict(self._watch.troubles),
            "unhealthy": dict(self._watch.unhealthy),
        }

    def _open(self, message: Json, _now_ms: int) -> Json:
        gpu_slice = wire.slice_from(message)
        self._refuse_chosen_later(gpu_slice)
        self._watch.open(gpu_slice, used=message.get("used") is True)
        return {"socket": str(self.folders.socket_of(gpu_slice.slice_id))}

    def _prepare(self, message: Json, now_ms: int) -> Json:
        gpu_slice = wire.slice_from(message)
        self._refuse_chosen_later(gpu_slice)
        # What the limits need lies in it.
        self.folders.make(gpu_slice.slice_id)
        try:
            granted = self._watch.prepare(gpu_slice, wire.uid_from(message))
        except (GpuError, OSError) as error:
            if gpu_slice.slice_id not in {one.slice_id for one in self._watch.slices}:
                self.folders.remove(gpu_slice.slice_id)
            if isinstance(error, LimitNotInForce) and self._audit is not None:
                slice_id = gpu_slice.slice_id
                self._audit.write(now_ms, "limit-refused", str(error), slice_id=slice_id)
            raise
        return {
            "socket": str(self.folders.socket_of(gpu_slice.slice_id)),
            "isolation": granted.promised,
            **wire.injection_json(granted.injection),
        }

    def _admit(self, message: Json, now_ms: int) -> Json:
        slice_id = wire.slice_id_from(message)
        try:
            self._watch.admit(
                slice_id, wire.pod_from(message), wire.devices_from(message, "device_ids")
            )
        except LimitNotInForce as error:
            if self._audit is not None:
                self._audit.write(now_ms, "limit-refused", str(error), slice_id=slice_id)
            raise
        folder = self.folders.path(slice_id)
        return {
            "folder": str(folder),
            "overlays": [
                {
                    "name": f"{SHIM}/{overlay.name}",
                    "source": str(overlay.source),
                    "writable": overlay.writable,
                }
                for overlay in shim.overlays(folder / SHIM)
            ],
        }

    def _refuse_chosen_later(self, gpu_slice: GpuSlice) -> None:
        if not self.folders.in_pods and any(map(is_chosen_later, gpu_slice.shares)):
            raise UnknownDevice("Only a kubelet chooses devices later, and here is none.")

    def _dismiss(self, message: Json, _now_ms: int) -> Json:
        return {"dismissed": self._watch.dismiss(wire.pod_from(message))}

    def _tenants(self, _message: Json, _now_ms: int) -> Json:
        return {"tenants": {one: sorted(pods) for one, pods in self._watch.tenants().items()}}

    def _resize(self, message: Json, _now_ms: int) -> Json:
        self._watch.resize(wire.slice_id_from(message), wire.memory_mib_from(message))
        return {}

    def _park(self, message: Json, now_ms: int) -> Json:
        return {"pids": list(self._watch.park(wire.slice_id_from(message), now_ms=now_ms))}

    def _bind(self, message: Json, _now_ms: int) -> Json:
        pid = wire.integer_from(message, "pid", least=1, most=_MAX_PID)
        return {"bound": self._watch.bind(wire.slice_id_from(message), pid)}

    def _close(self, message: Json, _now_ms: int) -> Json:
        self._watch.close(wire.slice_id_from(message))
        return {}

    def _reading(self, message: Json, now_ms: int) -> Json:
        sample, pids = self._watch.reading(wire.slice_id_from(message), now_ms=now_ms)
        return {"sample": None if sample is None else wire.sample_json(sample), "pids": list(pids)}

    def _usage(self, _message: Json, _now_ms: int) -> Json:
        return {"samples": [wire.sample_json(sample) for sample in self._watch.usage()]}

    def _minutes(self, message: Json, now_ms: int) -> Json:
        after_ms = wire.integer_from(message, "after_ms", least=-1, most=_MAX_MS)
        return {
            "minutes": [
                wire.minute_json(minute) for minute in self._watch.minutes(after_ms, now_ms=now_ms)
            ]
        }

    def _record(self, message: Json, _now_ms: int) -> Json:
        after = wire.integer_from(message, "after", least=0, most=_MAX_MS)
        entries = () if self._audit is None else self._audit.after(after)
        return {"entries": [entry.as_json() for entry in entries]}

    def _slices(self, _message: Json, _now_ms: int) -> Json:
        return {"slices": [wire.slice_json(gpu_slice) for gpu_slice in self._watch.slices]}

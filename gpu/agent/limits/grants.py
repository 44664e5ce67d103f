"""Limits that the agent put in force: made, read back, put right, undone.

Every grant is on disk before its limit is made and leaves the disk after its limit is undone. An
agent that was killed in between finds it again: of a slice that is still open it is verified, of any
other it is released.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpucommons.gpu.agent.state.state_file import replace_privately
from gpucommons.gpu.client import wire
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.errors import BadAgentRequest, GpuError, LimitNotInForce
from gpucommons.gpu.providers.base import Held, Injection
from gpucommons.gpu.providers.stack import ProviderStack
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.gpu.slices.usage import ISOLATION_MODES

logger = logging.getLogger(__name__)

#: A limit that was verified is read back after so long again, and so is a process.
RECHECK_MS = 30_000
_STRAYS_NAMED = 3


@dataclass(kw_only=True, slots=True)
class Granted:
    """One slice's limits, and what is known of them."""

    held: Held
    injection: Injection
    #: What the providers promise.
    promised: str
    #: Why less is in force; empty when the promise holds.
    notice: str = ""
    verified_ms: int = 0
    #: Processes that were looked at, by pid and start, and whether the limit binds them.
    bound: dict[tuple[int, int], bool] = field(default_factory=dict)


class Grants:
    """The grants of one node."""

    def __init__(self, stack: ProviderStack, devices: Iterable[Device], path: Path) -> None:
        self._stack = stack
        self._devices: Mapping[DeviceId, Device] = {d.device_id: d for d in devices}
        self._path = path
        self._granted: dict[SliceId, Granted] = {}
        #: To be undone, again and again until it works.
        self._leaving: dict[SliceId, Held] = {}

    @property
    def stack(self) -> ProviderStack:
        """Who makes the limits."""
        return self._stack

    def remembered(self) -> tuple[Held, ...]:
        """Limits that an agent before this one put in force and did not begin to undo."""
        return tuple(held for held, leaving in self._load() if not leaving)

    def restore(self, still_open: Iterable[SliceId]) -> None:
        """Take up the grants of an agent before this one."""
        wanted = frozenset(still_open)
        for held, _ in self._load():
            if held.slice.slice_id not in wanted:
                self._leaving[held.slice.slice_id] = held
                continue
            try:
                self.grant(held.slice, held.uid, held.pod)
            except (GpuError, OSError) as error:
                # What runs goes on; its user is told that less is in force.
                logger.warning("slice %s: %s", held.slice.slice_id, error)
                self._granted[held.slice.slice_id] = Granted(
                    held=held,
                    injection=Injection(),
                    promised=self._stack.isolation_of(held),
                    notice=str(error),
                )
        self.retry()

    def grant(self, gpu_slice: GpuSlice, uid: int | None, pod: str | None = None) -> Granted:
        """Put the limits of a slice in force, and read them back.

        Raises
        ------
        LimitNotInForce
            When they are not: nothing may start on the slice.
        """
        known = self._granted.get(gpu_slice.slice_id)
        if uid is None and known is not None:
            uid = known.held.uid
        if pod is None and known is not None:
            pod = known.held.pod
        held = replace(self._held(gpu_slice, uid), pod=pod)
        # Whatever is still to be undone of an earlier slice of this name is this slice's now.
        self._leaving.pop(gpu_slice.slice_id, None)
        provisional = Granted(held=held, injection=Injection(), promised="none")
        self._granted[gpu_slice.slice_id] = known or provisional
        self._save()
        try:
            injection = self._stack.prepare(held)
        except (GpuError, OSError) as error:
            if known is None:
                self.release(gpu_slice.slice_id)
            if isinstance(error, LimitNotInForce):
                raise
            message = f"The limit of slice {gpu_slice.slice_id} cannot be set: {error}"
            raise LimitNotInForce(message) from error
        granted = Granted(held=held, injection=injection, promised=self._stack.isolation_of(held))
        self._granted[gpu_slice.slice_id] = granted
        return granted

    def attach(self, slice_id: SliceId, pid: int) -> None:
        """Put a process under the limits of its slice, if it has any.

        Raises
        ------
        LimitNotInForce
            When it cannot be.
        """
        granted = self._granted.get(slice_id)
        if granted is not None:
            self._stack.attach(granted.held, pid)

    def resize(self, slice_id: SliceId, memory_mib: int) -> None:
        """Change the memory of a slice in use.

        Raises
        ------
        CannotShrink
            When more is in use.
        """
        granted = self._granted.get(slice_id)
        if granted is None:
            return
        self._stack.resize(granted.held, memory_mib)
        changed = replace(granted.held.slice, memory_mib=memory_mib)
        granted.held = replace(granted.held, slice=changed)
        self._save()

    def release(self, slice_id: SliceId) -> None:
        """Undo the limits of a slice; what does not work now is tried again later."""
        granted = self._granted.pop(slice_id, None)
        if granted is not None:
            self._leaving[slice_id] = granted.held
            self.retry()

    def retry(self) -> None:
        """Undo what is still to be undone."""
        if not self._leaving:
            return
        for slice_id, held in list(self._leaving.items()):
            try:
                self._stack.release(held)
            except (GpuError, OSError) as error:
                logger.warning("slice %s is not undone yet: %s", slice_id, error)
            else:
                del self._leaving[slice_id]
        try:
            self._save()
        except OSError as error:
            # A disk that somebody filled: what is on it names too much, which is undone again.
            logger.warning("%s cannot be written: %s", self._path, error)

    def check(self, holders: Mapping[SliceId, Sequence[tuple[int, int]]], *, now_ms: int) -> None:
        """Read limits back that are due, and look at processes (pid, start) that hold a device."""
        for slice_id, granted in self._granted.items():
            due = now_ms - granted.verified_ms >= RECHECK_MS or now_ms < granted.verified_ms
            alive = holders.get(slice_id, ())
            # Who is bound stays so; reading the maps of all would stall the one thread we have.
            unknown = [
                one for one in alive if one not in granted.bound or (due and not granted.bound[one])
            ]
            if not due and not unknown and len(granted.bound) == len(alive):
                continue
            self._check(granted, alive, unknown, due=due)
            if due:
                granted.verified_ms = now_ms

    def _check(
        self,
        granted: Granted,
        alive: Sequence[tuple[int, int]],
        unknown: Sequence[tuple[int, int]],
        *,
        due: bool,
    ) -> None:
        strays = self._stack.strays(granted.held, [pid for pid, _ in unknown])
        granted.bound |= {one: one[0] not in strays for one in unknown}
        granted.bound = {one: bound for one, bound in granted.bound.items() if one in alive}
        before = granted.notice
        if due:
            granted.notice = ""
            try:
                self._stack.verify(granted.held)
            except GpuError as error:
                granted.notice = str(error)
        outside = sorted(pid for (pid, _), bound in granted.bound.items() if not bound)
        if outside:
            granted.notice = _outside_text(outside)
        elif before.startswith(_OUTSIDE):
            granted.notice = "" if granted.notice == before else granted.notice
        if granted.notice and granted.notice != before:
            logger.warning("slice %s: %s", granted.held.slice.slice_id, granted.notice)

    def measured(self, slice_id: SliceId, used_mib: int | None) -> None:
        """Hear what the slice's processes use by the driver's count."""
        granted = self._granted.get(slice_id)
        if granted is None or used_mib is None:
            return
        try:
            self._stack.measured(granted.held, used_mib)
        except GpuError as error:
            granted.notice = str(error)

    def isolation(self, slice_id: SliceId) -> tuple[str, str]:
        """What is in force for a slice, and why it is less than was promised."""
        granted = self._granted.get(slice_id)
        if granted is None:
            return ("watched" if self._stack.traits.watched else "none"), ""
        if not granted.notice:
            return granted.promised, ""
        fallback = "watched" if self._watches else "none"
        return max(granted.promised, fallback, key=ISOLATION_MODES.index), granted.notice

    def uid(self, slice_id: SliceId) -> int | None:
        """The account that a slice was prepared for."""
        granted = self._granted.get(slice_id)
        return None if granted is None else granted.held.uid

    @property
    def _watches(self) -> bool:
        return self._stack.traits.watched and not self._stack.traits.simulated

    def _held(self, gpu_slice: GpuSlice, uid: int | None) -> Held:
        devices = tuple(
            self._devices[share.device_id]
            for share in gpu_slice.shares
            if share.device_id in self._devices
        )
        return Held(slice=gpu_slice, devices=devices, uid=uid)

    def _save(self) -> None:
        held = [(granted.held, False) for granted in self._granted.values()]
        held += [(one, True) for one in self._leaving.values() if (one, False) not in held]
        document = {
            "version": 1,
            "grants": [
                wire.slice_json(one.slice) | {"uid": one.uid, "pod": one.pod, "leaving": leaving}
                for one, leaving in held
            ],
        }
        replace_privately(self._path, json.dumps(document))

    def _load(self) -> list[tuple[Held, bool]]:
        """What was in force, and whether it was about to be undone."""
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            return [
                (
                    replace(
                        self._held(wire.slice_from(one), wire.uid_from(one)),
                        pod=wire.pod_from(one) if one.get("pod") else None,
                    ),
                    bool(one.get("leaving")),
                )
                for one in document["grants"]
            ]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, KeyError, BadAgentRequest) as error:
            self._path.replace(self._path.with_suffix(".unreadable"))
            logger.warning("%s cannot be read (%s) and was set aside.", self._path, error)
            return []


_OUTSIDE = "Not bound by the limit"


def _outside_text(pids: Sequence[int]) -> str:
    named = ", ".join(map(str, pids[:_STRAYS_NAMED]))
    more = f" and {len(pids) - _STRAYS_NAMED} more" if len(pids) > _STRAYS_NAMED else ""
    return f"{_OUTSIDE} of this slice, only watched: process {named}{more}."

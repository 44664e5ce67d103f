"""The writing half of the fake NVML: the file that fake_nvml.c maps, edited from a test."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_DEVICES, MAX_PROCESSES, MAX_FAULTS = 16, 256, 32
MAX_LIMITS, MAX_INSTANCES, MAX_PROFILES, FIRST_INSTANCE = 64, 16, 8, 256
MAGIC = 0x6E766D6C
EVERY_DEVICE = 0xFFFFFFFF
MEMORY_UNKNOWN = 0xFFFFFFFFFFFFFFFF
COMPUTE, GRAPHICS, MPS = 0, 1, 2

# Error codes of NVML.
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, FUNCTION_NOT_FOUND = 3, 4, 15, 13
DRIVER_NOT_LOADED, UNKNOWN = 9, 999

_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64


class _Device(ctypes.Structure):
    _fields_ = [
        ("uuid", ctypes.c_char * 96), ("name", ctypes.c_char * 96),
        ("total_bytes", _U64), ("reserved_bytes", _U64),
        ("gpu_percent", _U32), ("memory_percent", _U32), ("is_mig_parent", _U32), ("unused", _U32),
    ]  # fmt: skip


class _Process(ctypes.Structure):
    _fields_ = [
        ("device", _U32), ("pid", _U32), ("kind", _U32), ("sm_percent", _U32),
        ("memory_bytes", _U64), ("sampled_us", _U64),
    ]  # fmt: skip


class _Fault(ctypes.Structure):
    _fields_ = [("function", ctypes.c_char * 64), ("code", ctypes.c_int32), ("device", _U32)]


class _Limit(ctypes.Structure):
    _fields_ = [
        ("group", ctypes.c_char * 256), ("device", _U32), ("is_set", _U32),
        ("soft_bytes", _U64), ("hard_bytes", _U64), ("used_bytes", _U64),
    ]  # fmt: skip


class _Instance(ctypes.Structure):
    _fields_ = [("parent", _U32), ("unused", _U32), ("as_device", _Device)]


class _Profile(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 32),
        ("slices", _U32),
        ("count", _U32),
        ("memory_mb", _U64),
    ]


class _State(ctypes.Structure):
    _fields_ = [
        ("magic", _U32), ("sequence", _U32), ("device_count", _U32), ("process_count", _U32),
        ("fault_count", _U32), ("unused", _U32), ("driver", ctypes.c_char * 32),
        ("devices", _Device * MAX_DEVICES), ("processes", _Process * MAX_PROCESSES),
        ("faults", _Fault * MAX_FAULTS),
        ("instance_count", _U32), ("limits_refused", _U32), ("limits", _Limit * MAX_LIMITS),
        ("instances", _Instance * MAX_INSTANCES), ("profiles", _Profile * MAX_PROFILES),
        ("call_us", _U32), ("unused_too", _U32),
        ("ancestors", _U32 * MAX_DEVICES * MAX_DEVICES), ("nvlinks", _U32 * MAX_DEVICES * MAX_DEVICES),
    ]  # fmt: skip


def in_an_hour_us() -> int:
    """A time that no reader finds old, however slow the machine."""
    return time.time_ns() // 1000 + 3_600_000_000


class FakeNvml:
    """A machine with so many equal cards, as the fake library shows it."""

    def __init__(
        self, path: Path, *, cards: int = 1, name: str = "NVIDIA A100-SXM4-40GB",
        memory_mib: int = 40960, first: int = 0,
    ) -> None:  # fmt: skip
        """``first`` numbers the first card, so that machines of a cluster show different ones."""
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(descriptor, ctypes.sizeof(_State))
        self._map = mmap.mmap(descriptor, ctypes.sizeof(_State))
        os.close(descriptor)
        self._state = _State.from_buffer(self._map)
        with self._edit() as state:
            state.magic = MAGIC
            state.driver = b"615.71.09"
            state.device_count = cards
            for index in range(cards):
                device = state.devices[index]
                device.uuid = self.uuid(first + index).encode()
                device.name = name.encode()
                device.total_bytes = memory_mib << 20
                device.reserved_bytes = 550 << 20

    @classmethod
    def there(cls, path: Path) -> FakeNvml:
        """The machine that this file shows already, to whoever looks."""
        found = cls.__new__(cls)
        found.path = path
        with path.open("r+b") as file:
            found._map = mmap.mmap(file.fileno(), ctypes.sizeof(_State))
        found._state = _State.from_buffer(found._map)
        return found

    def card_of(self, uuid: str) -> int:
        """The number of a card here."""
        cards = [self._state.devices[one].uuid.decode() for one in range(MAX_DEVICES)]
        return cards.index(uuid)

    @staticmethod
    def uuid(index: int) -> str:
        return f"GPU-00000000-0000-0000-0000-{index:012d}"

    def process(
        self, pid: int, *, device: int = 0, memory_mib: int | None = 1024, sm: int | None = None,
        kind: int = COMPUTE, sampled_us: int | None = None,
    ) -> None:  # fmt: skip
        """Show a process on a card; ``sm`` None = no utilisation sample, else one that stays news."""
        newest_us = in_an_hour_us() if sampled_us is None else sampled_us
        with self._edit() as state:
            entry = state.processes[state.process_count]
            entry.device, entry.pid, entry.kind = device, pid, kind
            entry.memory_bytes = MEMORY_UNKNOWN if memory_mib is None else memory_mib << 20
            entry.sm_percent = sm or 0
            entry.sampled_us = 0 if sm is None else newest_us
            state.process_count += 1

    def no_processes(self) -> None:
        with self._edit() as state:
            state.process_count = 0

    def card(self, index: int = 0, **fields: int) -> None:
        """Set fields of one card, for example ``gpu_percent=42``."""
        with self._edit() as state:
            for field, value in fields.items():
                setattr(state.devices[index], field, value)

    def fault(self, function: str, code: int, *, device: int = EVERY_DEVICE) -> None:
        """Let a call fail from now on."""
        with self._edit() as state:
            entry = state.faults[state.fault_count]
            entry.function, entry.code, entry.device = function.encode(), code, device
            state.fault_count += 1

    def healthy(self) -> None:
        with self._edit() as state:
            state.fault_count = 0

    def driver(self, version: str) -> None:
        with self._edit() as state:
            state.driver = version.encode()

    def link(
        self, one: int, other: int, *, ancestor: int | None = None, nvlink: int | None = None
    ) -> None:
        """What the driver says of two cards: a level of NVML, and a status of NVLink; None = no answer."""
        with self._edit() as state:
            for first, second in ((one, other), (other, one)):
                state.ancestors[first][second] = 0 if ancestor is None else ancestor + 1
                state.nvlinks[first][second] = 0 if nvlink is None else nvlink + 1

    def slow_down(self, call_ms: int) -> None:
        """Let every call take so long."""
        with self._edit() as state:
            state.call_us = call_ms * 1000

    def refuse_limits(self, code: int) -> None:
        """Answer every new limit with an error; 0 = take them again."""
        with self._edit() as state:
            state.limits_refused = code

    def limits(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Soft and hard limit in MiB, by group and card."""
        return {
            (limit.group.decode(), limit.device): (limit.soft_bytes >> 20, limit.hard_bytes >> 20)
            for limit in self._state.limits
            if limit.is_set
        }

    def edit_limit(self, group: str, **fields: int) -> None:
        """Set fields of a limit that exists, for example ``used_bytes=1 << 30``."""
        for limit in self._state.limits:
            if limit.is_set and limit.group.decode() == group:
                for field, value in fields.items():
                    setattr(limit, field, value)
                return
        raise LookupError(group)

    def can_be_cut(self, *profiles: tuple[str, int, int, int]) -> None:
        """Sizes of instances: name, compute slices, how many fit, MiB."""
        with self._edit() as state:
            for entry, (name, slices, count, memory_mb) in zip(
                state.profiles, profiles, strict=False
            ):
                entry.name, entry.slices = name.encode(), slices
                entry.count, entry.memory_mb = count, memory_mb

    def cut(self, *sizes: tuple[str, int], card: int = 0) -> None:
        """Put a card into MIG mode and cut it: profile and MiB of each instance."""
        with self._edit() as state:
            state.devices[card].is_mig_parent = 1
            for profile, memory_mib in sizes:
                entry = state.instances[state.instance_count]
                entry.parent = card
                entry.as_device.uuid = self.instance_uuid(state.instance_count).encode()
                entry.as_device.name = state.devices[card].name + b" MIG " + profile.encode()
                entry.as_device.total_bytes = memory_mib << 20
                state.instance_count += 1

    @staticmethod
    def instance_uuid(index: int) -> str:
        return f"MIG-00000000-0000-0000-0000-{index:012d}"

    @contextmanager
    def _edit(self) -> Iterator[_State]:
        self._state.sequence += 1
        try:
            yield self._state
        finally:
            self._state.sequence += 1

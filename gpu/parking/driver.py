"""The driver's calls that park a process, as cuda.h of CUDA 13.2 declares them.

They came with driver r570. The structures have 64 bytes for ever: what newer drivers read further
back is zero here, which means what it meant before.
"""

from __future__ import annotations

import ctypes
import uuid
from enum import IntEnum
from pathlib import Path
from typing import Any

#: The first that has them.
FIRST_BRANCH = 570
_ARGUMENT_BYTES = 64
_CALLS = ("GetState", "Lock", "Checkpoint", "Restore", "Unlock")


class State(IntEnum):
    """What the driver says of a process (CUprocessState)."""

    RUNNING = 0
    #: Its calls wait.
    LOCKED = 1
    #: Its memory is on the host, and it holds no GPU.
    CHECKPOINTED = 2
    #: It cannot be used any more.
    FAILED = 3
    #: Newer drivers, while they are at it.
    CHECKPOINTING = 4
    RESTORING = 5


class Code(IntEnum):
    """Results (CUresult) that are known to come."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    STUB_LIBRARY = 34
    NO_DEVICE = 100
    OPERATING_SYSTEM = 304
    ILLEGAL_STATE = 401
    NOT_READY = 600
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    SYSTEM_NOT_READY = 802


class DriverRefused(Exception):
    """A call of the driver gave something else than success."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {code}")
        self.call, self.code = call, code


class CannotPark(Exception):
    """It is not begun, with a sentence that says why."""


class _LockArguments(ctypes.Structure):
    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved", ctypes.c_char * (_ARGUMENT_BYTES - ctypes.sizeof(ctypes.c_uint))),
    )


class Driver:
    """The driver, in this process."""

    def __init__(self, library: Path) -> None:
        """Load it and start it: a restore wants that, or the persistence mode.

        Raises
        ------
        CannotPark
            When there is none, or it is too old.
        DriverRefused
            When it does not start.
        """
        try:
            self._library: Any = ctypes.CDLL(str(library))
        except OSError as error:
            message = "NVIDIA's driver cannot be loaded here."
            raise CannotPark(message) from error
        if not all(hasattr(self._library, f"cuCheckpointProcess{name}") for name in _CALLS):
            message = f"This driver cannot; NVIDIA's driver {FIRST_BRANCH} or newer can."
            raise CannotPark(message)
        _check("init", self._library.cuInit(0))

    def state(self, pid: int) -> State:
        """Raises ``DriverRefused`` where it knows nothing of the process."""
        found = ctypes.c_int()
        _check("state", self._library.cuCheckpointProcessGetState(pid, ctypes.byref(found)))
        return State(found.value)

    def lock(self, pid: int, timeout_ms: int) -> None:
        """Its calls wait from here on; first what it has submitted ends."""
        arguments = _LockArguments(timeout_ms=timeout_ms)
        _check("lock", self._library.cuCheckpointProcessLock(pid, ctypes.byref(arguments)))

    def checkpoint(self, pid: int) -> None:
        """Its memory goes to the host."""
        _check("checkpoint", self._library.cuCheckpointProcessCheckpoint(pid, None))

    def restore(self, pid: int) -> None:
        """Its memory goes back to the devices that it came from."""
        _check("restore", self._library.cuCheckpointProcessRestore(pid, None))

    def unlock(self, pid: int) -> None:
        """Its calls go on."""
        _check("unlock", self._library.cuCheckpointProcessUnlock(pid, None))

    def held_bytes_at_most(self) -> int:
        """What is in use on the cards that can be seen here: no process holds more.

        A card that does not let us look, as it is full or another's alone, counts as a whole.
        """
        count = ctypes.c_int()
        _check("count", self._library.cuDeviceGetCount(ctypes.byref(count)))
        return sum(self._used_bytes(number) for number in range(count.value))

    def gpus(self) -> tuple[str, ...]:
        """The GPUs that can be seen here, by the names that never change."""
        count = ctypes.c_int()
        _check("count", self._library.cuDeviceGetCount(ctypes.byref(count)))
        found = []
        for number in range(count.value):
            card, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()
            _check("card", self._library.cuDeviceGet(ctypes.byref(card), number))
            _check("name", self._library.cuDeviceGetUuid_v2(ctypes.byref(name), card))
            found.append(f"GPU-{uuid.UUID(bytes=bytes(name))}")
        return tuple(found)

    def _used_bytes(self, number: int) -> int:
        card, context = ctypes.c_int(), ctypes.c_void_p()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _check("card", self._library.cuDeviceGet(ctypes.byref(card), number))
        _check("size", self._library.cuDeviceTotalMem_v2(ctypes.byref(total), card))
        if self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), card) == Code.SUCCESS:
            both = ctypes.byref(free), ctypes.byref(total)
            if self._library.cuCtxSetCurrent(context) or self._library.cuMemGetInfo_v2(*both):
                free.value = 0
            self._library.cuDevicePrimaryCtxRelease_v2(card)
        return max(0, int(total.value) - int(free.value))


def _check(call: str, code: int) -> None:
    if code != Code.SUCCESS:
        raise DriverRefused(call, code)

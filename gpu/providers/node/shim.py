"""Our interposer: a library in each process that keeps the slice's account and refuses more.

It binds programs that load CUDA the ordinary way. Who goes out of their way (another path to the
driver, a static program, an emptied environment) is not bound, so the mode is called cooperative,
every process that uses the card is checked for it, and the watchdog sees who goes around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpucommons.gpu import shim
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.errors import CannotShrink, LimitNotInForce, ShimUnavailable
from gpucommons.gpu.providers.base import Capability, Grant, Held, Injection, NodeTraits
from gpucommons.gpu.slices.memory_of_share import fraction_mib
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slices import SliceId

#: Of a slice's folder, the part that holds the libraries, the limit and the ledger.
SHIM = "shim"

_BYTES_PER_MIB = 1 << 20
#: What a CUDA context and its modules take, before one was measured: the library does not see it.
CONTEXT_MIB = 512
#: Steps of the correction: programs dislike a limit that moves all the time.
_STEP_MIB = 64


class ShimProvider:
    """A fraction of a card, held by a library in each process."""

    name = "shim"

    def __init__(self, folders: SliceFolders, *, own_uid: int) -> None:
        self._folders = folders
        self._own_uid = own_uid
        #: What each slice's processes use beside what they allocate.
        self._overhead_mib: dict[SliceId, int] = {}

    def probe(self, traits: NodeTraits) -> Capability:
        """Works with any driver, where the library is built."""
        if traits.simulated:
            return Capability(usable=False, reason="Simulated devices have no driver.")
        if not traits.shim:
            return Capability(usable=False, reason=traits.shim_reason)
        return Capability(usable=True, reason="A library in each process keeps the slice's memory.")

    def quantize(self, device: Device, milli_gpu: int, traits: NodeTraits) -> Grant | None:
        """Any fraction that can hold a CUDA context.

        Raises
        ------
        SliceTooSmall
            When the share's memory is below the least that is useful.
        """
        memory_mib = fraction_mib(device, milli_gpu)
        if memory_mib is None:
            return None
        return Grant(
            provider=self.name, milli_gpu=milli_gpu, memory_mib=memory_mib, isolation="cooperative"
        )

    def prepare(self, held: Held, traits: NodeTraits) -> Injection:
        """Lay out the slice's folder: libraries, limit, ledger.

        Raises
        ------
        LimitNotInForce
            When it cannot be laid out.
        """
        if not _binds(held):
            return Injection()
        ((device_id, _),) = held.fractions
        folder = self._folder(held)
        try:
            self._folders.make(held.slice.slice_id)
            if self._owner(held) not in (None, self._own_uid):
                folder.parent.chmod(0o711)
            shim.prepare(
                folder,
                limit_bytes=self._allocatable_bytes(held),
                device_uuid=device_id,
                owner_uid=self._owner(held),
                total_bytes=held.slice.memory_mib * _BYTES_PER_MIB,
            )
        except (OSError, ValueError, ShimUnavailable) as error:
            message = f"The interposer of slice {held.slice.slice_id} cannot be set up: {error}"
            raise LimitNotInForce(message) from error
        return Injection(prepend={"LD_LIBRARY_PATH": str(folder)})

    def verify(self, held: Held) -> None:
        """Read the limit and the ledger back.

        Raises
        ------
        LimitNotInForce
            When one is missing or says something else.
        """
        if not _binds(held):
            return
        folder = self._folder(held)
        limit, wanted = shim.read_limit(folder), self._allocatable_bytes(held)
        if limit != wanted:
            message = (
                f"The limit of slice {held.slice.slice_id} reads "
                f"{'nothing' if limit is None else f'{limit} bytes'}, not {wanted} bytes."
            )
            raise LimitNotInForce(message)
        if shim.read_ledger(folder) is None:
            message = (
                f"The ledger of slice {held.slice.slice_id} was truncated, edited or removed by "
                "its user: its memory is only watched. Restart the notebook or job to mend it."
            )
            raise LimitNotInForce(message)

    def attach(self, held: Held, pid: int) -> None:
        """A process binds itself when it loads CUDA."""

    def strays(self, held: Held, pids: Sequence[int]) -> frozenset[int]:
        """Processes that use the driver without the interposer.

        Those asked for hold the device, so one in which no driver is to be seen has it under
        another name.
        """
        if not _binds(held):
            return frozenset()
        folder = self._folder(held)
        return frozenset(pid for pid in pids if _is_stray(folder, pid))

    def resize(self, held: Held, memory_mib: int) -> None:
        """Another limit, in force at the next allocation.

        Raises
        ------
        CannotShrink
            When the ledger shows more in use.
        LimitNotInForce
            When the limit cannot be written.
        """
        if not _binds(held):
            return
        overhead_mib = self._overhead_mib.get(held.slice.slice_id, 0)
        used_mib = (_ledger_mib(self._folder(held)) or 0) + overhead_mib
        if memory_mib < used_mib:
            raise CannotShrink(used_mib=used_mib, wanted_mib=memory_mib)
        self._write(replace(held, slice=replace(held.slice, memory_mib=memory_mib)))

    def measured(self, held: Held, used_mib: int) -> None:
        """Leave room in the limit for what the driver counts and the ledger does not."""
        if not _binds(held) or not used_mib:
            return
        ledger_mib = _ledger_mib(self._folder(held))
        if ledger_mib is None:
            return
        steps = -(-max(0, used_mib - ledger_mib) // _STEP_MIB)
        most_mib = held.slice.memory_mib - CONTEXT_MIB
        overhead_mib = min(steps * _STEP_MIB, most_mib)
        if overhead_mib != self._overhead_mib.get(held.slice.slice_id, CONTEXT_MIB):
            self._overhead_mib[held.slice.slice_id] = overhead_mib
            self._write(held)

    def release(self, held: Held) -> None:
        """Remove the folder."""
        self._overhead_mib.pop(held.slice.slice_id, None)
        shim.release(self._folder(held))

    def _owner(self, held: Held) -> int | None:
        if self._folders.in_pods:
            # A pod is shown its folder whatever account it has.
            return None
        return self._own_uid if held.uid is None else held.uid

    def _allocatable_bytes(self, held: Held) -> int:
        overhead_mib = self._overhead_mib.get(held.slice.slice_id, CONTEXT_MIB)
        return (held.slice.memory_mib - overhead_mib) * _BYTES_PER_MIB

    def _write(self, held: Held) -> None:
        try:
            shim.resize(
                self._folder(held),
                self._allocatable_bytes(held),
                # Programs size themselves by it at start: it must not follow each correction.
                total_bytes=held.slice.memory_mib * _BYTES_PER_MIB,
            )
        except OSError as error:
            message = f"The limit of slice {held.slice.slice_id} cannot be written: {error}."
            raise LimitNotInForce(message) from error

    def _folder(self, held: Held) -> Path:
        return self._folders.path(held.slice.slice_id) / SHIM


def _binds(held: Held) -> bool:
    """One limit file speaks of one card."""
    return len(held.fractions) == 1


def _is_stray(folder: Path, pid: int) -> bool:
    found = shim.shimmed(folder, pid)
    # One that ended meanwhile is none.
    return not found if found is not None else Path(f"/proc/{pid}").exists()


def _ledger_mib(folder: Path) -> int | None:
    ledger = shim.read_ledger(folder)
    return None if ledger is None else -(-ledger.used_bytes // _BYTES_PER_MIB)

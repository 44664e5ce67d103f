"""The table of open slices: on disk before anybody hears of a change, found again after a restart.

Where the file is gone (a folder wiped, a node made anew) processes may run in slices of which
nothing is known any more. Then other records speak: the limits that are in force name their slices,
the kernel's table of mounts names the pods that are shown one, and whoever opens a slice says whether
it was used before. What none of them knows is never taken for empty.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpucommons.gpu.agent.state.chosen_later import are_same, is_chosen_later
from gpucommons.gpu.agent.state.state_file import SavedSlice, StateFile
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.errors import SliceInUse, UnknownDevice, UnknownSlice
from gpucommons.gpu.providers.base import Held
from gpucommons.gpu.slices import idle_signals
from gpucommons.gpu.slices.slice_processes import Roots, SliceProcesses
from gpucommons.gpu.slices.slices import GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample

logger = logging.getLogger(__name__)

#: Samples kept per slice: ten minutes at one a second.
RING_SAMPLES = 600
#: Looks are written down once a minute: after a restart what is older was not seen.
_WRITE_AFTER_MS = 60_000


@dataclass(kw_only=True, slots=True)
class OpenSlice:
    """One open slice and what was seen of it."""

    slice: GpuSlice
    #: Its devices are chosen anew for every pod.
    later: bool = False
    #: It was used before this agent knew of it: some of its processes may not be known.
    unsure: bool = False
    #: Nothing of it may use its devices: its memory is on the host, and they are others'.
    parked: bool = False
    #: Encoded samples: they are only ever sent.
    ring: deque[bytes] = field(default_factory=lambda: deque(maxlen=RING_SAMPLES))
    activity: idle_signals.Activity = field(default_factory=idle_signals.Activity)
    newest: UsageSample | None = None

    def observe(self, sample: UsageSample) -> int | None:
        """Take a sample into account; returns when the slice was last active."""
        self.activity = idle_signals.observe(self.activity, sample)
        return self.activity.active_ms

    @property
    def in_use(self) -> GpuSlice:
        """The slice with what it may use now."""
        return replace(self.slice, shares=()) if self.parked else self.slice


class OpenSlices:
    """The slices of one node.

    Parameters
    ----------
    shown
        The pods (by uid) that the kernel shows a slice to; None where slices are not in pods.
    """

    def __init__(
        self,
        processes: SliceProcesses,
        state_file: StateFile,
        devices: Mapping[DeviceId, Device],
        shown: Callable[[SliceId], frozenset[str]] | None = None,
    ) -> None:
        self._processes = processes
        self._state_file = state_file
        self._devices = devices
        self._shown = shown
        self._open: dict[SliceId, OpenSlice] = {}
        #: The activity and the looks that are on disk.
        self._written_ms: dict[SliceId, tuple[int, int]] = {}

    def __iter__(self) -> Iterator[OpenSlice]:
        return iter(self._open.values())

    def __contains__(self, slice_id: object) -> bool:
        return slice_id in self._open

    @property
    def memory(self) -> str:
        """Another one means that everything known before was lost."""
        return self._state_file.memory

    @property
    def ids(self) -> Iterable[SliceId]:
        """Of all that are open."""
        return self._open.keys()

    def known(self, slice_id: SliceId) -> OpenSlice:
        """One that is open.

        Raises
        ------
        UnknownSlice
            When it is not.
        """
        try:
            return self._open[slice_id]
        except KeyError:
            message = f"The node agent knows no slice {slice_id}: open it first."
            raise UnknownSlice(message) from None

    def restore(self, limited: Callable[[], Iterable[Held]], *, now_ms: int) -> None:
        """Know again what was open before a restart; where that was lost, what has a limit."""
        for saved in self._state_file.load():
            self._take_up(saved, now_ms=now_ms)
        if not self._state_file.is_new:
            return
        for held in limited():
            pods = self.shown_to(held.slice.slice_id)
            roots = Roots(uids=set() if held.uid is None else {held.uid}, pods=set(pods or ()))
            saved = SavedSlice(slice=held.slice, roots=roots, unsure=pods is None)
            self._take_up(saved, now_ms=now_ms)
        try:
            self.save()
        except OSError as error:
            logger.warning("the open slices cannot be written down: %s", error)

    def open(self, gpu_slice: GpuSlice, *, used: bool = False) -> None:
        """Begin to watch a slice; the same one again changes nothing.

        Raises
        ------
        SliceInUse, UnknownDevice, OSError
            When it cannot be opened; then it is not.
        """
        later = any(map(is_chosen_later, gpu_slice.shares))
        known = self._open.get(gpu_slice.slice_id)
        if known is not None:
            # The memory may have been changed since: that is no other slice.
            if not are_same(known.slice.shares, gpu_slice.shares):
                message = (
                    f"Slice {gpu_slice.slice_id} is open with other shares: close it first, "
                    "or choose another name."
                )
                raise SliceInUse(message)
            known.later = known.later or later
            if known.parked:
                known.parked = False
                self.save()
            return
        for share in gpu_slice.shares:
            if share.device_id not in self._devices and not is_chosen_later(share):
                here = ", ".join(self._devices) or "none"
                message = f"There is no device {share.device_id} on this node; it has: {here}."
                raise UnknownDevice(message)
        pods = self.shown_to(gpu_slice.slice_id)
        unsure = used and pods is None
        self._open[gpu_slice.slice_id] = OpenSlice(slice=gpu_slice, later=later, unsure=unsure)
        self._processes.open(gpu_slice.slice_id, Roots(pods=set(pods or ())))
        try:
            self.save()
        except OSError:
            # What a restart would not know is not open.
            del self._open[gpu_slice.slice_id]
            self._processes.close(gpu_slice.slice_id)
            raise
        if pods or unsure:
            logger.warning("slice %s was used before this agent knew of it", gpu_slice.slice_id)

    def drop(self, slice_id: SliceId) -> bool:
        """Forget a slice, not yet on disk; False when it is not open."""
        if self._open.pop(slice_id, None) is None:
            return False
        self._processes.close(slice_id)
        return True

    def shown_to(self, slice_id: SliceId) -> frozenset[str] | None:
        """The pods that the kernel shows a slice to; None where slices are not in pods."""
        return None if self._shown is None else self._shown(slice_id)

    def tenants(self) -> Mapping[SliceId, frozenset[str]]:
        """The pods that have a slice."""
        return {one: frozenset(self._processes.roots(one).pods) for one in self._open}

    def save(self) -> None:
        """Write down what is open."""
        self._state_file.save(
            [
                SavedSlice(
                    slice=held.slice,
                    roots=self._processes.roots(slice_id),
                    later=held.later,
                    unsure=held.unsure,
                    parked=held.parked,
                    activity=held.activity,
                )
                for slice_id, held in self._open.items()
            ]
        )
        self._written_ms = self._seen_ms()

    def save_activity(self) -> None:
        """Write down what was seen of the slices, a minute or more after the last time, and use after a quiet minute at once."""
        seen_ms = self._seen_ms()
        if all(
            abs(at - written) < _WRITE_AFTER_MS
            for one, times in seen_ms.items()
            for at, written in zip(times, self._written_ms.get(one, (0, 0)), strict=True)
        ):
            return
        try:
            self.save()
        except OSError as error:
            # No reason to stop watching; it is tried again a minute later.
            self._written_ms = seen_ms
            logger.warning("when slices were last used cannot be written down: %s", error)

    def _seen_ms(self) -> dict[SliceId, tuple[int, int]]:
        return {
            slice_id: (held.activity.active_ms or 0, held.activity.seen_ms or 0)
            for slice_id, held in self._open.items()
        }

    def _take_up(self, saved: SavedSlice, *, now_ms: int) -> None:
        # Where it is not known when it was last used, that is not idle.
        unseen = idle_signals.Activity(active_ms=now_ms)
        slice_id = saved.slice.slice_id
        self._open[slice_id] = OpenSlice(
            slice=saved.slice,
            later=saved.later,
            unsure=saved.unsure,
            parked=saved.parked,
            activity=saved.activity or unseen,
        )
        self._processes.open(slice_id, saved.roots)

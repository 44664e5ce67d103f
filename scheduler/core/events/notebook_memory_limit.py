"""A notebook's memory limit, changed by an admin while it is in use.

Less than its share is less for that notebook alone: nobody is given the rest. More is taken from what
nobody holds of the same device and no other team's fixed quota lies on, and held with the slice until
it ends, so that no later slice is promised the same memory.
"""

from __future__ import annotations

from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.memory_of_share import MIN_SLICE_MIB, share_memory_mib
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.holds import FULL, block_mask, mask_of, slice_memory_mib
from gpucommons.scheduler.core.model.intents import ResizeSlice
from gpucommons.scheduler.core.model.lifecycle import with_attempt
from gpucommons.scheduler.core.model.state_words import state_words
from gpucommons.scheduler.core.model.types import AttemptState, WorkerPlacement, Workload
from gpucommons.scheduler.errors import Conflict, InvalidTransition, Misconfigured

_MIB_PER_GIB = 1024


def resize(cycle: CycleState, lease: Workload, action: ResizeSlice, by: str) -> None:
    """Change the limit of a slice, or refuse with what is possible.

    Raises InvalidTransition where it holds no slice or is being stopped, Misconfigured where it holds whole
    devices or nothing useful would be left, and Conflict where the device has no more to give.
    """
    attempt = lease.current
    if attempt is None or attempt.stop is not None or attempt.state is AttemptState.STOPPING:
        message = f"{lease.spec.owner}'s notebook holds no GPU that could be resized: it is {state_words(lease.state)}."
        raise InvalidTransition(message)
    placement = attempt.placements[0]
    cycle.refresh()
    node = cycle.capacity.nodes.get(placement.node_id)
    if node is None or any(one not in node.devices for one in placement.device_ids):
        message = "The node of this slice is not here: its memory cannot be changed now."
        raise InvalidTransition(message)
    if len(placement.device_ids) != 1 or placement.milli_gpu >= WHOLE_MILLI_GPU:
        message = "Only a share of one GPU has a memory limit; a whole GPU has all of its memory."
        raise Misconfigured(message)
    capacity = node.devices[placement.device_ids[0]]
    changed = _resized(cycle, lease, _Slice(placement, node, capacity), action.memory_mib)
    if changed == placement:
        return
    before_mib = slice_memory_mib(placement, (capacity.device,))
    cycle.put(with_attempt(lease, replace(attempt, placements=(changed,))))
    cycle.tell(
        "slice-resized",
        f"{lease.spec.owner}'s GPU memory: {_gib(before_mib)} → {_gib(action.memory_mib)} GiB.",
        lease,
        by=by,
        data={"old_mib": before_mib, "new_mib": action.memory_mib},
    )


class _Slice:
    """A slice with the place where it lies."""

    def __init__(
        self, placement: WorkerPlacement, node: NodeCapacity, capacity: DeviceCapacity
    ) -> None:
        self.placement = placement
        self.node = node
        self.capacity = capacity
        self.share_mib = share_memory_mib(capacity.device, placement.milli_gpu)


def _resized(cycle: CycleState, lease: Workload, held: _Slice, memory_mib: int) -> WorkerPlacement:
    plain = replace(held.placement, limit_mib=None, extra_offset=0, extra_milli=0)
    if memory_mib < MIN_SLICE_MIB:
        message = (
            f"{_gib(memory_mib)} GiB cannot hold a CUDA context and any work:"
            f" at least {_gib(MIN_SLICE_MIB)} GiB."
        )
        raise Misconfigured(message)
    if memory_mib <= held.share_mib:
        return plain if memory_mib == held.share_mib else replace(plain, limit_mib=memory_mib)
    free = _free(cycle, lease, held)
    wanted = _extra_milli(held, memory_mib)
    for offset in range(WHOLE_MILLI_GPU - wanted + 1):
        bits = ((1 << wanted) - 1) << offset
        if free & bits == bits:
            return replace(plain, limit_mib=memory_mib, extra_offset=offset, extra_milli=wanted)
    most = share_memory_mib(
        held.capacity.device, min(WHOLE_MILLI_GPU, held.placement.milli_gpu + _longest_run(free))
    )
    message = (
        f"The GPU cannot give this slice {_gib(memory_mib)} GiB: with what nobody holds there and no"
        f" other team's fixed quota needs it can have at most {_gib(most)} GiB."
    )
    raise Conflict(message)


def _extra_milli(held: _Slice, memory_mib: int) -> int:
    """Milli-GPU beyond its share whose memory is at least what is asked beyond it."""
    milli, device = held.placement.milli_gpu, held.capacity.device
    usable_mib = max(1, device.memory_mib - device.reserve_mib)
    wanted = -(-memory_mib * WHOLE_MILLI_GPU // usable_mib) - milli
    return max(1, wanted)


def _free(cycle: CycleState, lease: Workload, held: _Slice) -> int:
    """Bits that the slice may have beside its own share."""
    capacity, device_id = held.capacity, held.capacity.device.device_id
    own = mask_of(replace(held.placement, extra_milli=0))
    taken = capacity.held & ~mask_of(held.placement) | own | capacity.promised | capacity.reserved
    for block in cycle.blocks:
        if device_id in block.device_ids and block.team != lease.spec.team:
            taken |= block_mask(block.offset, block.milli_gpu)
    return FULL & ~taken


def _longest_run(bits: int) -> int:
    length = 0
    while bits:
        bits &= bits << 1
        length += 1
    return length


def _gib(mib: int) -> str:
    return f"{mib / _MIB_PER_GIB:.1f}"

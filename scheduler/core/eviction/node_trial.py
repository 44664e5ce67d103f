"""One node in a search for victims: what it could give if some of the candidates on it went.

Nothing is tried out: what is held or promised belongs to one worker each, so taking candidates away is
arithmetic on bits. Candidates are numbered, sets of them are masks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.node_capacity import DeviceCapacity, NodeCapacity
from gpucommons.scheduler.core.capacity.placement_slots import bits_of, shares_in, starts, suits
from gpucommons.scheduler.core.eviction.host_resources import FreedHostResources
from gpucommons.scheduler.core.eviction.option import Allowed, Option, Rank, Used
from gpucommons.scheduler.core.eviction.victim_order import rank, sparing_order
from gpucommons.scheduler.core.model.demand import Worker, is_block_size, place_of
from gpucommons.scheduler.core.model.holds import FULL, HoldKey, Load, mask_of, span
from gpucommons.scheduler.core.model.types import HoldClass, WorkerPlacement
from gpucommons.scheduler.core.placement.eviction_plan import EvictionCandidate

_NOTHING: Mapping[int, tuple[int, int]] = {}
#: So many choices of devices are compared one by one: all of them on nodes of eight devices.
_MOST_CHOICES = 128


class NodeEvictionTrial:
    """A node, and what each candidate on it would give back to work of one class."""

    def __init__(
        self,
        capacity: Capacity,
        node: NodeCapacity,
        here: Sequence[tuple[HoldKey | None, EvictionCandidate]],
        hold_class: HoldClass,
    ) -> None:
        self.node = node
        self.hold_class = hold_class
        self.here = here
        #: Candidates by their numbers.
        self.parts: list[EvictionCandidate] = []
        self._capacity = capacity
        self._freed: FreedHostResources | None = None
        #: What lies on each device: bits held and bits promised, by candidate.
        self._there: dict[DeviceId, dict[int, tuple[int, int]]] = {}
        numbers: dict[int, int] = {}
        for key, candidate in here:
            number = numbers.setdefault(id(candidate), len(numbers))
            if number == len(self.parts):
                self.parts.append(candidate)
            if key is None:
                self._add_promise(number, candidate)
            else:
                self._add_hold(number, candidate, node.holds[key].placement)
        self.everything = (1 << len(self.parts)) - 1
        self._now = node.free(hold_class)
        #: What is free with these candidates gone.
        self._loads: dict[int, Load] = {0: self._now}
        #: By kind of GPU: devices that could be cleared, and who lies there.
        self._clearable: dict[str | None, list[tuple[DeviceId, int]]] = {}
        self._whole_costs: list[int] | None = None

    def _add_hold(self, number: int, candidate: EvictionCandidate, one: WorkerPlacement) -> None:
        promise = None if candidate.whole else self._capacity.promises.get(candidate.workload_id)
        # A job that shrinks was promised what it keeps; taken as well, that is its own no more.
        kept = promise is not None and place_of(one) in map(place_of, promise.placements)
        bits = mask_of(one)
        self._add(number, one.device_ids, bits, bits if kept else 0)

    def _add_promise(self, number: int, candidate: EvictionCandidate) -> None:
        promise = self._capacity.promises.get(candidate.workload_id)
        for one in () if promise is None else promise.placements:
            if one.node_id == self.node.node.node_id:
                self._add(number, one.device_ids, 0, mask_of(one))

    def _add(self, number: int, device_ids: Iterable[DeviceId], held: int, promised: int) -> None:
        for device_id in device_ids:
            there = self._there.setdefault(device_id, {})
            before = there.get(number, (0, 0))
            there[number] = (before[0] | held, before[1] | promised)

    # --- what is free once some are gone -----------------------------------------------------

    def mask_of(self, candidates: Collection[EvictionCandidate]) -> int:
        """Those of the candidates that lie here, as a mask."""
        mask = 0
        for number, candidate in enumerate(self.parts):
            if candidate in candidates:
                mask |= 1 << number
        return mask

    def candidates(self, mask: int) -> tuple[EvictionCandidate, ...]:
        """Candidates of a mask."""
        return tuple(self.parts[number] for number in bits_of(mask))

    def free(self, device: DeviceCapacity, gone: int) -> int:
        """Bits of a device that the class may use once these candidates are gone."""
        held = promised = 0
        for number, (holds, promises) in self._there.get(device.device.device_id, _NOTHING).items():
            if gone >> number & 1:
                held |= holds
                promised |= promises
        return FULL & ~device.blocked(self.hold_class, held, promised)

    def load(self, gone: int) -> Load:
        """Processor and memory that the class may use once these candidates are gone."""
        if gone not in self._loads:
            self._loads[gone] = self._load(gone)
        return self._loads[gone]

    def _load(self, gone: int) -> Load:
        given, firm = self._given(gone)
        if self.hold_class is HoldClass.GUARANTEED:
            now = self.node.free(HoldClass.FIXED).plus(given)
            return now.lower(self.node.free_for_guaranteed().plus(firm))
        return self._now.plus(given)

    def _bears(self, gone: int, need: Load) -> bool:
        """Processor and memory suffice once these candidates are gone."""
        return self._now.at_least(need) or (gone != 0 and self.load(gone).at_least(need))

    def _given(self, gone: int) -> tuple[Load, Load]:
        if self._freed is None:
            self._freed = FreedHostResources(self._capacity, self.node, self.here)
        return self._freed.given(bits_of(gone))

    def cleared(self, gone: int) -> NodeCapacity:
        """Return a copy of the node without these candidates, to place work on."""
        node = self.node.fork()
        for device_id, there in self._there.items():
            for number, (held, promised) in there.items():
                if gone >> number & 1:
                    node.devices[device_id].held &= ~held
                    node.devices[device_id].promised &= ~promised
        given, firm = self._given(gone)
        node.held, node.firm = node.held.minus(given), node.firm.minus(firm)
        return node

    def _could_be_cleared(self, worker: Worker) -> list[tuple[DeviceId, int]]:
        """Devices that would be wholly free if all candidates went, each with those that lie there."""
        found = self._clearable.get(worker.gpu_kind)
        if found is None:
            found = self._clearable[worker.gpu_kind] = [
                (device_id, self._lying(device_id, FULL))
                for device_id, device in self.node.devices.items()
                if suits(device, worker) and self.free(device, self.everything) == FULL
            ]
        return found

    def whole_free(self, worker: Worker, gone: int) -> list[DeviceId]:
        """Devices that are wholly free once these candidates are gone."""
        return [one for one, there in self._could_be_cleared(worker) if not there & ~gone]

    def capacity(self, worker: Worker, gone: int) -> int:
        """How many workers like this one fit once these candidates are gone."""
        limits = []
        if worker.whole_gpus:
            limits.append(len(self.whole_free(worker, gone)) // worker.whole_gpus)
        elif worker.milli_gpu:
            devices = [d for d in self.node.devices.values() if suits(d, worker)]
            frees = (self.free(device, gone) for device in devices)
            limits.append(sum(shares_in(free, worker.milli_gpu) for free in frees))
        if limits == [0]:
            return 0
        if limits and self._bears(0, Load(worker.cpu_milli, worker.memory_mib).times(limits[0])):
            return limits[0]
        free = self.load(gone)
        if worker.cpu_milli:
            limits.append(free.cpu_milli // worker.cpu_milli)
        if worker.memory_mib:
            limits.append(free.memory_mib // worker.memory_mib)
        return max(0, min(limits, default=0))

    def least_lost(self, worker: Worker) -> int | None:
        """Work thrown away at least for a worker here; None where there is no place at all.

        What a job would lose is divided evenly among its devices here. However a place is chosen, the
        parts of its devices together are never more than the jobs on them lose.
        """
        if not worker.milli_gpu:
            return 0
        if not worker.whole_gpus:
            return min(self._costs(worker.milli_gpu), default=None)
        if self._whole_costs is None:
            self._whole_costs = sorted(self._costs(WHOLE_MILLI_GPU))
        costs = self._whole_costs[: worker.whole_gpus]
        return None if len(costs) < worker.whole_gpus else sum(costs)

    def _costs(self, size: int) -> list[int]:
        """What so much of each device costs at least; nothing for devices that cannot be had."""
        devices_of = Counter(self.parts[i].workload_id for on in self._there.values() for i in on)
        costs = []
        for device_id, device in self.node.devices.items():
            on = [self.parts[number] for number in self._there.get(device_id, _NOTHING)]
            if WHOLE_MILLI_GPU - device.blocked(self.hold_class).bit_count() >= size:
                costs.append(0)
            elif on:
                parts = [one.lost // devices_of[one.workload_id] for one in on]
                costs.append(sum(parts) if size == WHOLE_MILLI_GPU else min(parts))
        return costs

    # --- what has to go for one more worker --------------------------------------------------

    def option(
        self,
        worker: Worker,
        gone: int = 0,
        used: Used | None = None,
        allowed: Allowed | None = None,
    ) -> Option | None:
        """Return the cheapest place for a worker; what is gone already costs nothing."""
        used = used or Used()
        need = Load(worker.cpu_milli, worker.memory_mib).plus(used.load)
        if not self._bears(self.everything, need):
            return None
        best: Option | None = None
        seen: set[int] = set()
        for mask, device_ids, offset in self._places(worker, gone, used, need, allowed is None):
            if mask in seen:
                continue  # other devices of the same jobs
            seen.add(mask)
            if best is not None and rank(self.candidates(mask & ~gone), used.paid) >= best.rank:
                continue
            filled = self.filled(mask | gone, need, keep=gone)
            if filled is None:
                continue
            candidates = self.candidates(filled & ~gone)
            if allowed is not None and not allowed(candidates):
                continue
            found = Option(
                rank(candidates, used.paid), candidates, filled & ~gone, device_ids, offset
            )
            if best is None or found.rank < best.rank:
                best = found
        return best

    def options(self, worker: Worker, most: int) -> Iterator[Option]:
        """All places for a worker for which no more than so many have to go, each with them."""
        need = Load(worker.cpu_milli, worker.memory_mib)
        if not self._bears(self.everything, need):
            return
        for mask, device_ids, offset in self._places(worker, 0, Used(), need, any_will_do=False):
            filled = self.filled(mask, need, keep=0) if mask.bit_count() <= most else None
            if filled is not None and filled.bit_count() <= most:
                candidates = self.candidates(filled)
                yield Option(rank(candidates), candidates, filled, device_ids, offset)

    def only_place(self, option: Option) -> bool:
        """Each of its whole devices has to be cleared: beside them there is nothing to choose."""
        return bool(option.device_ids) and all(
            self._lying(device_id, FULL) & option.mask for device_id in option.device_ids
        )

    def filled(self, mask: int, need: Load, keep: int) -> int | None:
        """Return the mask with more candidates, the cheapest first, until the load fits."""
        if self._bears(mask, need):
            return mask
        others = sorted(
            bits_of(self.everything & ~mask),
            key=lambda number: sparing_order(self.parts[number]),
        )
        added = []
        for number in others:
            mask |= 1 << number
            added.append(number)
            if self._bears(mask, need):
                break
        else:
            return None
        for number in reversed(added):
            rest = mask & ~(1 << number)
            if not keep >> number & 1 and self._bears(rest, need):
                mask = rest
        return mask

    def _places(
        self, worker: Worker, gone: int, used: Used, need: Load, any_will_do: bool
    ) -> Iterator[tuple[int, tuple[DeviceId, ...], int]]:
        """Places on devices, each with the candidates that lie there."""
        if worker.milli_gpu == 0:
            yield 0, (), 0
        elif worker.whole_gpus:
            yield from self._whole(worker, gone, used, need, any_will_do)
        else:
            yield from self._shares(worker, used)

    def _whole(
        self, worker: Worker, gone: int, used: Used, need: Load, any_will_do: bool
    ) -> Iterator[tuple[int, tuple[DeviceId, ...], int]]:
        found: list[tuple[Rank, int, DeviceId]] = []
        ranks: dict[int, Rank] = {}
        for device_id, mask in self._could_be_cleared(worker):
            if not used.bits.get(device_id):
                if mask not in ranks:
                    ranks[mask] = rank(self.candidates(mask & ~gone), used.paid)
                found.append((ranks[mask], mask, device_id))
        count = worker.whole_gpus
        if len(found) < count:
            return
        found.sort(key=lambda one: one[0])
        cheap = found[:count]
        if comb(len(found), count) > _MOST_CHOICES or (
            any_will_do and self._apart(found, gone) and self._bears(_union(cheap) | gone, need)
        ):
            yield _union(cheap), _names(cheap), 0
            return
        for chosen in combinations(found, count):
            yield _union(chosen), _names(chosen), 0

    def _apart(self, found: Sequence[tuple[Rank, int, DeviceId]], gone: int) -> bool:
        """No workload lies on two of the devices: then the cheapest devices are cheapest together."""
        there = [
            self.parts[number].workload_id
            for _, mask, _ in found
            for number in bits_of(mask & ~gone)
        ]
        return len(there) == len(set(there))

    def _shares(
        self, worker: Worker, used: Used
    ) -> Iterator[tuple[int, tuple[DeviceId, ...], int]]:
        size = worker.milli_gpu
        for device_id, device in self.node.devices.items():
            if not suits(device, worker):
                continue
            open_bits = self.free(device, self.everything) & ~used.bits.get(device_id, 0)
            anywhere = starts(open_bits, size)
            for offset in self._offsets(device_id, anywhere, size):
                yield self._lying(device_id, span(offset, size)), (device_id,), offset

    def _offsets(self, device_id: DeviceId, anywhere: int, size: int) -> list[int]:
        """Where a share could begin: moved to the left, every place ends at one of these."""
        if is_block_size(size):
            return list(bits_of(anywhere))
        found = set(bits_of(anywhere & ~(anywhere << 1)))
        for there in self._there.get(device_id, _NOTHING).values():
            for bits in there:
                ends = (bits << 1) & ~bits
                found.update(bits_of(ends & anywhere))
        return sorted(found)

    def _lying(self, device_id: DeviceId, bits: int) -> int:
        """Candidates that lie on these bits of a device."""
        mask = 0
        for number, (holds, promises) in self._there.get(device_id, _NOTHING).items():
            if (holds | promises) & bits:
                mask |= 1 << number
        return mask

    def area(
        self, bits: Mapping[DeviceId, int], need: Load
    ) -> tuple[EvictionCandidate, ...] | None:
        """Candidates that must go so that just these bits and this load are free; None where in vain."""
        mask = 0
        for device_id, wanted in bits.items():
            device = self.node.devices[device_id]
            if wanted & ~self.free(device, self.everything):
                return None
            mask |= self._lying(device_id, wanted)
        filled = self.filled(mask, need, keep=0)
        return None if filled is None else self.candidates(filled)


def _union(chosen: Sequence[tuple[Rank, int, DeviceId]]) -> int:
    mask = 0
    for _, one, _ in chosen:
        mask |= one
    return mask


def _names(chosen: Sequence[tuple[Rank, int, DeviceId]]) -> tuple[DeviceId, ...]:
    return tuple(device_id for _, _, device_id in chosen)

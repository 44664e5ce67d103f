"""The promises as predicates on a cluster, written without the core's own bookkeeping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations

from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Block, Node, NodeState, Quota
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    DeviceId,
    HoldClass,
    Kind,
    PoolName,
    State,
    WorkerPlacement,
    Workload,
)

FULL = (1 << 1000) - 1
FOR_OTHERS = {"reclaim", "preempt", "resize", "move"}


def bits(one: WorkerPlacement | Block) -> int:
    return ((1 << min(1000, one.milli_gpu)) - 1) << one.offset


def current_attempts(cluster: Cluster) -> Iterator[tuple[Workload, Attempt]]:
    for workload in cluster.workloads.values():
        if workload.current is not None:
            yield workload, workload.current


def held_bits(placements: Iterable[WorkerPlacement]) -> dict[DeviceId, int]:
    """Bits per device; fails when two of these overlap."""
    held: dict[DeviceId, int] = {}
    for one in placements:
        for device_id in one.device_ids:
            assert not held.get(device_id, 0) & bits(one), f"{device_id} is held twice"
            held[device_id] = held.get(device_id, 0) | bits(one)
    return held


def nothing_is_held_twice(cluster: Cluster) -> None:
    """Promise 1: devices, processor and memory, at every instant."""
    placements = [one for _, a in current_attempts(cluster) for one in a.placements]
    held = held_bits(placements)
    assert all(taken <= FULL for taken in held.values())
    for node in cluster.nodes.values():
        here = [one for one in placements if one.node_id == node.node_id]
        assert sum(one.cpu_milli for one in here) <= node.cpu_milli
        assert sum(one.memory_mib for one in here) <= node.memory_mib
        for device in node.devices:
            mine = [one for one in here if device.device_id in one.device_ids]
            memory = sum(share_memory_mib(device, one.milli_gpu) for one in mine)
            assert memory <= device.memory_mib - device.reserve_mib


def promises_do_not_overlap(cluster: Cluster) -> None:
    """A device is promised to one workload, and held by others only if they are its victims."""
    promised = [
        (workload, one)
        for workload in cluster.workloads.values()
        if workload.nomination is not None
        for one in workload.nomination.placements
    ]
    held_bits(one for _, one in promised)
    for workload, one in promised:
        assert workload.nomination is not None
        for _, attempt in current_attempts(cluster):
            if attempt.attempt_id in workload.nomination.victims:
                continue
            for other in attempt.placements:
                shared = set(other.device_ids) & set(one.device_ids)
                assert not (shared and bits(other) & bits(one))


def blocks_are_laid_out(cluster: Cluster) -> None:
    """Promise 2: aligned, on one node, never overlapping, never under in-guarantee work that goes on."""
    taken: dict[DeviceId, int] = {}
    for block in cluster.blocks:
        units = block.milli_gpu // 125
        assert block.milli_gpu % 125 == 0
        assert units & (units - 1) == 0
        assert block.offset % min(block.milli_gpu, 1000) == 0
        node = cluster.nodes[block.node_id]
        order = [device.device_id for device in node.devices]
        positions = [order.index(device_id) for device_id in block.device_ids]
        assert len(positions) == max(1, block.milli_gpu // 1000)
        assert positions[0] % len(positions) == 0
        for device_id in block.device_ids:
            assert not taken.get(device_id, 0) & bits(block)
            taken[device_id] = taken.get(device_id, 0) | bits(block)
    for _, attempt in current_attempts(cluster):
        for one in attempt.placements:
            if attempt.hold_class is HoldClass.GUARANTEED and not one.surplus:
                if cluster.nodes[one.node_id].state is not NodeState.READY:
                    continue
                stop = attempt.stop
                if stop is not None and (stop.signalled or stop.why not in FOR_OTHERS):
                    continue  # it ends for sure: a notebook's block may wait for it
                assert all(not taken.get(d, 0) & bits(one) for d in one.device_ids)


def gangs_are_whole(cluster: Cluster) -> None:
    """Promise 4: every attempt has all workers it needs, in one pool, each on one node."""
    for workload, attempt in current_attempts(cluster):
        spec = workload.spec
        counts = Counter(one.role for one in attempt.placements)
        first = spec.roles[0]
        low = first.count if spec.min_workers is None else spec.min_workers
        high = first.count if spec.max_workers is None else spec.max_workers
        assert low <= counts[first.name] <= max(low, high)
        for role in spec.roles[1:]:
            assert counts[role.name] == role.count
        indexes = [(one.role, one.index) for one in attempt.placements]
        assert len(set(indexes)) == len(indexes)
        assert len({cluster.nodes[one.node_id].pool for one in attempt.placements}) == 1
        for one in attempt.placements:
            devices = {device.device_id for device in cluster.nodes[one.node_id].devices}
            ending = attempt.stop is not None and attempt.stop.signalled
            assert set(one.device_ids) <= devices or ending, "it runs on a device that is gone"


def stops_have_a_beneficiary(cluster: Cluster) -> None:
    """Promise 6: who is not signalled yet is stopped for a live nomination, or not at all."""
    wanted = {
        attempt_id
        for workload in cluster.workloads.values()
        if workload.nomination is not None and workload.current is None
        for attempt_id in workload.nomination.victims
    }
    for workload, attempt in current_attempts(cluster):
        stop = attempt.stop
        if stop is None or stop.why not in FOR_OTHERS:
            continue
        assert attempt.hold_class is not HoldClass.FIXED
        assert workload.spec.kind is not Kind.NOTEBOOK
        assert stop.signalled or attempt.attempt_id in wanted


def who_waits_for_victims_has_some(cluster: Cluster) -> None:
    """Promise 3: admitted in the cycle that sees the last victim end; each has notice and grace."""
    live = {attempt.attempt_id: attempt for _, attempt in current_attempts(cluster)}
    for workload in cluster.workloads.values():
        if workload.nomination is not None and workload.current is None:
            assert any(one in live for one in workload.nomination.victims), workload
    for attempt in live.values():
        stop = attempt.stop
        if stop is None or stop.why not in FOR_OTHERS or stop.signalled:
            continue
        pool = cluster.pools[cluster.nodes[attempt.placements[0].node_id].pool]
        assert stop.kill_ms - stop.announced_ms <= pool.notice_ms + pool.grace_ms


def what_is_new_lies_on_ready_nodes(before: Cluster, cluster: Cluster) -> None:
    """Lost, fenced and cordoned nodes take nothing new."""
    for workload, attempt in current_attempts(cluster):
        known = before.workloads.get(workload.workload_id)
        if known is None or known.current is None:
            states = {cluster.nodes[one.node_id].state for one in attempt.placements}
            assert states == {NodeState.READY}


def quotas_hold(cluster: Cluster) -> None:
    """A team's limit is never exceeded by what was admitted while it stood."""
    use: Counter[tuple[str, HoldClass]] = Counter()
    for workload, attempt in current_attempts(cluster):
        for one in attempt.placements:
            surplus = one.surplus and attempt.hold_class is HoldClass.GUARANTEED
            found = HoldClass.OVER_QUOTA if surplus else attempt.hold_class
            use[workload.spec.team, found] += one.milli_gpu * len(one.device_ids)
    for team in cluster.teams.values():
        for quota in team.quotas.values():
            guaranteed = use[team.name, HoldClass.GUARANTEED]
            assert use[team.name, HoldClass.FIXED] <= quota.fixed_milli_gpu
            assert guaranteed <= quota.guaranteed_milli_gpu
            if quota.limit_milli_gpu is not None:
                training = guaranteed + use[team.name, HoldClass.OVER_QUOTA]
                assert training <= quota.limit_milli_gpu


# --- what would fit, by brute force ----------------------------------------------------------


class Free:
    """Free bits of every device on every usable node."""

    def __init__(self, cluster: Cluster, taken: Sequence[dict[DeviceId, int]]) -> None:
        self.nodes: list[tuple[Node, list[int]]] = []
        for node in cluster.nodes.values():
            if node.state is not NodeState.READY:
                continue
            masks = []
            for device in node.devices:
                used = 0
                for one in taken:
                    used |= one.get(device.device_id, 0)
                masks.append(FULL & ~used)
            self.nodes.append((node, masks))

    def fits(self, workers: Sequence[int]) -> bool:
        """Whether workers of these sizes fit at once: tries every way."""
        return _fits([list(masks) for _, masks in self.nodes], sorted(workers, reverse=True))

    def fits_whatever_is_kept(
        self, workers: Sequence[int], kept: int, blocks: Mapping[DeviceId, int]
    ) -> bool:
        """Whether they fit whichever so many GPUs outside blocks, wholly free, are kept from them."""
        free = [
            (number, i)
            for number, (node, masks) in enumerate(self.nodes)
            for i, device in enumerate(node.devices)
            if masks[i] == FULL and not blocks.get(device.device_id)
        ]
        for gone in combinations(free, min(kept, len(free))):
            left = [
                [0 if (number, i) in gone else mask for i, mask in enumerate(masks)]
                for number, (_, masks) in enumerate(self.nodes)
            ]
            if not _fits(left, sorted(workers, reverse=True)):
                return False
        return True


class Leaving:
    """Whether workers fit once some attempts are gone; what each of them holds is seen once."""

    def __init__(self, cluster: Cluster, workers: Sequence[int]) -> None:
        self._workers = sorted(workers, reverse=True)
        free = Free(cluster, [held_by(cluster, *HoldClass)])
        self._masks = [masks for _, masks in free.nodes]
        where = {
            device.device_id: (number, i)
            for number, (node, _) in enumerate(free.nodes)
            for i, device in enumerate(node.devices)
        }
        self._held = {
            attempt.attempt_id: [
                (*where[device_id], bits(one))
                for one in attempt.placements
                for device_id in one.device_ids
                if device_id in where
            ]
            for _, attempt in current_attempts(cluster)
        }

    def fits(self, gone: Iterable[AttemptId] = ()) -> bool:
        """Whether they fit without these."""
        masks = [list(one) for one in self._masks]
        for attempt_id in gone:
            for number, i, part in self._held[attempt_id]:
                masks[number][i] |= part
        return _fits(masks, self._workers)

    def none_can_be_spared(self, gone: Set[AttemptId]) -> bool:
        """They fit without these, and not as soon as one of these stays."""
        return self.fits(gone) and not any(self.fits(gone - {one}) for one in gone)

    def fits_for_less(self, lost: Mapping[AttemptId, int], limit: int) -> bool:
        """Whether they fit without some whose loss together is below the limit.

        Only groups to which nobody can be added are tried: more who go never leave less room.
        """
        order = sorted(lost, key=lambda one: lost[one])
        costs = [*(lost[one] for one in order), limit]
        sums = [0]
        for group in range(1 << len(order)):
            if group:
                lowest = (group & -group).bit_length() - 1
                sums.append(sums[group & (group - 1)] + costs[lowest])
            cheapest_left = costs[(~group & (group + 1)).bit_length() - 1]
            if 0 < limit - sums[group] <= cheapest_left and self.fits(
                one for i, one in enumerate(order) if group >> i & 1
            ):
                return True
        return False


def _fits(nodes: list[list[int]], workers: Sequence[int]) -> bool:
    if not workers:
        return True
    size, rest = workers[0], workers[1:]
    tried: set[tuple[int, ...]] = set()
    for masks in nodes:
        key = tuple(sorted(masks))
        if key in tried:
            continue
        tried.add(key)
        for after in _placements(masks, size):
            if _fits([after if one is masks else one for one in nodes], rest):
                return True
    return False


def _placements(masks: list[int], size: int) -> Iterator[list[int]]:
    if size == 0:
        yield list(masks)
    elif size >= 1000:
        whole = [i for i, mask in enumerate(masks) if mask == FULL]
        for chosen in combinations(whole, size // 1000):
            yield [0 if i in chosen else mask for i, mask in enumerate(masks)]
            return  # whole devices of one node are all alike
    else:
        for i, mask in enumerate(masks):
            for offset in offsets(size):
                part = ((1 << size) - 1) << offset
                if mask & part == part:
                    yield [m & ~part if j == i else m for j, m in enumerate(masks)]


def offsets(size: int) -> Iterable[int]:
    """Where a share may begin: block sizes aligned, others anywhere."""
    aligned = size in {125, 250, 500}
    return range(0, 1001 - size, size if aligned else 25)


def needed(workload: Workload) -> list[int]:
    """Sizes of the workers without which it does not start."""
    spec = workload.spec
    first, *others = spec.roles
    low = first.count if spec.min_workers is None else spec.min_workers
    return [first.milli_gpu] * low + [r.milli_gpu for r in others for _ in range(r.count)]


def left_too_often(cluster: Cluster, workload: Workload) -> bool:
    """Its owner left the line three times within an hour after others had been stopped for it."""
    left = [
        at_ms
        for one in cluster.workloads.values()
        if one.spec.owner == workload.spec.owner and set(one.spec.pools) & set(workload.spec.pools)
        for at_ms in one.withdrawn_ms
        if at_ms > cluster.now_ms - 3_600_000
    ]
    return len(left) >= 3


def quota_of(cluster: Cluster, workload: Workload) -> Quota:
    team = cluster.teams[workload.spec.team]
    return team.quotas.get(workload.spec.pools[0], Quota())


def in_line(cluster: Cluster, workload: Workload) -> bool:
    """It waits, and nothing but devices and quota keeps it."""
    return (
        workload.state in {State.QUEUED, State.WAITING}
        and not is_final(workload)
        and workload.nomination is None
        and workload.not_before_ms <= cluster.now_ms
        and workload.spec.not_before_ms <= cluster.now_ms
        and not workload.spec.after
    )


def held_by(cluster: Cluster, *classes: HoldClass) -> dict[DeviceId, int]:
    """Bits that attempts of these classes hold."""
    held: dict[DeviceId, int] = {}
    for _, attempt in current_attempts(cluster):
        for one in attempt.placements:
            surplus = one.surplus and attempt.hold_class is HoldClass.GUARANTEED
            found = HoldClass.OVER_QUOTA if surplus else attempt.hold_class
            if found in classes:
                for device_id in one.device_ids:
                    held[device_id] = held.get(device_id, 0) | bits(one)
    return held


def promised(
    cluster: Cluster, *classes: HoldClass, leaving: Workload | None = None
) -> dict[DeviceId, int]:
    """Bits that are promised to workloads of these classes."""
    found: dict[DeviceId, int] = {}
    for workload in cluster.workloads.values():
        nomination = workload.nomination
        if nomination is None or nomination.hold_class not in classes or workload is leaving:
            continue
        for one in nomination.placements:
            for device_id in one.device_ids:
                found[device_id] = found.get(device_id, 0) | bits(one)
    return found


def in_blocks(cluster: Cluster, team: str | None = None) -> dict[DeviceId, int]:
    """Bits of fixed blocks."""
    found: dict[DeviceId, int] = {}
    for block in cluster.blocks:
        if team is None or block.team == team:
            for device_id in block.device_ids:
                found[device_id] = found.get(device_id, 0) | bits(block)
    return found


def training_use(cluster: Cluster, team: str) -> tuple[int, int]:
    """Guaranteed and borrowed milli-GPU of a team, with promises."""
    guaranteed = borrowed = 0
    for workload in cluster.workloads.values():
        held = workload.current or workload.nomination
        if workload.spec.team != team or held is None:
            continue
        for one in held.placements:
            milli = one.milli_gpu * len(one.device_ids)
            if held.hold_class is HoldClass.GUARANTEED and not one.surplus:
                guaranteed += milli
            elif held.hold_class in {HoldClass.GUARANTEED, HoldClass.OVER_QUOTA}:
                borrowed += milli
    return guaranteed, borrowed


def kept_for_guarantees(cluster: Cluster, pool: PoolName) -> int:
    """How many whole GPUs may be kept from borrowers: a share, and no more than is unused."""
    nodes = [one for one in cluster.nodes.values() if one.pool == pool]
    there = sum(len(one.devices) for one in nodes if one.state is NodeState.READY)
    unused = sum(
        max(0, team.quotas[pool].guaranteed_milli_gpu - training_use(cluster, team.name)[0])
        for team in cluster.teams.values()
        if pool in team.quotas
    )
    return min(there * cluster.pools[pool].unlent_permille // 1000, unused // 1000)


def victims_of(cluster: Cluster, ids: Sequence[AttemptId]) -> list[Attempt]:
    """Victims that still live."""
    return [attempt for _, attempt in current_attempts(cluster) if attempt.attempt_id in ids]

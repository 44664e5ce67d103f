"""What a workload asks for, worker by worker: the shape that placement works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.resources import Policy, Pool
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Kind,
    PoolName,
    Role,
    Spec,
    WorkerPlacement,
    Workload,
)

#: The smallest block of a fixed quota: an eighth of a GPU.
SMALLEST_BLOCK = 125

#: Priorities by name.
PRIORITIES = {"low": -100, "normal": 0, "high": 100}
HIGHEST = max(PRIORITIES.values())

#: What a spec asks for, without whose it is.
Shape = tuple[object, ...]

#: Why a pool makes no slices of a size; None where it does. Who runs its work knows that.
WhyNoSlices = Callable[[PoolName, int], str | None]


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a gang."""

    role: str
    index: int
    milli_gpu: int
    gpu_kind: str | None
    cpu_milli: int
    memory_mib: int

    @property
    def whole_gpus(self) -> int:
        """How many whole devices it takes; 0 for a share of one or none."""
        return self.milli_gpu // WHOLE_MILLI_GPU


def priority(workload: Workload) -> int:
    """Its priority as a number; higher goes first."""
    return PRIORITIES[workload.spec.priority]


def bounds(spec: Spec) -> tuple[int, int]:
    """Fewest and most workers of the first role; equal for a rigid job."""
    count = spec.roles[0].count
    low = count if spec.min_workers is None else spec.min_workers
    high = max(low, count if spec.max_workers is None else spec.max_workers)
    return low, high


def elastic(spec: Spec) -> bool:
    """It may run with fewer workers than it likes."""
    if spec.min_workers is None and spec.max_workers is None:
        return False
    low, high = bounds(spec)
    return low < high


def _of_role(role: Role, first: int, end: int) -> tuple[Worker, ...]:
    return tuple(
        Worker(role.name, i, role.milli_gpu, role.gpu_kind, role.cpu_milli, role.memory_mib)
        for i in range(first, end)
    )


def must_have(spec: Spec) -> tuple[Worker, ...]:
    """Workers without which it does not start."""
    roles = spec.roles
    low = roles[0].count if spec.min_workers is None else spec.min_workers
    # Asked several times at every turn: to hash the roles would cost more than all the rest.
    seen = _SEEN.get(id(roles))
    if seen is None or seen[0] is not roles or seen[1] != low:
        if len(_SEEN) >= _MOST_SEEN:
            _SEEN.clear()
        seen = _SEEN[id(roles)] = (roles, low, _needed(roles, low))
    return seen[2]


#: Workers of roles by identity; the roles are kept too, so that no others get their identity.
_SEEN: dict[int, tuple[tuple[Role, ...], int, tuple[Worker, ...]]] = {}
_MOST_SEEN = 4096


@lru_cache(maxsize=4096)
def _needed(roles: tuple[Role, ...], low: int) -> tuple[Worker, ...]:
    first, *others = roles
    rest = tuple(worker for role in others for worker in _of_role(role, 0, role.count))
    return _of_role(first, 0, low) + rest


def may_have(spec: Spec) -> tuple[Worker, ...]:
    """Workers an elastic job takes where GPUs are free."""
    low, high = bounds(spec)
    return _of_role(spec.roles[0], low, high) if low < high else ()


def milli_gpu(workers: tuple[Worker, ...]) -> int:
    """Milli-GPU of all workers together."""
    if len(workers) == 1:
        return workers[0].milli_gpu
    return sum([worker.milli_gpu for worker in workers])


def placed_milli_gpu(placement: WorkerPlacement) -> int:
    """Milli-GPU one placed worker holds."""
    return placement.milli_gpu * len(placement.device_ids)


def on_cpu_only(spec: Spec) -> bool:
    """It asks for no GPU at all."""
    roles = spec.roles
    return not roles[0].milli_gpu and not any(role.milli_gpu for role in roles)


def borrowing_class(spec: Spec) -> HoldClass:
    """Under which quota it holds what is in none of its own."""
    return HoldClass.CPU if on_cpu_only(spec) else HoldClass.OVER_QUOTA


def is_block_size(milli: int) -> bool:
    """A power of two of the smallest block: a size that notebooks may have."""
    units, rest = divmod(milli, SMALLEST_BLOCK)
    return rest == 0 and units > 0 and units & (units - 1) == 0


def shape(spec: Spec) -> Shape:
    """Equal for specs that fit the same places, so one failed search answers for all of them."""
    roles = tuple(
        [(r.count, r.milli_gpu, r.gpu_kind, r.cpu_milli, r.memory_mib) for r in spec.roles]
    )
    return (spec.kind is Kind.NOTEBOOK, spec.pools, roles, spec.min_workers, spec.max_workers)


def place_of(one: WorkerPlacement) -> tuple[object, ...]:
    """Where a worker lies, whatever its number."""
    return (one.role, one.node_id, one.device_ids, one.offset)


#: Shares of a GPU that people choose from.
_SHARES = (250, 500)
#: Beyond a node of this many GPUs, powers of two are choice enough; up to there three are one too.
_FEW, _ALL, _MANY = 4, (1, 2, 3, 4), (1, 2, 4, 8)


def training_sizes(gpus: int) -> tuple[int, ...]:
    """GPUs of one worker, in milli-GPU, where the largest node has so many; 0 is processor only.

    What forms offer: no sentence names a size that no form has.
    """
    whole = _ALL if gpus <= _FEW else _MANY
    return (
        0,
        *(share for share in _SHARES if gpus),
        *(count * WHOLE_MILLI_GPU for count in whole if count <= gpus),
    )


def every_size(_pool: PoolName, _milli_gpu: int) -> None:
    """Why a pool makes no slices of a size, where all pools make all sizes."""


def pools_that_make(
    pools: Iterable[PoolName], sizes: Iterable[int], why_not: WhyNoSlices
) -> tuple[PoolName, ...]:
    """Those of these pools that make slices of all of these sizes: no other is offered or proposed."""
    asked = tuple(sizes)
    return tuple(pool for pool in pools if all(why_not(pool, size) is None for size in asked))


def sizes_of(spec: Spec) -> tuple[int, ...]:
    """Milli-GPU of a worker, role by role."""
    return tuple(role.milli_gpu for role in spec.roles)


def price_limit(spec: Spec, policies: Iterable[Policy]) -> int | None:
    """The least of what its owner, its team and the hub say, in millionths; None = no limit."""
    said = [spec.max_price_micro, *(policy.max_price_micro for policy in policies)]
    return min((one for one in said if one is not None), default=None)


def affordable(
    spec: Spec,
    most_micro: int | None,
    names: Iterable[PoolName],
    pools: Mapping[PoolName, Pool],
    now_ms: int,
) -> tuple[PoolName, ...]:
    """Those of these pools that cost no more now.

    A pool without a price costs nothing that is known, so no limit keeps anybody from it; nor is a job
    without a GPU kept from anything.
    """
    found = tuple(names)
    if most_micro is None or on_cpu_only(spec):
        return found
    return tuple(
        name
        for name in found
        if name not in pools or (pools[name].price_at(now_ms) or 0) <= most_micro
    )


def with_milli_gpu(workload: Workload, size: int) -> Workload:
    """The same with so much of a GPU for each worker of its first role."""
    first, *others = workload.spec.roles
    roles = (evolve(first, milli_gpu=size), *others)
    return evolve(workload, spec=evolve(workload.spec, roles=roles))

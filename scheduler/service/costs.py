"""What use of GPUs costs, by the prices of pools: integers in millionths, with what has no price beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.reports.base import UsageSum

_HOUR_MS = 3_600_000
_WHOLE_MILLI_GPU = 1000


def in_hours(milli_gpu_ms: int) -> int:
    """Milli-GPU·milliseconds as milli-GPU·hours, to the nearest."""
    return round(milli_gpu_ms / _HOUR_MS)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of what had a price, and how much had none, in milli-GPU·milliseconds."""

    micro: int = 0
    unpriced: int = 0
    #: How much had one, also a price of 0.
    priced: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            micro=self.micro + other.micro,
            unpriced=self.unpriced + other.unpriced,
            priced=self.priced + other.priced,
        )


def dearest(pool: Pool, from_ms: int) -> int:
    """The highest price from a moment on, of those that are known; 0 where there is none."""
    later = [price.micro_per_gpu_h for price in pool.prices if price.from_ms > from_ms]
    return max([pool.price_at(from_ms) or 0, *later])


def of_held(pool: Pool | None, held_milli_gpu_ms: int, at_ms: int) -> Cost:
    """What was held costs at the price of then."""
    return _priced(held_milli_gpu_ms, None if pool is None else pool.price_at(at_ms))


def of_rows(pools: Mapping[PoolName, Pool], rows: Iterable[LedgerRow]) -> Cost:
    """What the minutes of a ledger cost: those of one price are added up before they are rounded."""
    held: dict[tuple[PoolName, int | None], int] = {}
    for row in rows:
        pool = pools.get(row.pool)
        key = (row.pool, None if pool is None else pool.price_at(row.minute_ms))
        held[key] = held.get(key, 0) + row.held_milli_gpu_ms
    return sum((_priced(amount, price) for (_, price), amount in held.items()), Cost())


def of_sum(pools: Mapping[PoolName, Pool], one: UsageSum, at_ms: int) -> Cost:
    """What a sum costs whose time has one price."""
    return of_held(pools.get(one.pool), one.held, at_ms)


def spans(pools: Iterable[Pool], from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """A span cut wherever a price changes."""
    changes = {price.from_ms for pool in pools for price in pool.prices}
    cuts = [from_ms, *sorted(cut for cut in changes if from_ms < cut < to_ms), to_ms]
    return list(pairwise(cuts))


def currency_of(pools: Iterable[Pool]) -> str:
    """The one in which all prices are; "" where there is none."""
    return next((pool.currency for pool in pools if pool.prices), "")


def _priced(held_milli_gpu_ms: int, price: int | None) -> Cost:
    if price is None:
        return Cost(unpriced=held_milli_gpu_ms)
    micro = round(held_milli_gpu_ms * price / (_WHOLE_MILLI_GPU * _HOUR_MS))
    return Cost(micro=micro, priced=held_milli_gpu_ms)

"""Sweeps without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.codec import encode
from gpucommons.scheduler.store.schedules.base import Epoch, changed_meanwhile
from gpucommons.scheduler.store.sweeps.base import is_needed
from gpucommons.scheduler.sweeps.sweep import Kept, Standing, Sweep, Trial, too_many


class MemorySweeps:
    """See :class:`.base.SweepStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._kept: dict[ParentId, Kept] = {}
        self._trials: dict[ParentId, dict[int, Trial]] = {}
        self._live: set[ParentId] = set()

    def put(self, sweep: Sweep, *, before: Sweep | None = None, most: int | None = None) -> None:
        """Add one, or replace what was written before."""
        with self._lock:
            known = self._kept.get(sweep.sweep_id)
            if before != (None if known is None else known.sweep):
                raise changed_meanwhile(sweep.name)
            others = [self._kept[one].sweep for one in self._live - {sweep.sweep_id}]
            count = sum(one.owner == sweep.owner and not one.stopped for one in others)
            if most is not None and count >= most:
                raise too_many(sweep.owner, count)
            standing = Standing() if known is None else known.standing
            self._kept[sweep.sweep_id] = Kept(sweep=sweep, standing=standing)
            self._live.add(sweep.sweep_id)

    def one(self, sweep_id: ParentId) -> Kept | None:
        """One sweep."""
        with self._lock:
            return self._kept.get(sweep_id)

    def named(self, name: str) -> tuple[Kept, ...]:
        """Newest first."""
        return tuple(one for one in self._newest() if one.sweep.name == name)

    def page(self, sight: Sight, *, before: Kept | None, limit: int) -> tuple[Kept, ...]:
        """Newest first."""
        found = (
            one
            for one in self._newest()
            if sight.sees(one.sweep.team, one.sweep.owner)
            and (before is None or _age(one) < _age(before))
        )
        return tuple(islice(found, limit))

    def live(self) -> tuple[Kept, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(sorted((self._kept[one] for one in self._live), key=_age))

    def size_bytes(self, owner: UserName, *, since_ms: Millis) -> int:
        """As they are kept elsewhere."""
        mine = (one.sweep for one in self._newest() if one.sweep.owner == owner)
        return sum(len(encode(one)) for one in mine if one.made_ms > since_ms)

    def trials(self, sweep_id: ParentId) -> tuple[Trial, ...]:
        """By number."""
        with self._lock:
            return tuple(one for _, one in sorted(self._trials.get(sweep_id, {}).items()))

    def stand(self, epoch: Epoch, kept: Kept, trials: Sequence[Trial]) -> None:
        """Write where it stands."""
        sweep_id = kept.sweep.sweep_id
        with self._lock:
            self._check_lead(epoch)
            known = self._kept.get(sweep_id)
            if known is None:
                return
            self._kept[sweep_id] = Kept(sweep=known.sweep, standing=kept.standing)
            self._trials.setdefault(sweep_id, {}).update({one.number: one for one in trials})
            if kept.standing.ended_ms is not None and known.sweep == kept.sweep:
                self._live.discard(sweep_id)

    def needed(self, *, ended_since_ms: Millis) -> frozenset[str]:
        """Of all that are not over for long."""
        found = (one.sweep.snapshot for one in self._newest() if is_needed(one, ended_since_ms))
        return frozenset(one for one in found if one is not None)

    def prune(self, epoch: Epoch, *, before_ms: Millis) -> None:
        """Forget what ended before."""
        with self._lock:
            self._check_lead(epoch)
            for sweep_id in self._kept.keys() - self._live:
                ended_ms = self._kept[sweep_id].standing.ended_ms
                if ended_ms is not None and ended_ms < before_ms:
                    del self._kept[sweep_id]
                    self._trials.pop(sweep_id, None)

    def _newest(self) -> list[Kept]:
        with self._lock:
            return sorted(self._kept.values(), key=_age, reverse=True)


def _age(kept: Kept) -> tuple[int, str]:
    return kept.sweep.made_ms, kept.sweep.sweep_id

"""Sweeps without a disk: for tests, simulation and replays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.sweeps.sweep import Kept, Sweep, Trial


class MemorySweeps:
    """See :class:`.base.SweepStore`. ``check_lead`` raises for an epoch that is over."""

    def __init__(self, check_lead: Callable[[Epoch], None]) -> None:
        self._check_lead = check_lead
        self._lock = threading.Lock()
        self._kept: dict[ParentId, Kept] = {}
        self._trials: dict[ParentId, dict[int, Trial]] = {}
        self._live: set[ParentId] = set()

    def put(self, sweep: Sweep) -> None:
        """Add one, or replace what its owner wrote."""
        with self._lock:
            known = self._kept.get(sweep.sweep_id, Kept(sweep=sweep))
            self._kept[sweep.sweep_id] = Kept(sweep=sweep, standing=known.standing)
            self._live.add(sweep.sweep_id)

    def one(self, sweep_id: ParentId) -> Kept | None:
        """One sweep."""
        with self._lock:
            return self._kept.get(sweep_id)

    def all(self, owner: UserName | None = None) -> tuple[Kept, ...]:
        """Newest first."""
        with self._lock:
            found = [one for one in self._kept.values() if owner in (None, one.sweep.owner)]
        return tuple(sorted(found, key=_age, reverse=True))

    def live(self) -> tuple[Kept, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(sorted((self._kept[one] for one in self._live), key=_age))

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

    def drop(self, sweep_id: ParentId) -> None:
        """Forget one."""
        with self._lock:
            self._kept.pop(sweep_id, None)
            self._trials.pop(sweep_id, None)
            self._live.discard(sweep_id)


def _age(kept: Kept) -> tuple[int, str]:
    return kept.sweep.made_ms, kept.sweep.sweep_id

"""The books of what was forecast: kept at the start of a wait and at a few ages of it, and closed
when the start is known. Calibration reads nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.forecast.estimating import Lengths
from gpucommons.scheduler.forecast.forecast import Forecast, foreseen, window_to_show
from gpucommons.scheduler.forecast.windows import (
    REMEMBERED,
    Basis,
    Calibration,
    calibrate,
    wait_class,
)
from gpucommons.scheduler.store.base import Epoch, Store
from gpucommons.scheduler.store.estimates import NO_WINDOW, UNFORESEEN, Estimate

_MINUTE_MS = 60_000
#: Ages of a wait at which its window is kept, beside the first one.
_AGES_MS = (10 * _MINUTE_MS, 60 * _MINUTE_MS, 6 * 60 * _MINUTE_MS, 24 * 60 * _MINUTE_MS)

Key = tuple[WorkloadId, Millis]


class EstimateLedger:
    """Estimates by workload and time; those without an outcome are open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[Key, Estimate] | None = None

    def _all(self) -> dict[Key, Estimate]:
        if self._kept is None:
            self._kept = {_key(one): one for one in self._store.estimates()}
        return self._kept

    def write(self, epoch: Epoch, changed: Sequence[Estimate]) -> None:
        """Store what :meth:`settle` and :meth:`note` gave."""
        if changed:
            self._store.add_estimates(epoch, changed)

    def settle(self, cluster: Cluster) -> list[Estimate]:
        """Close the estimates whose waits are over."""
        closed = []
        for key, one in self._all().items():
            if one.started_ms is not None or one.left:
                continue
            workload = cluster.workloads.get(one.workload_id)
            found = workload or self._store.workload(one.workload_id)
            outcome = _outcome(one, found)
            if outcome is not one:
                self._all()[key] = outcome
                closed.append(outcome)
        return closed

    def note(
        self,
        cluster: Cluster,
        lengths: Lengths,
        told: Mapping[WorkloadId, Forecast],
        calibrations: Mapping[str, Calibration],
    ) -> list[Estimate]:
        """Keep the first window of each wait, and one at each age; and that there was none."""
        open_at = self._open(foreseen=True)
        untold_at = self._open(foreseen=False)
        new = []
        for workload_id in lengths.waits:
            raw, thin = foreseen(lengths, workload_id)
            workload, said = cluster.workloads[workload_id], told[workload_id]
            noted_ms = open_at.get(workload_id)
            if raw is None:
                # What had a range and has none now has had one: it is not told that it was not.
                if noted_ms is not None and noted_ms >= _wait_began(workload):
                    continue
                noted_ms = untold_at.get(workload_id)
            if not _is_due(workload, noted_ms, lengths.made_ms):
                continue
            if raw is None:
                new.append(_without_window(workload, lengths.made_ms))
                continue
            name = wait_class(workload, thin=thin)
            new.append(
                Estimate(
                    workload_id=workload_id,
                    made_ms=lengths.made_ms,
                    wait_class=name,
                    raw=raw,
                    window=window_to_show(raw, calibrations.get(name, Calibration())),
                    withheld=said.window is None or said.basis is Basis.WRONG,
                )
            )
        self._all().update((_key(one), one) for one in new)
        return new

    def _open(self, *, foreseen: bool) -> dict[WorkloadId, Millis]:
        """When the newest one was kept of each wait that goes on."""
        found: dict[WorkloadId, Millis] = {}
        for one in self._all().values():
            if one.started_ms is None and not one.left and one.foreseen is foreseen:
                found[one.workload_id] = max(one.made_ms, found.get(one.workload_id, Millis(0)))
        return found

    def calibrations(self, now_ms: Millis) -> dict[str, Calibration]:
        """What was learned, by class of wait. Forgets what no longer counts."""
        by_class: dict[str, list[Estimate]] = defaultdict(list)
        for one in self._all().values():
            by_class[one.wait_class].append(one)
        for kept in by_class.values():
            for one in sorted(kept, key=_key_of_age)[: -2 * REMEMBERED]:
                if one.started_ms is not None or one.left:
                    del self._all()[_key(one)]
        return {name: calibrate(kept, now_ms) for name, kept in by_class.items()}


def _without_window(workload: Workload, now_ms: Millis) -> Estimate:
    """Counted apart: nothing is learned from it, and it pushes none out of which something is."""
    return Estimate(
        workload_id=workload.workload_id,
        made_ms=now_ms,
        wait_class=f"{wait_class(workload)}{UNFORESEEN}",
        raw=NO_WINDOW,
        window=NO_WINDOW,
        withheld=True,
        foreseen=False,
    )


def _key(estimate: Estimate) -> Key:
    return estimate.workload_id, estimate.made_ms


def _key_of_age(estimate: Estimate) -> tuple[int, str]:
    return estimate.made_ms, estimate.workload_id


def _outcome(estimate: Estimate, workload: Workload | None) -> Estimate:
    """The estimate with what became of its wait; itself while that is open."""
    if workload is None:
        return replace(estimate, left=True)
    starts = [a.reserved_ms for a in workload.attempts if a.reserved_ms >= estimate.made_ms]
    if starts:
        return replace(estimate, started_ms=min(starts))
    # Paused, cancelled, back in line by an admin: nobody promised anything about that.
    return estimate if workload.state in WAITING_STATES else replace(estimate, left=True)


def _is_due(workload: Workload, last_ms: Millis | None, now_ms: Millis) -> bool:
    began_ms = _wait_began(workload)
    if last_ms is None or last_ms < began_ms:
        return True
    return bisect_right(_AGES_MS, now_ms - began_ms) > bisect_right(_AGES_MS, last_ms - began_ms)


def _wait_began(workload: Workload) -> Millis:
    ended = workload.attempts[-1].ended_ms if workload.attempts else None
    return workload.submitted_ms if ended is None else ended

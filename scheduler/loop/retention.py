"""For how long rows are kept: history, the usage ledger, quotas of minutes, and offered plans."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.store.base import Epoch, Store
from gpucommons.scheduler.store.quota_minutes.base import FOLDED_AFTER_MS

_DAY_MS = 24 * 3_600_000
#: A plan that nobody has taken for so long is forgotten.
_OFFERED_MS = 7 * _DAY_MS
#: How often old rows are folded, and dropped where a retention is set.
_PRUNE_EVERY_MS = 3_600_000


@dataclass(kw_only=True)
class Retention:
    """Folds and drops what is old."""

    store: Store
    #: How long history is kept; None = for ever.
    retention_ms: int | None
    _prune_due_ms: int = 0

    def prune_due(self, epoch: Epoch, cluster: Cluster, now_ms: Millis) -> None:
        """Do it once an hour."""
        if now_ms < self._prune_due_ms:
            return
        self._prune_due_ms = now_ms + _PRUNE_EVERY_MS
        quotas = self.store.quota_minutes
        quotas.fold(epoch, before_ms=Millis(now_ms - FOLDED_AFTER_MS))
        before_ms = Millis(0 if self.retention_ms is None else now_ms - self.retention_ms)
        offered_before_ms = Millis(now_ms - _OFFERED_MS)
        plans = self.store.plans
        plans.drop(epoch, offered_before_ms=offered_before_ms, ended_before_ms=before_ms)
        if self.retention_ms is not None:
            kept = {one for one, known in cluster.workloads.items() if is_final(known)}
            # The results of what is promoted are files of a job that is known.
            kept |= self.store.schedules.promoted()
            self.store.prune(epoch, before_ms=before_ms, kept=kept)
            self.store.sweeps.prune(epoch, before_ms=before_ms)
            quotas.drop(epoch, before_ms=before_ms)

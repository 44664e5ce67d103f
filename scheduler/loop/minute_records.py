"""What the loop writes down of each minute that is over, beside its decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpucommons.gpu.slices.usage import UsageMinute
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.loop.quota_minutes import quota_minutes
from gpucommons.scheduler.loop.usage_ledger import LedgerKeeper
from gpucommons.scheduler.store.base import Epoch, Store


class MinuteRecords:
    """Rows of the usage ledger and of quotas."""

    def __init__(
        self, store: Store, measured: Callable[[Millis], Sequence[UsageMinute] | None]
    ) -> None:
        self._store = store
        self.ledger = LedgerKeeper(
            written=lambda from_ms, to_ms, of: store.ledger(from_ms=from_ms, to_ms=to_ms, of=of),
            measured=measured,
        )

    def write_due(self, epoch: Epoch, cluster: Cluster, now_ms: Millis) -> None:
        """Write those of minutes that are over."""
        if now_ms < self.ledger.due_at_ms():
            return
        due = self.ledger.due(cluster, now_ms)
        if due is None:
            return
        if due.rows:
            self._store.add_ledger(epoch, due.rows)
        # A minute without rows has its quotas, too: nothing of them was held.
        quotas = quota_minutes(cluster, due.minutes, due.rows)
        if quotas:
            self._store.quota_minutes.put(epoch, quotas)
        self.ledger.wrote()

"""The parts of a store that SQL keeps in each of them, with a disk or without."""

from __future__ import annotations

from gpucommons.scheduler.store.notifications.sql import SqlNotifications
from gpucommons.scheduler.store.pipelines.sql import SqlPipelines
from gpucommons.scheduler.store.plans.sql import SqlPlans
from gpucommons.scheduler.store.profiles.sql import SqlProfiles
from gpucommons.scheduler.store.quota_minutes.sql import SqlQuotaMinutes
from gpucommons.scheduler.store.schedules.sql import SqlSchedules
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.sweeps.sql import SqlSweeps


class SqlParts:
    """No cycle reads or writes them."""

    def __init__(self, transactions: Transactions) -> None:
        self.schedules = SqlSchedules(transactions)
        self.quota_minutes = SqlQuotaMinutes(transactions)
        self.plans = SqlPlans(transactions)
        self.profiles = SqlProfiles(transactions)
        self.sweeps = SqlSweeps(transactions)
        self.pipelines = SqlPipelines(transactions)
        self.notifications = SqlNotifications(transactions)

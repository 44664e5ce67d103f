"""Plans in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.plans.base import EVER, MANY, JudgedRun
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.schedules.sql import Reads
from gpucommons.scheduler.store.sql.intents import insert_into
from gpucommons.scheduler.store.tables import judged_runs, offered_plans


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlPlans:
    """See :class:`.base.PlanStore`. Transactions are the store's."""

    read: Reads
    #: A transaction of whoever writes.
    writing: Callable[[], AbstractContextManager[Connection]]
    #: A transaction of the leader alone.
    leading: Callable[[Epoch], AbstractContextManager[Connection]]

    def offer(self, plans: Sequence[ChosenPlan]) -> None:
        """Keep what was answered."""
        rows = [
            {"plan_id": one.plan_id, "made_ms": one.made_ms, "document": encode(one)}
            for one in plans
        ]
        if rows:
            with self.writing() as connection:
                statement = insert_into(connection)(offered_plans)
                connection.execute(statement.on_conflict_do_nothing(), rows)

    def offered(self, plan_id: str) -> ChosenPlan | None:
        """By its id."""
        found = self.read(
            lambda c: c.execute(
                select(offered_plans.c.document).where(offered_plans.c.plan_id == plan_id)
            ).scalar_one_or_none()
        )
        return None if found is None else decode(ChosenPlan, found)

    def judge(self, epoch: Epoch, runs: Sequence[JudgedRun]) -> None:
        """Add or replace."""
        rows = [
            {"workload_id": one.workload_id, "ended_ms": one.ended_ms, "document": encode(one)}
            for one in runs
        ]
        with self.leading(epoch) as connection:
            if rows:
                statement = insert_into(connection)(judged_runs)
                replaced = {name: statement.excluded[name] for name in ("ended_ms", "document")}
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=[judged_runs.c.workload_id], set_=replaced
                    ),
                    rows,
                )

    def run(self, workload_id: WorkloadId) -> JudgedRun | None:
        """By its workload."""
        found = self.read(
            lambda c: c.execute(
                select(judged_runs.c.document).where(judged_runs.c.workload_id == workload_id)
            ).scalar_one_or_none()
        )
        return None if found is None else decode(JudgedRun, found)

    def runs(self, *, since_ms: Millis = EVER, limit: int = MANY) -> tuple[JudgedRun, ...]:
        """The newest, turned around."""
        of = judged_runs.c
        newest = (
            select(of.document)
            .where(of.ended_ms >= since_ms)
            .order_by(of.ended_ms.desc(), of.workload_id.desc())
            .limit(limit)
        )
        rows = self.read(lambda c: c.execute(newest).scalars().all())
        return tuple(decode(JudgedRun, row) for row in reversed(rows))

    def drop(self, epoch: Epoch, *, offered_before_ms: Millis, ended_before_ms: Millis) -> int:
        """Forget what is older."""
        olds = (
            delete(offered_plans).where(offered_plans.c.made_ms < offered_before_ms),
            delete(judged_runs).where(judged_runs.c.ended_ms < ended_before_ms),
        )
        with self.leading(epoch) as connection:
            return sum(connection.execute(old).rowcount for old in olds)

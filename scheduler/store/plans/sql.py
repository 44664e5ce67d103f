"""Plans in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from gpucommons.scheduler.core.model.types import Millis, WorkloadId
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.plans.base import EVER, MANY, JudgedRun
from gpucommons.scheduler.store.schedules.base import Epoch
from gpucommons.scheduler.store.sql.intents import insert_into
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import judged_runs, offered_plans


class SqlPlans:
    """See :class:`.base.PlanStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def offer(self, plans: Sequence[ChosenPlan]) -> None:
        """Keep what was answered."""
        rows = [
            {"plan_id": one.plan_id, "made_ms": one.made_ms, "document": encode(one)}
            for one in plans
        ]
        if rows:
            with self._in.writing() as connection:
                statement = insert_into(connection)(offered_plans)
                connection.execute(statement.on_conflict_do_nothing(), rows)

    def offered(self, plan_id: str) -> ChosenPlan | None:
        """By its id."""
        found = self._in.read(
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
        with self._in.leading(epoch) as connection:
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
        found = self._in.read(
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
        rows = self._in.read(lambda c: c.execute(newest).scalars().all())
        return tuple(decode(JudgedRun, row) for row in reversed(rows))

    def drop(self, epoch: Epoch, *, offered_before_ms: Millis, ended_before_ms: Millis) -> int:
        """Forget what is older."""
        olds = (
            delete(offered_plans).where(offered_plans.c.made_ms < offered_before_ms),
            delete(judged_runs).where(judged_runs.c.ended_ms < ended_before_ms),
        )
        with self._in.leading(epoch) as connection:
            return sum(connection.execute(old).rowcount for old in olds)

"""The durable store: SQLite for one scheduler, PostgreSQL for several replicas.

Each call is one transaction. Writers of this process take turns (SQLite has one anyway) at a
connection of their own, so that no number of readers keeps a leader from its commit; readers never
wait for them. What a call returned from is on the disk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, exc
from sqlalchemy.exc import DBAPIError, OperationalError

from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.state import Changes, Cluster
from gpucommons.scheduler.core.model.types import (
    REPORTED,
    IntentId,
    Millis,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store.base import (
    Admit,
    Asked,
    Claims,
    Epoch,
    EventSight,
    LedgerRow,
    LogPoint,
    LostMinutes,
    Mirror,
    Page,
    StoredEvent,
    Submits,
    WorkloadFilter,
)
from gpucommons.scheduler.store.codec import BadDocument
from gpucommons.scheduler.store.estimates import Estimate
from gpucommons.scheduler.store.reports.sql import SqlReports
from gpucommons.scheduler.store.sql import cluster, curves, history, intents
from gpucommons.scheduler.store.sql.engine import (
    connected,
    leader_lock,
    open_engine,
    writing,
)
from gpucommons.scheduler.store.sql.listen_notify import ASKED, COMMITTED, Notices
from gpucommons.scheduler.store.sql.mirror import SqlMirror
from gpucommons.scheduler.store.sql.parts import SqlParts
from gpucommons.scheduler.store.sql.transactions import Transactions

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class SqlStore(SqlParts):
    """See :class:`gpucommons.scheduler.store.base.Store`."""

    def __init__(self, url: str) -> None:
        transactions = Transactions(
            read=self._read, writing=self._writing, leading=self._leading_alone
        )
        super().__init__(transactions)
        self._engine = open_engine(url)
        self._writers = connected(url, alone=True)
        self._turn = threading.Lock()
        self._notices = Notices(self._engine)
        self._curves = curves.Curves()
        self._leader_lock = leader_lock(url)
        self.reports = SqlReports(transactions)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._turn, _answering(), writing(self._writers) as connection:
            yield connection

    @contextmanager
    def _leading(self, epoch: Epoch) -> Iterator[tuple[Connection, cluster.Lead]]:
        with self._writing() as connection:
            yield connection, cluster.check_lead(connection, epoch)

    @contextmanager
    def _leading_alone(self, epoch: Epoch) -> Iterator[Connection]:
        with self._leading(epoch) as (connection, _):
            yield connection

    def _read(self, query: Callable[[Connection], T]) -> T:
        with _answering(), _readable(), self._engine.connect() as connection:
            return query(connection)

    def _read_in_turn(self, query: Callable[[Connection], T]) -> T:
        """What the leader's loop goes on from: it waits for no reader."""
        with self._turn, _answering(), _readable(), self._writers.connect() as connection:
            return query(connection)

    # --- leadership --------------------------------------------------------------------------

    def take_lead(self, holder: str) -> Epoch:
        """Become the one writer of state."""
        if self._leader_lock is not None:
            self._leader_lock.acquire()
        self._curves.forget()
        with self._writing() as connection:
            return cluster.take_lead(connection, holder)

    def check_lead(self, epoch: Epoch) -> None:
        """See that nobody has taken over."""
        with self._leading(epoch):
            return

    def leader(self) -> str:
        """Who took the lead last."""
        return self._read(cluster.holder)

    def mirror(self) -> Mirror:
        """A view of the cluster that reads only what is new."""
        return SqlMirror(self._read_at_once)

    def _read_at_once(self, query: Callable[[Connection], T]) -> T:
        """Several statements that see one moment."""
        # SQLite's transactions see one moment anyway.
        several = self._engine.dialect.name == "postgresql"
        options = {"isolation_level": "REPEATABLE READ"} if several else {}
        with _answering(), _readable(), self._engine.connect() as connection:
            return query(connection.execution_options(**options))

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back when another process has written."""
        return self._notices.listen(callback)

    def now_ms(self) -> Millis | None:
        """The database's clock, which all replicas share; None where there is one scheduler."""
        if self._engine.dialect.name != "postgresql":
            return None
        return self._read(cluster.clock_ms)

    def close(self) -> None:
        """Let go of files and connections."""
        self._engine.dispose()
        self._writers.dispose()
        if self._leader_lock is not None:
            self._leader_lock.release()

    # --- intents -----------------------------------------------------------------------------

    def put_intent(self, intent: Intent, *, admit: Admit | None = None) -> Intent:
        """Commit an intent, or find the one of the same key."""
        with self._writing() as connection:
            found = intents.put(connection, intent, admit)
            self._notices.send(connection, ASKED)
            return found

    def put_intents(self, several: Sequence[Intent]) -> None:
        """Commit several at once."""
        with self._writing() as connection:
            for intent in several:
                intents.put(connection, intent)
            self._notices.send(connection, ASKED)

    def submits(self, owner: UserName, *, since_ms: Millis) -> Submits:
        """What was asked for a user since then."""
        return self._read(lambda connection: intents.submits(connection, owner, since_ms))

    def pending_jobs(self, owner: UserName) -> frozenset[WorkloadId | ParentId]:
        """Jobs of a user that wait, seen by a cycle or not."""
        return self._read(lambda connection: intents.pending_jobs(connection, owner))

    def intent_with_key(self, by: UserName, key: str, fingerprint: str) -> Intent | None:
        """The intent of this key, if there is one."""
        return self._read(lambda connection: intents.with_key(connection, by, key, fingerprint))

    def asked(self, limit: int = 1000) -> Asked:
        """Intents without a verdict, in order of arrival."""
        return self._read_in_turn(lambda connection: intents.pending(connection, limit))

    def verdict(self, intent_id: IntentId) -> Verdict | None:
        """The verdict, once there is one."""
        return self._read(lambda connection: intents.verdict(connection, intent_id))

    # --- the leader's loop -------------------------------------------------------------------

    def load(self) -> Cluster:
        """Everything live."""
        return self._read_in_turn(cluster.load)

    def commit(self, epoch: Epoch, changes: Changes) -> tuple[StoredEvent, ...]:
        """Write one cycle in one transaction."""
        with self._leading(epoch) as (connection, lead):
            cluster.write(connection, changes, lead.commit)
            intents.answer(connection, changes.verdicts)
            stored = history.number_events(connection, lead, changes)
            self._notices.send(connection, COMMITTED)
            return stored

    def add_ledger(
        self, epoch: Epoch, rows: Sequence[LedgerRow], lost: Sequence[LostMinutes] = ()
    ) -> None:
        """Add or replace rows by key, and mark what was lost after all."""
        with self._leading(epoch) as (connection, _):
            history.mark_lost(connection, lost)
            history.write_ledger(connection, rows)

    def add_points(self, epoch: Epoch, curves: Mapping[WorkloadId, Sequence[LogPoint]]) -> None:
        """Add points to curves."""
        try:
            with self._leading(epoch) as (connection, _):
                self._curves.write(connection, curves)
        except BaseException:
            self._curves.forget()
            raise

    def add_estimates(self, epoch: Epoch, estimates: Sequence[Estimate]) -> None:
        """Add or replace by key."""
        with self._leading(epoch) as (connection, _):
            history.write_estimates(connection, estimates)

    def prune(self, epoch: Epoch, *, before_ms: Millis, kept: Collection[WorkloadId]) -> int:
        """Drop what is older, in many small transactions: others write between them."""
        found = self._read(lambda c: history.old_workloads(c, before_ms))
        old = [one for one in found if one not in kept]
        count = 0
        for first in range(0, len(old), history.WORKLOADS_AT_ONCE):
            some = old[first : first + history.WORKLOADS_AT_ONCE]
            with self._leading(epoch) as (connection, _):
                count += history.drop_workloads(connection, some)
        for statement in history.olds(before_ms):
            dropped = 1
            while dropped:
                with self._leading(epoch) as (connection, _):
                    dropped = connection.execute(statement).rowcount
                count += dropped
        return count

    # --- reading -----------------------------------------------------------------------------

    def workload(self, workload_id: WorkloadId) -> Workload | None:
        """One workload, live or final."""
        return self._read(lambda c: cluster.by_id(c, [workload_id])).get(workload_id)

    def workloads_by_id(self, ids: Collection[WorkloadId]) -> dict[WorkloadId, Workload]:
        """Those of these that there are, in one look."""
        return self._read(lambda c: cluster.by_id(c, ids))

    def workloads(
        self, where: WorkloadFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Workload]:
        """A page, newest first."""
        return self._read(lambda c: cluster.page(c, where, limit=limit, cursor=cursor))

    def intent_submits(self, ids: Collection[WorkloadId]) -> dict[WorkloadId, Intent]:
        """The unconsumed submits of these workloads, in one look."""
        return self._read(lambda c: intents.pending_submits(c, ids))

    def next_name(self, team: TeamName, base: str, wanted: int | None = None) -> str:
        """The next number for this base, or the one that is wanted."""
        with self._writing() as connection:
            return intents.next_name(connection, team, base, wanted)

    def note_upload(self, sha256: str, by: UserName, *, at_ms: Millis) -> None:
        """Add one, or make it young again."""
        with self._writing() as connection:
            intents.note_upload(connection, sha256, by, at_ms)

    def claims(
        self, sha256: str, of: frozenset[UserName], *, team: TeamName | None = None
    ) -> Claims:
        """What ties a snapshot to these users, and to a team."""
        return self._read(lambda connection: intents.claims(connection, sha256, of, team))

    def drop_uploads(self, *, before_ms: Millis, is_gone: Callable[[str], bool]) -> int:
        """Look for one after the other, in no transaction."""
        old = self._read(lambda c: intents.uploaded_before(c, before_ms))
        gone = [sha256 for sha256 in old if is_gone(sha256)]
        for sha256 in gone:
            with self._writing() as connection:
                intents.drop_uploads(connection, sha256, before_ms)
        return len(gone)

    def events(  # noqa: PLR0913 - the filters of one feed, all optional and named
        self,
        *,
        after: int = 0,
        workload_id: WorkloadId | None = None,
        kinds: frozenset[str] = frozenset(),
        sight: EventSight | None = None,
        limit: int = 500,
        newest: bool = False,
    ) -> tuple[StoredEvent, ...]:
        """Events after a number, oldest first."""
        return self._read(
            lambda connection: history.read_events(
                connection,
                after=after,
                workload_id=workload_id,
                kinds=kinds,
                sight=sight,
                order=(limit, newest),
            )
        )

    def last_event_number(self) -> int:
        """The newest event's number."""
        return self._read(history.last_event_number)

    def points(
        self, workload_id: WorkloadId, limit: int = 2000, source: str = REPORTED, from_ms: int = 0
    ) -> tuple[LogPoint, ...]:
        """A curve, thinned evenly to ``limit``."""
        return self._read(lambda c: curves.read_points(c, workload_id, source, from_ms, limit))

    def curve_sources(self, workload_id: WorkloadId) -> Mapping[str, int]:
        """Points by source."""
        return self._read(lambda c: curves.read_sources(c, workload_id))

    def ledger(
        self, *, from_ms: Millis, to_ms: Millis, of: frozenset[WorkloadId] | None = None
    ) -> tuple[LedgerRow, ...]:
        """Rows of a span, by minute."""
        return self._read(lambda c: history.read_ledger(c, from_ms=from_ms, to_ms=to_ms, of=of))

    def estimates(self, *, limit: int = 5000) -> tuple[Estimate, ...]:
        """The newest ones, oldest first."""
        return self._read(lambda c: history.read_estimates(c, limit))


@contextmanager
def _answering() -> Iterator[None]:
    """A database that is down, full or locked is ours to name, not the caller's to know."""
    try:
        yield
    except exc.TimeoutError as error:
        message = "The scheduler's store has no free connection; try again in a moment."
        raise Unavailable(message) from error
    except DBAPIError as error:
        # A session that the server has ended is no OperationalError everywhere.
        if not isinstance(error, OperationalError) and not error.connection_invalidated:
            raise
        message = f"The scheduler's store does not answer ({error.orig}); try again in a moment."
        raise Unavailable(message) from error


@contextmanager
def _readable() -> Iterator[None]:
    """While replicas are upgraded, the next release may have written what this one cannot read."""
    try:
        yield
    except BadDocument as error:
        # Not in the answer: it may repeat what is not its reader's to see.
        _LOG.error("What is stored cannot be read: %s", error)
        message = (
            "The scheduler cannot read what is stored: another release of it wrote that, or the store"
            " is damaged. Ask again when all its replicas run the same release; its log says more."
        )
        raise Unavailable(message) from error

"""Intents, readable names and uploads in SQL: what any replica may write."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    case,
    delete,
    func,
    select,
    union,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.lifecycle import PENDING_STATES
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    Millis,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.idempotency import check_same_request
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import Admit, Asked, Claims, Submits
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.tables import intents, names, uploads, workloads

#: Both databases understand ``ON CONFLICT``; SQLAlchemy has one class for each.
Insert = postgresql.Insert | sqlite.Insert

_PENDING = sorted(state.value for state in PENDING_STATES)
#: Keeps our advisory locks of owners apart from others' of the database.
_TURNS = 0x47C0_4402

_ANSWER = (
    update(intents)
    .where(intents.c.intent_id == bindparam("about"), intents.c.verdict.is_(None))
    .values(verdict=bindparam("said"))
)
_UNANSWERED = (
    select(intents.c.intent_id, intents.c.document)
    .where(intents.c.verdict.is_(None))
    .order_by(intents.c.arrival)
    .limit(bindparam("most"))
)
_WITH_KEY = select(intents.c.document).where(
    intents.c.by == bindparam("by"), intents.c.idempotency_key == bindparam("key")
)
_SUBMITS = select(func.count(), func.coalesce(func.sum(intents.c.job_bytes), 0)).where(
    intents.c.job_owner == bindparam("owner"), intents.c.at_ms > bindparam("since_ms")
)


def _line(table: Table) -> ColumnElement[str]:
    """What counts as one that waits: a job, or all that are part of one parent."""
    return func.coalesce(table.c.part_of, table.c.workload_id)


#: Each line once: of a sweep, hundreds may be paused.
_PENDING_JOBS = union(
    select(_line(intents)).where(
        intents.c.verdict.is_(None),
        intents.c.job_owner == bindparam("owner"),
        intents.c.intent_id != bindparam("without"),
    ),
    select(_line(workloads)).where(
        workloads.c.owner == bindparam("owner"),
        workloads.c.live,
        workloads.c.kind != Kind.NOTEBOOK.value,
        workloads.c.state.in_(_PENDING),
    ),
)


def insert_into(connection: Connection) -> type[Insert]:
    """The insert statement of this database."""
    return insert_of(connection.dialect.name)


def insert_of(dialect: str) -> type[Insert]:
    """The same, by the database's name."""
    return postgresql.Insert if dialect == "postgresql" else sqlite.Insert


@cache
def _new(dialect: str) -> ReturningInsert[tuple[int]]:
    """Made once: to build it costs more than to carry it out."""
    return insert_of(dialect)(intents).on_conflict_do_nothing().returning(intents.c.arrival)


def put(connection: Connection, intent: Intent, admit: Admit | None = None) -> Intent:
    """Keep an intent, or find the one of the same key."""
    owner = rules.job_owner(intent)
    if admit is not None and owner is not None:
        take_turn(connection, owner)
        intent = rules.named(intent, partial(next_name, connection))
    document = encode(intent)
    row = {
        "intent_id": intent.intent_id,
        "by": intent.by,
        "idempotency_key": intent.idempotency_key,
        "at_ms": intent.at_ms,
        "workload_id": rules.submitted_id(intent),
        "job_owner": owner,
        "job_bytes": None if owner is None else len(document),
        "part_of": rules.asked_part_of(intent),
        "document": document,
    }
    written = connection.execute(_new(connection.dialect.name), row).first()
    if written is not None:
        if admit is not None and owner is not None:
            # What it raises takes the row back.
            admit(pending_jobs(connection, owner, without=intent))
        return intent
    key = intents.c.intent_id == intent.intent_id
    if intent.idempotency_key is not None:
        key |= (intents.c.by == intent.by) & (intents.c.idempotency_key == intent.idempotency_key)
    first = _intent(connection.execute(select(intents.c.document).where(key)).scalar_one())
    check_same_request(first.idempotency_key, first.fingerprint, intent.fingerprint)
    return first


def take_turn(connection: Connection, owner: UserName) -> None:
    """Let nobody else, on whichever replica, ask for something of this owner until the commit.

    SQLite has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        key = func.hashtextextended(owner, _TURNS)
        connection.execute(select(func.pg_advisory_xact_lock(key)))


def submits(connection: Connection, owner: UserName, since_ms: Millis) -> Submits:
    """What was asked for a user since then."""
    row = connection.execute(_SUBMITS, {"owner": owner, "since_ms": since_ms}).one()
    # PostgreSQL adds whole numbers up to decimal ones.
    return Submits(count=row[0], size_bytes=int(row[1]))


def pending_jobs(
    connection: Connection, owner: UserName, *, without: Intent | None = None
) -> frozenset[WorkloadId | ParentId]:
    """Jobs of a user that wait; one statement, so that none is missed between intent and row."""
    named = {"owner": owner, "without": "" if without is None else without.intent_id}
    return frozenset(map(WorkloadId, connection.execute(_PENDING_JOBS, named).scalars()))


def with_key(connection: Connection, by: UserName, key: str, fingerprint: str) -> Intent | None:
    """The intent of this key, if there is one."""
    document = connection.execute(_WITH_KEY, {"by": by, "key": key}).scalar()
    if document is None:
        return None
    first = _intent(document)
    check_same_request(first.idempotency_key, first.fingerprint, fingerprint)
    return first


def pending(connection: Connection, limit: int) -> Asked:
    """Those without a verdict, in order of arrival."""
    rows = connection.execute(_UNANSWERED, {"most": limit}).all()
    found, unreadable = [], []
    for row in rows:
        try:
            found.append(_intent(row.document))
        except Unavailable as error:
            verdict = Verdict(intent_id=row.intent_id, error=error.code, text=str(error))
            unreadable.append(verdict)
    return Asked(intents=tuple(found), unreadable=tuple(unreadable))


#: Bound values in one statement: SQLite takes no more than some thousands.
_LOOKUP = 500


def pending_submits(connection: Connection, ids: Iterable[WorkloadId]) -> dict[WorkloadId, Intent]:
    """The unconsumed submits of these workloads."""
    wanted = sorted(ids)
    found: dict[WorkloadId, Intent] = {}
    for start in range(0, len(wanted), _LOOKUP):
        statement = select(intents.c.workload_id, intents.c.document).where(
            intents.c.workload_id.in_(wanted[start : start + _LOOKUP]), intents.c.verdict.is_(None)
        )
        rows = connection.execute(statement)
        found.update((WorkloadId(row.workload_id), _intent(row.document)) for row in rows)
    return found


def _intent(document: str) -> Intent:
    """Read one.

    Raises
    ------
    Unavailable
        When this release cannot: while replicas are upgraded, one of the next release may have written it.
    """
    try:
        intent: Intent = decode(Intent, document)
    except Exception as error:
        message = (
            f"The scheduler cannot read this request ({error}): another release of it took it, or the"
            " store is damaged. Ask again when all its replicas run the same release."
        )
        raise Unavailable(message) from error
    return intent


def verdict(connection: Connection, intent_id: IntentId) -> Verdict | None:
    """The verdict, once there is one."""
    document = connection.execute(
        select(intents.c.verdict).where(intents.c.intent_id == intent_id)
    ).scalar()
    return None if document is None else decode(Verdict, document)


def answer(connection: Connection, verdicts: tuple[Verdict, ...]) -> None:
    """Write verdicts; the first one stands."""
    if verdicts:
        rows = [{"about": given.intent_id, "said": encode(given)} for given in verdicts]
        connection.execute(_ANSWER, rows)


def next_name(connection: Connection, team: TeamName, base: str, wanted: int | None = None) -> str:
    """The next number for this base, or the one that is wanted."""
    base = rules.name_base(base)
    row = {"team": team, "base": base, "last": 1 if wanted is None else wanted}
    statement = _counted(connection.dialect.name, wanted=wanted is not None)
    return f"{base}-{connection.execute(statement, row).scalar_one()}"


@cache
def _counted(dialect: str, *, wanted: bool) -> ReturningInsert[tuple[int]]:
    new = insert_of(dialect)(names)
    asked, counted = new.excluded.last, names.c.last + 1
    last = case((names.c.last < asked, asked), else_=counted) if wanted else counted
    key = [names.c.team, names.c.base]
    return new.on_conflict_do_update(index_elements=key, set_={"last": last}).returning(
        names.c.last
    )


def note_upload(connection: Connection, sha256: str, by: UserName, at_ms: Millis) -> None:
    """Add one, or make it young again."""
    connection.execute(
        insert_into(connection)(uploads)
        .values(sha256=sha256, by=by, at_ms=at_ms)
        .on_conflict_do_update(
            index_elements=[uploads.c.sha256, uploads.c.by], set_={"at_ms": at_ms}
        )
    )


def claims(
    connection: Connection, sha256: str, of: frozenset[UserName], team: TeamName | None
) -> Claims:
    """Each look finds nothing of others', so it takes as long whether they have it or not."""
    from_it = workloads.c.snapshot == sha256
    users = sorted(of)
    uploaded = select(uploads.c.by).where(uploads.c.sha256 == sha256, uploads.c.by.in_(users))
    own = select(workloads.c.owner).where(workloads.c.owner.in_(users), from_it)
    of_team = select(workloads.c.team).where(workloads.c.team == team, from_it)

    def there(rows: Select[tuple[str]]) -> bool:
        return connection.execute(rows.limit(1)).first() is not None

    return Claims(
        uploaded=there(uploaded), own_job=there(own), team_job=team is not None and there(of_team)
    )


def uploaded_before(connection: Connection, at_ms: Millis) -> tuple[str, ...]:
    """The snapshots that somebody uploaded before."""
    old = select(uploads.c.sha256).where(uploads.c.at_ms < at_ms).distinct()
    return tuple(connection.execute(old).scalars())


def drop_uploads(connection: Connection, sha256: str, before_ms: Millis) -> None:
    """Drop those of one snapshot, but not one that was made meanwhile."""
    connection.execute(
        delete(uploads).where(uploads.c.sha256 == sha256, uploads.c.at_ms < before_ms)
    )

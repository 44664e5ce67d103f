"""Rows of two writers, as Kubernetes' objects with spec and status: the owner writes one column, the
leader the other. Schedules and pipelines are kept so, and differ in how they are listed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, exc, insert, select, update
from sqlalchemy.sql.dml import Update

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import Conflict
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.schedules.base import Epoch, changed_meanwhile
from gpucommons.scheduler.store.sql.transactions import Transactions


class OwnerDocument(Protocol):
    """What an owner writes."""

    @property
    def owner(self) -> UserName:
        """Who may change it."""
        ...

    @property
    def name(self) -> str:
        """Its name, one of its owner's."""
        ...

    @property
    def team(self) -> str:
        """Whose members see it."""
        ...


Document = TypeVar("Document", bound=OwnerDocument)
Standing = TypeVar("Standing")


class OwnerDocuments(Generic[Document, Standing]):
    """The rows of one table: columns ``owner, name, team, document, standing, next_ms`` and one key.

    ``name_taken`` words the refusal of a second one of that name.
    """

    def __init__(
        self,
        transactions: Transactions,
        table: Table,
        *,
        document: type[Document],
        standing: type[Standing],
        name_taken: Callable[[Document], Conflict],
    ) -> None:
        self._in = transactions
        self._table = table
        (self._key,) = table.primary_key.columns
        self._document = document
        self._standing = standing
        self._name_taken = name_taken

    def put(
        self,
        key: str,
        document: Document,
        *,
        next_ms: Millis | None,
        before: Document | None,
        check_count: Callable[[Connection], None],
    ) -> None:
        """Add one where ``check_count`` lets, or replace what was written ``before``.

        Raises
        ------
        Conflict
            Where the owner has another one of that name, or ``before`` is not what is there now.
        """
        values: dict[str, Any] = {
            "owner": document.owner,
            "name": document.name,
            "team": document.team,
            "document": encode(document),
            "next_ms": next_ms,
        }
        new = {self._key.name: key, "standing": encode(self._standing())}
        try:
            with self._in.writing() as connection:
                if self._written(connection, key) != before:
                    raise changed_meanwhile(document.name)
                if before is None:
                    check_count(connection)
                    connection.execute(insert(self._table).values(values | new))
                else:
                    connection.execute(self._change(key).values(values))
        except exc.IntegrityError:
            raise self._name_taken(document) from None

    def due(self, now_ms: Millis) -> tuple[tuple[Document, Standing], ...]:
        """Those whose ``next_ms`` has come, soonest first."""
        at = self._table.c.next_ms
        return self.read(select(self._table).where(at <= now_ms).order_by(at))

    def stand(
        self,
        epoch: Epoch,
        key: str,
        document: Document,
        standing: Standing,
        *,
        next_ms: Millis | None,
    ) -> bool:
        """Write where one stands, and ``next_ms`` where its document is still this one.

        Returns whether it is.
        """
        with self._in.leading(epoch) as connection:
            same = self._written(connection, key) == document
            values: dict[str, Any] = {"standing": encode(standing)}
            if same:
                values["next_ms"] = next_ms
            connection.execute(self._change(key).values(values))
        return same

    def drop(self, key: str) -> None:
        """Forget one."""
        with self._in.writing() as connection:
            connection.execute(delete(self._table).where(self._key == key))

    def read(self, statement: Select[Any]) -> tuple[tuple[Document, Standing], ...]:
        """Documents and where they stand, of a statement that selects whole rows."""
        rows = self._in.read(lambda connection: connection.execute(statement).mappings().all())
        return tuple(
            (decode(self._document, row["document"]), decode(self._standing, row["standing"]))
            for row in rows
        )

    def _change(self, key: str) -> Update:
        return update(self._table).where(self._key == key)

    def _written(self, connection: Connection, key: str) -> Document | None:
        """What its owner wrote, kept as it is until the commit; None where it is not there.

        By value: an earlier release may have written it with fewer fields.
        """
        mine: ColumnElement[bool] = self._key == key
        written = select(self._table.c.document).where(mine).with_for_update()
        document = connection.execute(written).scalar_one_or_none()
        return None if document is None else decode(self._document, document)

"""The file of a backup: lines of JSON, packed, of which the last one says that all are there.

The first line says what made it; then each table names itself and its columns once, and its rows
follow as lists. The last line counts the rows and holds the checksum of all lines before it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from gpucommons.scheduler.errors import BadRequest

#: What the first line begins with, and the form of what follows.
_FORM = 1
#: Longest line that is read: a row holds a document of a job, at most some megabytes.
_MAX_LINE_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What made a backup, and of what."""

    #: Of GPU Commons.
    version: str
    #: Newest migration of its tables.
    head: str
    #: The moment that it shows, by the clock of the database's user (UTC milliseconds).
    made_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Begins the rows of a table."""

    name: str
    columns: tuple[str, ...]


Row = Sequence[Any]


class Writer:
    """Packs a backup into a file that is open for bytes."""

    def __init__(self, file: IO[bytes], origin: Origin) -> None:
        self._packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="")
        self._digest = hashlib.sha256()
        self.rows = 0
        self._line({"gpucommons_backup": _FORM, **asdict(origin)})

    def table(self, name: str, columns: Sequence[str]) -> None:
        """Rows of this table follow."""
        self._line({"table": name, "columns": list(columns)})

    def row(self, values: Row) -> None:
        """One row of the table that was named last."""
        self.rows += 1
        self._line(list(values))

    def end(self) -> None:
        """All rows are there."""
        last = {"rows": self.rows, "sha256": self._digest.hexdigest()}
        self._packed.write(json.dumps(last).encode() + b"\n")
        self._packed.close()

    def _line(self, value: object) -> None:
        line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        self._digest.update(line)
        self._packed.write(line)


class Reader:
    """What a file says. Nothing of it may be believed before :meth:`check` has come to the end."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name

    def check(self) -> tuple[Origin, int]:
        """Read all of it; returns what made it, and how many rows it has.

        Raises
        ------
        BadRequest
            When it is no backup, cut off, damaged, or of a later form.
        """
        origin, rows = self.origin(), 0
        for item in self.items():
            rows += not isinstance(item, Table)
        return origin, rows

    def origin(self) -> Origin:
        """The first line, from the beginning."""
        self._file.seek(0)
        first = self._value(next(self._lines(), b""))
        form = first.get("gpucommons_backup") if isinstance(first, dict) else None
        if not isinstance(form, int):
            raise BadRequest(f"{self._name} is no backup of GPU Commons.")
        if form > _FORM:
            message = (
                f"{self._name} was made by GPU Commons {first.get('version')}, in a form that this"
                " version cannot read: restore it with that version or a later one."
            )
            raise BadRequest(message)
        try:
            return Origin(
                version=str(first["version"]),
                head=str(first["head"]),
                made_ms=int(first["made_ms"]),
            )
        except (KeyError, TypeError, ValueError):
            raise self._damaged() from None

    def items(self) -> Iterator[Table | Row]:
        """Tables and their rows, in order; ends well only if the last line fits to all before it."""
        self._file.seek(0)
        digest, rows, last = hashlib.sha256(), 0, None
        for number, line in enumerate(self._lines()):
            if last is not None:
                raise self._damaged()
            if number == 0:
                digest.update(line)
                continue
            value = self._value(line)
            if isinstance(value, dict) and "sha256" in value:
                last = value
                continue
            digest.update(line)
            rows += isinstance(value, list)
            yield self._item(value)
        if last is None:
            raise self._cut_off(rows)
        if (last.get("rows"), last["sha256"]) != (rows, digest.hexdigest()):
            raise self._damaged()

    def _item(self, value: Any) -> Table | Row:
        if isinstance(value, list):
            return value
        try:
            return Table(name=value["table"], columns=tuple(value["columns"]))
        except (KeyError, TypeError):
            raise self._damaged() from None

    def _lines(self) -> Iterator[bytes]:
        """Whole lines; stops where the file was cut off."""
        try:
            with gzip.GzipFile(fileobj=self._file, mode="rb") as packed:
                while line := packed.readline(_MAX_LINE_BYTES):
                    if not line.endswith(b"\n"):
                        return
                    yield line
        except EOFError:
            return
        except gzip.BadGzipFile as error:
            if "CRC" in str(error) or "length" in str(error):
                raise self._damaged() from None
            raise BadRequest(f"{self._name} is no backup of GPU Commons.") from None
        except zlib.error:
            raise self._damaged() from None

    def _value(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except ValueError:
            if not line:
                raise self._cut_off(0) from None
            raise self._damaged() from None

    def _cut_off(self, rows: int) -> BadRequest:
        return BadRequest(
            f"{self._name} is cut off after {rows:,} rows: it was not written, or not copied, to its"
            " end. Take another backup; nothing was restored."
        )

    def _damaged(self) -> BadRequest:
        return BadRequest(
            f"{self._name} is damaged: its checksum does not fit. Take another backup; nothing was"
            " restored."
        )

"""What a backup holds is there again on a new database, of either kind; a bad one changes nothing."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from stored_rows import NOW, event, job, ledger_row, running, submit

from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import Millis, TeamName
from gpucommons.scheduler.errors import BadRequest, Conflict, SchedulerError
from gpucommons.scheduler.models.history import RESTORED
from gpucommons.scheduler.store.backup import tables
from gpucommons.scheduler.store.backup.file import Origin, Reader
from gpucommons.scheduler.store.base import WorkloadFilter
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.sql import engine

pytestmark = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)

MADE = Origin(version="0.1.0", head="", made_ms=NOW)


def filled(url: str) -> None:
    store = open_store(url)
    epoch = store.take_lead("test")
    store.put_intent(submit(7))
    assert store.next_name(TeamName("vision"), "digits") == "digits-1"
    store.commit(
        epoch,
        Changes(
            now_ms=NOW,
            workloads=(job(1), running(2)),
            events=(event("ä 😀"), event("b", team=TeamName("nlp"))),
        ),
    )
    store.add_ledger(epoch, [ledger_row(1)])
    store.close()


def saved(url: str) -> bytes:
    file = io.BytesIO()
    tables.back_up(url, file, MADE)
    return file.getvalue()


@pytest.fixture
def other(url: str, tmp_path: Path, postgresql: str) -> Iterator[Callable[[str], str]]:
    """Addresses of databases that nobody has used."""
    import psycopg  # noqa: PLC0415 - only where there is a server

    def made(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/other.db"
        with psycopg.connect(postgresql, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS other WITH (FORCE)")
            connection.execute("CREATE DATABASE other")
        return postgresql.replace("/postgres?", "/other?")

    yield made
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS other WITH (FORCE)")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_all_of_it_is_there_again_on_a_new_database_of_either_kind(
    url: str, other: Callable[[str], str], kind: str
) -> None:
    filled(url)
    new = other(kind)
    origin, rows = tables.restore(new, Reader(io.BytesIO(saved(url)), "b"), now_ms=NOW + 5)
    assert origin == Origin(version="0.1.0", head=engine.HEAD, made_ms=NOW)
    before, after = open_store(url), open_store(new)
    everything = WorkloadFilter()
    assert after.workloads(everything) == before.workloads(everything)
    assert after.load() == before.load()
    assert after.asked() == before.asked()
    whole = (Millis(0), Millis(2**50))
    assert after.ledger(from_ms=whole[0], to_ms=whole[1]) == before.ledger(
        from_ms=whole[0], to_ms=whole[1]
    )
    told = after.events()
    assert told[:-1] == before.events()
    assert (told[-1].number, told[-1].event.kind) == (len(told), RESTORED)
    assert after.last_event_number() == len(told)
    # What is counted goes on behind what was counted.
    assert after.next_name(TeamName("vision"), "digits") == "digits-2"
    after.put_intent(submit(8))
    assert [one.action.workload_id for one in after.asked().intents] == ["w-0007", "w-0008"]
    assert rows > 6
    before.close()
    after.close()


def test_a_backup_shows_one_moment_while_a_scheduler_writes(url: str) -> None:
    filled(url)
    store = open_store(url)

    class Interrupting(io.BytesIO):
        asked = 0

        def write(self, data: object) -> int:
            # Another process writes with each piece that is saved.
            self.asked += 1
            store.put_intent(submit(100 + self.asked))
            return super().write(data)  # type: ignore[arg-type] # as it comes

    file = Interrupting()
    tables.back_up(url, file, MADE)
    items = list(Reader(io.BytesIO(file.getvalue()), "b").items())
    intents = next(i for i, one in enumerate(items) if getattr(one, "name", "") == "intents")
    kept = 0
    for one in items[intents + 1 :]:
        if not isinstance(one, list):
            break
        kept += 1
    assert file.asked > 0
    assert kept == 1  # what was there before the first byte
    store.close()


@pytest.mark.parametrize("part", [0.2, 0.6, 0.95])
def test_a_backup_that_is_cut_off_is_refused_and_the_database_stays_empty(
    url: str, other: Callable[[str], str], part: float
) -> None:
    filled(url)
    whole, new = saved(url), other("sqlite")
    cut = whole[: int(len(whole) * part)]
    with pytest.raises(BadRequest, match=r"cut off after [\d,]+ rows.*nothing was restored"):
        tables.restore(new, Reader(io.BytesIO(cut), "b"), now_ms=NOW)
    assert not Path(new.removeprefix("sqlite:///")).exists()


def test_bytes_that_changed_are_found(url: str) -> None:
    filled(url)
    whole = saved(url)
    lines = gzip.decompress(whole)
    changed = gzip.compress(lines.replace(b"digits-1", b"digits-9", 1))
    for bad in (changed, whole[:200] + bytes([whole[200] ^ 255]) + whole[201:]):
        with pytest.raises(BadRequest, match=r"is damaged|is cut off"):
            Reader(io.BytesIO(bad), "b").check()
    for other_file in (b"", b"PK\x03\x04 a zip", gzip.compress(b"[1]\n")):
        with pytest.raises(BadRequest, match=r"no backup of GPU Commons|is cut off after 0 rows"):
            Reader(io.BytesIO(other_file), "b").check()


def test_a_database_that_is_in_use_is_not_touched(url: str) -> None:
    filled(url)
    with pytest.raises(Conflict, match="not empty"):
        tables.restore(url, Reader(io.BytesIO(saved(url)), "b"), now_ms=NOW)
    store = open_store(url)
    assert all(one.event.kind != RESTORED for one in store.events())
    store.close()


def test_one_of_a_later_version_is_refused_with_both_versions(
    url: str, other: Callable[[str], str]
) -> None:
    filled(url)
    lines = [json.loads(line) for line in gzip.decompress(saved(url)).splitlines()]
    file = io.BytesIO()
    from gpucommons.scheduler.store.backup.file import Writer  # noqa: PLC0415 - as a later one would

    writer = Writer(file, Origin(version="9.1", head="9999", made_ms=NOW))
    writer.end()
    with pytest.raises(BadRequest, match=r"9\.1 \(tables 9999\), later than this one"):
        tables.restore(other("sqlite"), Reader(io.BytesIO(file.getvalue()), "b"), now_ms=NOW)
    later = gzip.compress(json.dumps({**lines[0], "gpucommons_backup": 2}).encode() + b"\n")
    with pytest.raises(BadRequest, match="in a form that this version cannot read"):
        Reader(io.BytesIO(later), "b").check()


def test_one_of_an_earlier_release_is_brought_up_to_date(
    url: str, other: Callable[[str], str]
) -> None:
    made = engine.connected(url)
    with engine.writing(made) as connection:
        engine.upgrade(connection, "0008")
        connection.execute(
            text("INSERT INTO names (team, base, last) VALUES ('vision', 'digits', 41)")
        )
    made.dispose()
    new = other("sqlite")
    origin, _rows = tables.restore(new, Reader(io.BytesIO(saved(url)), "b"), now_ms=NOW)
    assert origin.head == "0008"
    store = open_store(new)
    assert store.next_name(TeamName("vision"), "digits") == "digits-42"
    store.close()


def test_a_database_without_tables_of_ours_is_no_empty_backup(url: str) -> None:
    with pytest.raises(SchedulerError, match="no tables of GPU Commons"):
        saved(url)

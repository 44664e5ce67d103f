"""What only a file can show: durability, privacy, the lock, and tables that are up to date."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from builders import T0, a_job
from sqlalchemy import create_engine, event

from gpucommons.scheduler.core.model.intents import Intent, Keep
from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.state import Changes, Event
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Millis,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.store import tables
from gpucommons.scheduler.store.base import Asked, LogPoint, WorkloadFilter
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.sql import cluster, curves, engine, history
from gpucommons.scheduler.store.sql.store import SqlStore
from gpucommons.scheduler.sweeps.sweep import (
    Budget,
    Improvement,
    Improvements,
    Kept,
    Standing,
    Sweep,
    Trial,
)

NOW = Millis(1_000)
INTENT = Intent(
    intent_id=IntentId("i-1"),
    action=Keep(workload_id=WorkloadId("w"), for_ms=5),
    by=UserName("ada"),
    at_ms=NOW,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state/store.db"


def test_everything_is_there_after_opening_again(url: str) -> None:
    first = open_store(url)
    epoch = first.take_lead("first")
    first.put_intent(INTENT)
    first.next_name(TeamName("vision"), "digits")
    first.commit(epoch, Changes(now_ms=NOW, events=(Event(at_ms=NOW, kind="k", by="b", text="t"),)))
    first.close()
    second = open_store(url)
    assert second.take_lead("second") == epoch + 1
    assert second.asked().intents == (INTENT,)
    assert second.next_name(TeamName("vision"), "digits") == "digits-2"
    assert second.last_event_number() == 1
    assert second.load().now_ms == NOW
    second.close()


def test_a_request_that_cannot_be_read_is_refused_and_the_others_are_decided(
    url: str, tmp_path: Path
) -> None:
    store = open_store(url)
    asked = [
        replace(INTENT, intent_id=IntentId(f"i-{n}"), idempotency_key=f"{n}") for n in range(4)
    ]
    for intent in asked:
        store.put_intent(intent)
    with sqlite3.connect(tmp_path / "state" / "store.db") as edited:
        for number, text in (
            (0, '{"v":1,"d":{"of_the_next_release":1}}'),
            (1, "[]"),
            (2, '{"v":1,"d":null}'),
        ):
            where = (text, f"i-{number}")
            edited.execute("UPDATE intents SET document = ? WHERE intent_id = ?", where)
    edited.close()
    loop = Loop(
        Surroundings(
            store=store,
            executors={},
            now=lambda: NOW,
            new_ids=iter(()),
            token_of=str,
            api_url="",
        )
    )
    loop.open()
    loop.cycle()
    for number in range(3):
        verdict = store.verdict(IntentId(f"i-{number}"))
        assert verdict is not None
        assert verdict.error == "Unavailable"
        assert "another release" in verdict.text
    verdict = store.verdict(IntentId("i-3"))
    assert verdict is not None
    assert "another release" not in verdict.text
    assert store.asked() == Asked()
    with pytest.raises(Unavailable, match="another release"):
        store.intent_with_key(INTENT.by, "0", "")
    store.close()


def test_what_another_release_has_written_is_not_there_for_now(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(url)
    job = Workload(
        workload_id=WorkloadId("w"), spec=a_job(), state=State.QUEUED, submitted_ms=T0, since_ms=T0
    )
    epoch = store.take_lead("me")
    team = Team(name=TeamName("vision"))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(job,), teams=(team,)))
    with sqlite3.connect(tmp_path / "state" / "store.db") as edited:
        newer = '{"v":1,"d":{"of_the_next_release":"its value"}}'
        edited.execute("UPDATE workloads SET standing = ?", (newer,))
        edited.execute("UPDATE documents SET document = ?", (newer,))
    edited.close()

    reads: list[Callable[[], object]] = [
        store.load,
        store.mirror().refresh,
        lambda: store.workload(job.workload_id),
        lambda: store.workloads(WorkloadFilter()),
    ]
    for read in reads:
        with pytest.raises(Unavailable, match="another release") as refused:
            read()
        assert "next_release" not in str(refused.value)
        assert "unknown fields ['of_the_next_release']" in caplog.text
        caplog.clear()
    store.close()


def test_what_was_acknowledged_survives_a_kill(url: str) -> None:
    script = """
import os, sys
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.intents import Intent, Keep
from gpucommons.scheduler.core.model.state import Changes, Event
store = open_store(sys.argv[1])
epoch = store.take_lead("me")
store.put_intent(Intent(intent_id="i-1", action=Keep(workload_id="w", for_ms=5), by="ada", at_ms=1000))
store.commit(epoch, Changes(now_ms=7, events=(Event(at_ms=7, kind="k", by="b", text="t"),)))
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script, url], check=False).returncode == -9
    store = open_store(url)
    store.take_lead("next")
    assert store.asked().intents == (INTENT,)
    assert (store.last_event_number(), store.load().now_ms) == (1, 7)
    store.close()


def test_only_one_process_leads(url: str) -> None:
    first, second = open_store(url), open_store(url)
    first.take_lead("first")
    first.take_lead("first again")
    with pytest.raises(Unavailable, match="Another scheduler holds"):
        second.take_lead("second")
    first.close()
    second.take_lead("second")
    second.close()


def test_nobody_else_can_read_it(url: str, tmp_path: Path) -> None:
    store = open_store(url)
    store.take_lead("me")
    modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in (tmp_path / "state").iterdir()}
    assert set(modes.values()) == {0o600}, modes
    store.close()


def test_commits_are_synchronous(url: str, tmp_path: Path) -> None:
    opened = engine.open_engine(url)
    with opened.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    opened.dispose()


def test_the_migrations_make_the_tables_that_the_code_uses(url: str) -> None:
    opened = engine.open_engine(url)
    with opened.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, tables.metadata) == []
        assert context.get_current_revision() == engine.HEAD
    opened.dispose()
    assert ScriptDirectory(str(Path(engine.__file__).parents[1] / "migrations")).get_heads() == [
        engine.HEAD
    ]


def test_opening_current_tables_does_not_need_the_migrations(url: str) -> None:
    open_store(url).close()
    script = (
        "import sys; from gpucommons.scheduler.store.opening import open_store;"
        "open_store(sys.argv[1]).close(); print('alembic' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, url], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize("bad", ["", "oracle://x", "sqlite://", "sqlite:///:memory:", "no url"])
def test_an_address_that_is_no_store_is_refused_with_what_is_possible(bad: str) -> None:
    with pytest.raises(BadRequest, match="sqlite"):
        open_store(bad)


def test_a_missing_driver_is_refused_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BadRequest, match="pip install"):
        open_store("postgresql://127.0.0.1:1/none")


def test_a_refusal_never_shows_a_password() -> None:
    with pytest.raises(Unavailable) as refused:
        open_store("postgresql://ada:sesame@127.0.0.1:1/none")
    assert "sesame" not in str(refused.value)


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes. " * 100)
    with pytest.raises(Unavailable, match="not a database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == "These are my notes. " * 100


def test_a_database_that_went_away_is_said_to_be_unavailable(url: str, tmp_path: Path) -> None:
    store = open_store(url)
    blocker = sqlite3.connect(tmp_path / "state" / "store.db")
    blocker.execute("DROP TABLE intents")
    blocker.close()
    with pytest.raises(Unavailable, match="does not answer"):
        store.asked()
    store.close()


def test_a_large_lookup_is_split(url: str) -> None:

    opened = engine.open_engine(url)
    with opened.connect() as connection:
        ids = [WorkloadId(f"w-{number}") for number in range(70_000)]
        assert cluster.by_id(connection, ids) == {}
    opened.dispose()
    create_engine(url).dispose()


def test_what_is_old_is_found_without_a_look_at_all_the_rest(url: str) -> None:
    opened = engine.open_engine(url)
    with opened.connect() as connection:
        for statement in history.olds(NOW):
            asked = statement.compile(opened, compile_kwargs={"literal_binds": True})
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}").all()
            assert plan
            assert [step[-1] for step in plan if "SCAN" in step[-1]] == []
    opened.dispose()


def test_a_report_does_not_look_at_the_whole_curve(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucommons.scheduler.store.rules.MAX_POINTS", 100)
    store, job = SqlStore(url), WorkloadId("w")
    epoch = store.take_lead("me")
    asked: list[str] = []
    event.listen(
        store._writers,
        "before_cursor_execute",
        lambda *call: asked.append(call[2]) if "count(" in call[2] else None,
    )

    def report(step: int) -> None:
        point = LogPoint(attempt_number=1, step=step, at_ms=NOW, metrics={"loss": 0.5})
        store.add_points(epoch, {job: [point]})

    for step in range(100):
        report(step)
    assert len(asked) == 1, "the first time, nothing is known of it"
    longest = 0
    for step in range(100, 1_000):
        report(step)
        longest = max(longest, len(store.points(job)))
    assert 100 <= longest <= 105
    assert len(asked) <= 1 + 900 // 50
    asked.clear()
    for _ in range(500):
        report(999)
    assert len(asked) <= 500 // 5
    store.close()


def test_what_was_taken_back_or_written_by_another_leader_counts_in_a_curve(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpucommons.scheduler.store.rules.MAX_POINTS", 100)
    store, job = SqlStore(url), WorkloadId("w")
    epoch = store.take_lead("me")

    def report(first: int, last: int) -> None:
        points = [
            LogPoint(attempt_number=1, step=step, at_ms=NOW, metrics={"loss": 0.5})
            for step in range(first, last)
        ]
        store.add_points(epoch, {job: points})

    report(0, 90)
    with monkeypatch.context() as broken:
        broken.setattr(curves, "delete", None)
        with pytest.raises(TypeError):
            report(90, 150)
    report(90, 99)
    assert len(store.points(job)) == 99
    another = SqlStore(url)
    another._leader_lock = None
    epoch = another.take_lead("another")
    another.add_points(epoch, {job: [LogPoint(attempt_number=2, step=0, at_ms=NOW)]})
    another.close()
    epoch = store.take_lead("me again")
    report(99, 103)
    assert len(store.points(job)) == 52
    store.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:/bob:s3cret@db/x",
        "postgresql//bob:s3cret@db/x",
        "bob:s3cret@db/x",
        "postgresql://bob:s3cret@db:543x2/x",
        "postgresql://bob:p@s3cret/w@db/x",
        "postgresql+asyncpg://bob:s3cret@db/x",
    ],
)
def test_an_address_that_cannot_be_used_is_not_repeated(address: str) -> None:
    with pytest.raises(BadRequest, match="use sqlite:///PATH or postgresql://") as refused:
        open_store(address)
    assert "s3cret" not in str(refused.value)
    assert "bob" not in str(refused.value)


def test_where_a_sweep_stands_is_written_only_when_that_has_changed(url: str) -> None:
    store = SqlStore(url)
    sweep = Sweep(
        sweep_id=ParentId("s"),
        kind=ParentKind.SWEEP,
        name="digits",
        owner=UserName("ada"),
        team=TeamName("vision"),
        made_ms=NOW,
        budget=Budget(trials=3),
        request="{}",
    )
    epoch = store.take_lead("me")
    store.sweeps.put(sweep)
    written: list[str] = []
    event.listen(
        store._writers,
        "before_cursor_execute",
        lambda *call: written.append(call[2]) if call[2].startswith("UPDATE sweeps") else None,
    )
    record = Improvements(points=(Improvement(at_ms=NOW, trial=1, value=0.5),))
    stands = Standing(improvements=record)
    for best in (0.5, 0.4, 0.3):
        trial = Trial(number=1, values={}, best=best)
        store.sweeps.stand(epoch, Kept(sweep=sweep, standing=stands), [trial])
        assert store.sweeps.trials(sweep.sweep_id) == (trial,)
    assert len(written) == 1
    over = replace(stands, ended_ms=NOW)
    store.sweeps.stand(epoch, Kept(sweep=sweep, standing=over), [])
    assert (store.sweeps.one(sweep.sweep_id), store.sweeps.live()) == (
        Kept(sweep=sweep, standing=over),
        (),
    )

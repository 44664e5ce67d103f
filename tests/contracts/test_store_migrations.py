"""Tables of an earlier release are brought up to date with what they hold."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from stored_rows import NOW, VISION, event, spec, submit

from gpucommons.scheduler.core.model.intents import Submit
from gpucommons.scheduler.core.model.types import Kind, Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.store.base import EventSight
from gpucommons.scheduler.store.codec import encode
from gpucommons.scheduler.store.migrations.versions import r0004_audience
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.reports.base import Steps
from gpucommons.scheduler.store.sql import engine

pytestmark = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)


def filled(url: str, revision: str, statement: str, rows: list[dict[str, object]]) -> None:
    """Tables as an earlier release left them."""
    made = engine.connected(url)
    with engine.writing(made) as connection:
        engine.upgrade(connection, revision)
        connection.execute(text(statement), rows)
    made.dispose()


def test_events_of_an_earlier_release_are_seen_by_the_same_people(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(r0004_audience, "_BATCH", 2)
    told = (
        event("a", team=VISION),
        event("b", team=TeamName("nlp")),
        event("c"),
        event('d "team":"vision","data":{'),
        event("e", by="änn's \"%_"),
    )
    rows: list[dict[str, object]] = [
        {"number": number, "at": NOW, "document": encode(one)} for number, one in enumerate(told, 3)
    ]
    statement = (
        "INSERT INTO events (number, at_ms, kind, document) VALUES (:number, :at, 'k', :document)"
    )
    filled(url, "0003", statement, rows)
    store = open_store(url)

    def seen(sight: EventSight) -> list[str]:
        return [one.event.text[0] for one in store.events(sight=sight)]

    assert seen(EventSight(teams=frozenset({VISION}))) == ["a"]
    assert seen(EventSight(teams=frozenset({VISION}), by="ada")) == ["a", "c", "d"]
    assert seen(EventSight(by="änn's \"%_")) == ["e"]
    store.close()


def test_submits_that_no_cycle_has_seen_count_after_an_upgrade(url: str) -> None:
    notebook = Submit(workload_id=WorkloadId("w-0003"), spec=spec(kind=Kind.NOTEBOOK))
    asked = (submit(1), submit(2), submit(3, action=notebook))
    rows: list[dict[str, object]] = [
        {
            "id": one.intent_id,
            "of": f"w-000{number}",
            "said": "{}" if number == 2 else None,
            "document": encode(one),
        }
        for number, one in enumerate(asked, 1)
    ]
    statement = (
        'INSERT INTO intents (intent_id, "by", at_ms, workload_id, document, verdict)'
        " VALUES (:id, 'ada', 0, :of, :document, :said)"
    )
    filled(url, "0004", statement, rows)
    store = open_store(url)
    assert store.pending_jobs(UserName("ada")) == {"w-0001"}
    store.close()


def test_minutes_of_an_earlier_release_get_the_project_of_their_job(url: str) -> None:
    of_thesis = spec(labels={"project": " thesis\n2 "})
    for number, asked in enumerate((of_thesis, spec(), spec(labels={"origin": "project"}))):
        row = {"id": f"w-{number}", "spec": encode(asked)}
        filled(
            url,
            "0015",
            "INSERT INTO workloads (workload_id, kind, state, live, team, owner, name,"
            " submitted_ms, spec, standing) VALUES (:id, 'training', 'queued', false, 'vision',"
            " 'ada', 'digits', 0, :spec, '')",
            [row],
        )
        filled(
            url,
            "0015",
            "INSERT INTO ledger (workload_id, minute_ms, team, pool, owner, kind, hold_class,"
            " held_milli_gpu_ms, lost_milli_gpu_ms, idle) VALUES (:id, 0, 'vision', 'train',"
            " 'ada', 'training', 'guaranteed', 1, 0, false)",
            [row],
        )
    store = open_store(url)
    found = store.reports.usage(Steps(from_ms=Millis(0), to_ms=Millis(1)))
    assert [(one.project, one.held) for one in found] == [("", 2), ("thesis 2", 1)]
    # Of minutes that were written before nothing is said to be parked.
    assert {one.parked for one in found} == {0}
    store.close()

"""Old rows go a few at a time: while a statement drops them, nobody else can write."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from gpucommons.scheduler.core.model.state import Changes, Event
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.sql import cluster, history
from gpucommons.scheduler.store.sql.store import SqlStore

NOW = Millis(1_000_000)


def test_a_long_past_goes_in_many_short_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "ROWS_AT_ONCE", 10)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    assert isinstance(store, SqlStore)
    epoch = store.take_lead("me")
    past = tuple(Event(at_ms=Millis(n), kind="k", by="b", text=str(n)) for n in range(95))
    new = Event(at_ms=NOW, kind="k", by="b", text="new")
    store.commit(epoch, Changes(now_ms=NOW, events=(*past, new)))
    dropped: list[int] = []

    def seen(_c: Any, cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("DELETE"):
            dropped.append(cursor.rowcount)

    def commit(_connection: Any) -> None:
        dropped.append(-1)

    event.listen(store._writers, "after_cursor_execute", seen)
    event.listen(store._writers, "commit", commit)
    assert store.prune(epoch, before_ms=NOW, kept=()) == 95
    assert max(dropped) == 10
    # Each of them on its own.
    assert all(-1 in pair for pair in itertools.pairwise(dropped))
    assert [one.event.text for one in store.events()] == ["new"]
    store.close()


def test_nothing_of_the_present_is_read_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    epoch = store.take_lead("me")

    def load(_connection: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(cluster, "load", load)
    assert store.prune(epoch, before_ms=NOW, kept=()) == 0
    store.close()

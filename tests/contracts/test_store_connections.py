"""However many read, and however slowly: the leader writes, and who waits in vain is told so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection

from gpucommons.scheduler.core.model.intents import Intent, Keep
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import IntentId, Millis, UserName, WorkloadId
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.store.sql import engine
from gpucommons.scheduler.store.sql.store import SqlStore

ALL_READERS = 3 * engine.READERS
INTENT = Intent(
    intent_id=IntentId("i-1"),
    action=Keep(workload_id=WorkloadId("w"), for_ms=5),
    by=UserName("ada"),
    at_ms=Millis(1),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def crowded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqlStore]:
    """A store whose readers all read, and go on reading."""
    monkeypatch.setattr(engine, "POOL_TIMEOUT_S", 0.01)
    address = f"sqlite:///{tmp_path}/store.db"
    if request.param == "postgresql":
        address = str(request.getfixturevalue("database"))
    store = SqlStore(address)
    over, reading = threading.Event(), threading.Semaphore(0)

    def slow(_: Connection) -> None:
        reading.release()
        over.wait()

    with ThreadPoolExecutor(ALL_READERS) as threads:
        readers: list[Future[None]] = [
            threads.submit(store._read, slow) for _ in range(ALL_READERS)
        ]
        for _ in readers:
            reading.acquire()
        yield store
        over.set()
        for one in readers:
            one.result()
    store.close()


def test_a_leader_asks_and_commits_while_every_reader_is_busy(crowded: SqlStore) -> None:
    epoch = crowded.take_lead("me")
    crowded.put_intent(INTENT)
    assert crowded.asked().intents == (INTENT,)
    crowded.commit(epoch, Changes(now_ms=Millis(7)))
    assert crowded.load().now_ms == 7
    crowded.check_lead(epoch)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.last_event_number(),
        lambda store: store.mirror().refresh(),
    ],
)
def test_who_gets_no_connection_is_told_to_try_again(
    crowded: SqlStore, ask: Callable[[SqlStore], object]
) -> None:
    with pytest.raises(Unavailable, match="no free connection"):
        ask(crowded)

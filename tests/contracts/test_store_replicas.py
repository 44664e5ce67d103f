"""The contract of every store, as replicas need it: who leads, and what the others see."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from sqlalchemy import Connection, text

from gpucommons.scheduler.core.model.intents import Cancel, Intent
from gpucommons.scheduler.core.model.lifecycle import LEASES_REMEMBERED_MS
from gpucommons.scheduler.core.model.resources import Node, Policy, Pool, Team
from gpucommons.scheduler.core.model.state import Changes, Cluster
from gpucommons.scheduler.core.model.types import (
    IntentId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import LeaderLost, Unavailable
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.base import Epoch, Store
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.sql import cluster, engine
from gpucommons.scheduler.store.sql import store as sql

NOW = Millis(1_700_000_000_000)


def workload(number: int, state: State = State.QUEUED, **changes: object) -> Workload:
    spec = Spec(
        kind=Kind.TRAINING,
        name=f"digits-{number}",
        team=TeamName("vision"),
        owner=UserName("ada"),
        submitted_by=UserName("ada"),
        pools=(PoolName("train"),),
        roles=(Role(command=("true",)),),
    )
    return Workload(
        workload_id=WorkloadId(f"w-{number}"),
        spec=replace(spec, **changes),  # type: ignore[arg-type] # any field
        state=state,
        submitted_ms=NOW,
        since_ms=NOW,
        ended_ms=NOW if state in (State.SUCCEEDED, State.ENDED) else None,
    )


def names(cluster: Cluster) -> dict[str, State]:
    return {w.spec.name: w.state for w in cluster.workloads.values()}


def test_a_leader_learns_that_it_leads_no_more(store: Store) -> None:
    assert store.leader() == ""
    first = store.take_lead("first")
    store.check_lead(first)
    second = store.take_lead("second")
    with pytest.raises(LeaderLost):
        store.check_lead(first)
    store.check_lead(second)
    assert store.leader() == "second"


def cut_off(store: Store, epoch: Epoch) -> Connection:
    """A leader's transaction whose machine is gone: nothing more is heard of it, not even its end."""
    assert isinstance(store, sql.SqlStore)
    connection = store._engine.connect()
    connection.begin()
    cluster.check_lead(connection, epoch)
    return connection


def test_a_leader_that_dies_in_a_transaction_has_a_successor(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engine._SERVER, "idle_in_transaction_session_timeout", "1s")
    old, new = open_store(database), open_store(database)
    dead = cut_off(old, old.take_lead("old"))
    epoch = new.take_lead("new")
    assert new.leader() == "new"
    new.commit(epoch, Changes(now_ms=NOW, workloads=(workload(1),)))
    with pytest.raises(Unavailable), sql._answering():
        dead.execute(text("SELECT 1"))
    dead.close()
    for one in (old, new):
        one.close()


def test_who_waits_for_a_leaders_transaction_waits_no_longer_than_it_should(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engine._SERVER, "lock_timeout", "200ms")
    old, new = open_store(database), open_store(database)
    held = cut_off(old, old.take_lead("old"))
    with pytest.raises(Unavailable, match="does not answer"):
        new.take_lead("new")
    held.close()
    assert new.take_lead("new")
    for one in (old, new):
        one.close()


def test_after_a_failure_a_leader_waits_for_what_it_may_have_written(database: str) -> None:
    """The connection broke during COMMIT; the server finishes it a moment later."""
    store = open_store(database)
    loop = Loop(
        Surroundings(
            store=store,
            executors={},
            now=lambda: NOW,
            new_ids=IdSource(lambda: NOW),
            token_of=str,
            api_url="http://127.0.0.1:1",
        )
    )
    loop.open()
    store.commit(loop.epoch, Changes(now_ms=NOW, workloads=(workload(1),)))
    assert isinstance(store, sql.SqlStore)
    with store._engine.connect() as in_doubt, store._engine.connect() as looking:
        begun = in_doubt.begin()
        lead = cluster.check_lead(in_doubt, loop.epoch)
        changes = Changes(now_ms=NOW, workloads=(workload(1, State.CANCELLING),))
        cluster.write(in_doubt, changes, lead.commit)
        catching_up = threading.Thread(target=loop._catch_up)
        catching_up.start()
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        wait_until(lambda: looking.execute(waiting).scalar() or not catching_up.is_alive())
        begun.commit()
        catching_up.join()
    assert names(loop.cluster) == {"digits-1": State.CANCELLING}
    loop.stop()
    store.close()


def test_a_mirror_shows_each_commit_and_is_the_same_object_between_them(store: Store) -> None:
    mirror = store.mirror()
    assert names(mirror.refresh()) == {}
    epoch = store.take_lead("me")
    team = Team(name=TeamName("vision"), members=frozenset({UserName("ada")}))
    pools = (Pool(name=PoolName("train")), Pool(name=PoolName("build")))
    store.commit(
        epoch, Changes(now_ms=NOW, teams=(team,), pools=pools, workloads=(workload(1), workload(2)))
    )
    first = mirror.refresh()
    assert names(first) == {"digits-1": State.QUEUED, "digits-2": State.QUEUED}
    assert mirror.refresh() is first
    later = Millis(NOW + 1000)
    store.commit(
        epoch,
        Changes(
            now_ms=later,
            workloads=(workload(1, State.RUNNING), workload(2, State.SUCCEEDED)),
            policy=Policy(),
            usage={(TeamName("vision"), PoolName("train")): 5},
        ),
    )
    second = mirror.refresh()
    assert names(second) == {"digits-1": State.RUNNING}
    assert (second.now_ms, second.usage_at_ms) == (later, later)
    assert second == store.load()
    assert second.teams == {team.name: team}
    store.commit(
        epoch,
        Changes(
            now_ms=Millis(later + 1),
            removed_teams=(team.name,),
            usage={(TeamName("vision"), PoolName("train")): 9},
        ),
    )
    assert mirror.refresh() == store.load()
    assert mirror.refresh().teams == {}
    node = Node(node_id=NodeId("n"), pool=PoolName("train"), devices=(), cpu_milli=1, memory_mib=1)
    store.commit(epoch, Changes(now_ms=later, nodes=(node,)))
    assert mirror.refresh().nodes == {node.node_id: node}
    store.commit(epoch, Changes(now_ms=later, removed_nodes=(node.node_id,)))
    assert mirror.refresh().nodes == {}


def test_a_mirror_keeps_what_a_leader_would_load(store: Store) -> None:
    epoch, mirror = store.take_lead("me"), store.mirror()
    lease = workload(3, State.ENDED, kind=Kind.NOTEBOOK)
    done = workload(1, State.SUCCEEDED)
    waiting = workload(2, after=(done.workload_id,))
    store.commit(epoch, Changes(now_ms=NOW, workloads=(workload(1),)))
    mirror.refresh()
    store.commit(epoch, Changes(now_ms=NOW, workloads=(done, lease)))
    assert mirror.refresh() == store.load()
    store.commit(epoch, Changes(now_ms=NOW, workloads=(waiting,)))
    assert set(names(mirror.refresh())) == {"digits-1", "digits-2", "digits-3"}
    later = Millis(NOW + LEASES_REMEMBERED_MS + 1)
    store.commit(epoch, Changes(now_ms=later, workloads=(workload(2, State.SUCCEEDED),)))
    assert mirror.refresh() == store.load()
    assert names(mirror.refresh()) == {}


def test_replicas_hear_of_each_others_writes_and_not_of_their_own(database: str) -> None:
    ours, theirs = open_store(database), open_store(database)
    heard: list[str] = []
    news = threading.Event()

    def hear(kind: str) -> None:
        heard.append(kind)
        news.set()

    stop = theirs.listen(hear)
    wait_until(lambda: heard == ["committed", "asked"])
    intent = Intent(
        intent_id=IntentId("i-1"),
        action=Cancel(workload_id=WorkloadId("w-1")),
        by=UserName("ada"),
        at_ms=NOW,
    )
    theirs.put_intent(replace(intent, intent_id=IntentId("i-2")))
    ours.put_intent(intent)
    wait_until(lambda: heard[2:] == ["asked"])
    epoch = ours.take_lead("ours")
    ours.commit(epoch, Changes(now_ms=NOW, workloads=(workload(1),)))
    wait_until(lambda: heard[2:] == ["asked", "committed"])
    stop()
    ours.close()
    theirs.close()


def test_replicas_share_the_databases_clock(database: str) -> None:
    store = open_store(database)
    found = store.now_ms()
    assert found is not None
    assert abs(found - time.time() * 1000) < 60_000
    store.close()


def wait_until(condition: object) -> None:
    assert callable(condition)
    give_up_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)  # another connection's thread

"""What the release before the renames stored is read by today's, and all that ran or waited goes on.

``earlier_release/before_the_renames.sql`` is what the loop of commit ``de65872`` (2026-11-24) had written to
SQLite after some minutes on a fake machine with four GPUs, as ``sqlite3.Connection.iterdump`` shows it;
``make.md`` beside it is the program. A notebook of vision is active and another one waits for its GPU. A job
runs inside each team's guarantee. A third borrows and was told to stop for one of vision, which is nominated.
One is paused, one waits, and one was asked for and not decided.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.intents import Action, Cancel, Intent, Resume
from gpucommons.scheduler.core.model.resources import Block
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    HoldClass,
    IntentId,
    Kind,
    Millis,
    State,
    TeamName,
    UserName,
    Workload,
)
from gpucommons.scheduler.executors.fake import FakeExecutor
from gpucommons.scheduler.executors.fake_world import FakeWorld, Run, Script
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.opening import open_store

STORED = Path(__file__).parent / "earlier_release" / "before_the_renames.sql"


class Rig:
    """Today's scheduler, with the database and the processes that the earlier one left."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url)
        self.before = self.store.load()
        self.now_ms = self.before.now_ms
        jobs = [one for one in self.before.workloads.values() if one.spec.kind is not Kind.NOTEBOOK]
        left = [one.current for one in jobs if one.current is not None]
        self.world = FakeWorld(
            now=lambda: Millis(self.now_ms),
            nodes=tuple(self.before.nodes.values()),
            runs={one.attempt_id: Run(script=Script(), began_ms=one.reserved_ms) for one in left},
        )
        self.ids = IdSource(lambda: self.now_ms, lambda _bits: 0)
        self.loop = Loop(
            Surroundings(
                store=self.store,
                executors={"fake": FakeExecutor(self.world)},
                now=lambda: Millis(self.now_ms),
                new_ids=self.ids,
                token_of=lambda attempt_id: f"token of {attempt_id}",
                api_url="http://127.0.0.1:1",
            )
        )
        self.loop.open()

    def cycles(self, count: int = 3, step_ms: int = 1000) -> None:
        for _ in range(count):
            self.now_ms += step_ms
            self.loop.cycle()

    def ask(self, action: Action, by: str) -> None:
        self.store.put_intent(
            Intent(
                intent_id=IntentId(next(self.ids)),
                action=action,
                by=UserName(by),
                at_ms=Millis(self.now_ms),
            )
        )

    def of(self, name: str) -> Workload:
        """A job by its name, a notebook by its owner."""
        (found,) = (
            one
            for one in self.store.load().workloads.values()
            if (one.spec.owner if one.spec.kind is Kind.NOTEBOOK else one.spec.name) == name
        )
        return found

    def attempt(self, name: str) -> AttemptId | None:
        current = self.of(name).current
        return None if current is None else current.attempt_id


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    path = folder / "store.db"
    with sqlite3.connect(path) as made:
        made.executescript(STORED.read_text(encoding="utf-8"))
    made.close()
    path.chmod(0o600)
    found = Rig(f"sqlite:///{path}")
    yield found
    found.store.close()


def test_all_that_was_stored_is_read_as_it_was(rig: Rig) -> None:
    states = {
        one.spec.owner if one.spec.kind is Kind.NOTEBOOK else one.spec.name: one.state
        for one in rig.before.workloads.values()
    }
    assert states == {
        "ada": State.ACTIVE,
        "ann": State.WAITING,
        "in-guarantee": State.RUNNING,
        "inside": State.RUNNING,
        "borrows": State.RUNNING,
        "claims": State.NOMINATED,
        "later": State.PAUSED,
        "waits": State.QUEUED,
    }
    (block,) = rig.before.blocks
    assert isinstance(block, Block)
    assert {name: len(team.quotas) for name, team in rig.before.teams.items()} == {
        "vision": 1,
        "audio": 1,
    }
    stop = rig.of("borrows").current.stop  # type: ignore[union-attr] # it runs
    assert stop is not None
    cause = eviction_cause.of_guarantee(TeamName("vision"))
    assert (stop.why, stop.rule, stop.text) == (cause.why, cause.rule, cause.text)
    assert stop.beneficiary == rig.of("claims").workload_id
    (asked,) = rig.store.asked().intents
    assert asked.by == "bob"
    assert [one.number for one in rig.store.events(limit=1000)] == list(range(1, 26))
    assert rig.store.ledger(from_ms=Millis(0), to_ms=Millis(rig.now_ms))


def test_what_runs_goes_on_where_it_was_and_a_stop_that_was_announced_is_carried_out(
    rig: Rig,
) -> None:
    going_on = ("ada", "in-guarantee", "inside")
    before = {name: rig.attempt(name) for name in going_on}
    borrower = rig.attempt("borrows")

    rig.cycles()

    assert rig.attempt("borrows") == borrower
    assert rig.world.starts == []
    rig.cycles(count=40)

    assert {name: rig.attempt(name) for name in going_on} == before
    assert rig.of("borrows").attempts[0].ended_ms is not None
    claims = rig.of("claims")
    assert claims.state is State.RUNNING
    assert claims.current is not None
    assert claims.current.hold_class is HoldClass.GUARANTEED
    assert rig.world.starts == [claims.current.attempt_id]


def test_what_was_asked_is_decided_and_what_waits_waits_with_its_place_in_line(rig: Rig) -> None:
    (asked,) = rig.store.asked().intents
    since = {name: rig.of(name).since_ms for name in ("ann", "waits")}

    rig.cycles()

    verdict = rig.store.verdict(asked.intent_id)
    assert verdict is not None
    assert verdict.error is None
    assert rig.store.asked().intents == ()
    assert rig.of("asked").state is State.QUEUED
    assert {name: rig.of(name).since_ms for name in since} == since
    assert rig.of("ann").reason is not None


def test_a_ticket_gets_the_gpu_of_the_notebook_that_ends_and_a_paused_job_its_place_in_line(
    rig: Rig,
) -> None:
    rig.ask(Cancel(workload_id=rig.of("ada").workload_id, why="stopped"), "ada")
    rig.ask(Resume(workload_id=rig.of("later").workload_id), "bob")
    rig.cycles()
    lease = rig.attempt("ada")
    assert lease is not None
    rig.loop.observe(AttemptEnded(attempt_id=lease, exit_code=None))

    rig.cycles()

    assert rig.of("ann").state is State.GRANTED
    assert rig.of("ann").current is not None
    assert rig.of("later").state is State.QUEUED


def test_what_today_writes_over_it_is_read_again(rig: Rig) -> None:
    rig.cycles(count=40)

    again = rig.store.load()

    assert again.workloads == rig.loop.cluster.workloads
    assert (again.teams, again.pools, again.blocks) == (
        rig.before.teams,
        rig.before.pools,
        rig.before.blocks,
    )
    numbers = [one.number for one in rig.store.events(limit=1000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 25

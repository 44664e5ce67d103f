"""After a restore of a backup everything that it knew goes on, and nothing runs twice."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.scheduler.core.model.intents import Intent, NoteAgent, Pause, Submit
from gpucommons.scheduler.core.model.state import AttemptEnded, Changes, Cluster, Event
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    IntentId,
    Millis,
    State,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Found
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.loop.after_restore import Clocks, not_yet_reconciled, reconcile
from gpucommons.scheduler.models.history import RECONCILED, RESTORED
from gpucommons.scheduler.store.backup import tables
from gpucommons.scheduler.store.backup.file import Origin, Reader
from gpucommons.scheduler.store.base import Store, WorkloadFilter
from gpucommons.scheduler.store.memory import MemoryStore
from gpucommons.scheduler.store.opening import open_store
from tests.scheduler.loop.test_loop_restarts import A_JOB, Crash, Rig, cycles, with_one_team

RUN_MS, NOW = 20_000, Millis(1_700_000_000_000)
NOBODY = Cluster()


class Kept(Rig):
    """The same rig, whose store is a file that can be backed up and is lost."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Script(run_ms=RUN_MS))
        self._folder = folder
        self._number = 0
        self.store = self.opened()  # type: ignore[assignment] # any store

    def opened(self) -> Store:
        return open_store(self._url())

    def _url(self) -> str:
        return f"sqlite:///{self._folder}/{self._number}.db"

    def back_up(self) -> bytes:
        file = io.BytesIO()
        tables.back_up(self._url(), file, Origin(version="0.1.0", head="", made_ms=self.now_ms))
        return file.getvalue()

    def restore(self, backup: bytes) -> None:
        """The database is lost; what runs is not."""
        self.store.close()
        self._number += 1
        tables.restore(self._url(), Reader(io.BytesIO(backup), "backup"), now_ms=self.now_ms)
        self.store = self.opened()  # type: ignore[assignment] # any store

    def state(self, job: WorkloadId) -> State:
        found = self.store.workload(job)
        assert found is not None
        return found.state

    def reconciled(self) -> dict[str, list[str]]:
        (one,) = self.store.events(kinds=frozenset({RECONCILED}))
        return dict(one.event.data)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Kept]:
    made = with_one_team(Kept(tmp_path))
    yield made
    made.store.close()


def test_a_job_that_runs_is_found_again_and_goes_on(rig: Kept) -> None:
    job = rig.submit()
    cycles(rig, rig.boot(), 3)
    backup = rig.back_up()
    rig.restore(backup)
    loop = rig.boot()
    cycles(rig, loop, 3)
    assert rig.state(job) is State.RUNNING
    assert rig.reconciled()["found"] == ["vision/digits-1"]
    cycles(rig, loop, 30, step_ms=1000)
    assert rig.state(job) is State.SUCCEEDED
    assert len(rig.world.starts) == 1


def test_what_was_found_is_told_once_however_often_it_starts(rig: Kept) -> None:
    rig.submit()
    cycles(rig, rig.boot(), 3)
    rig.restore(rig.back_up())
    for _ in range(3):
        cycles(rig, rig.boot(), 2)
    told = [one.event for one in rig.store.events() if one.event.kind in (RESTORED, RECONCILED)]
    assert [one.kind for one in told] == [RESTORED, RECONCILED]
    assert told[1].text == "A backup was restored. Jobs found again: vision/digits-1."


def test_a_job_that_ended_well_since_the_backup_is_paused_and_not_run_again(rig: Kept) -> None:
    running, waiting = rig.submit(), rig.submit()
    loop = rig.boot()
    cycles(rig, loop, 3)
    backup = rig.back_up()
    cycles(rig, loop, 60, step_ms=1000)
    assert (rig.state(running), rig.state(waiting)) == (State.SUCCEEDED, State.SUCCEEDED)
    rig.restore(backup)
    loop = rig.boot()
    cycles(rig, loop, 5)
    assert rig.state(waiting) is State.PAUSED
    assert rig.reconciled()["paused"] == ["vision/digits-1"]
    cycles(rig, loop, 60, step_ms=1000)
    assert rig.state(waiting) is State.PAUSED


def test_what_the_backup_did_not_know_is_stopped_and_named(rig: Kept) -> None:
    loop = rig.boot()
    cycles(rig, loop, 2)
    backup = rig.back_up()
    rig.submit()
    cycles(rig, loop, 3)
    assert len(rig.world.running()) == 1
    rig.restore(backup)
    rig.boot()
    assert rig.world.running() == frozenset()
    cycles(rig, rig.boot(), 2)
    assert rig.reconciled()["stopped"] == ["digits-1"]
    assert rig.store.workloads(WorkloadFilter()).items == ()


class Watched:
    """What a restored scheduler finds beside its store."""

    def __init__(self, *found: Found) -> None:
        self.found = found

    def since(self, _at_ms: Millis) -> tuple[Found, ...]:
        return self.found

    def adopt(self, _cluster: Cluster) -> tuple[AttemptEnded, ...]:
        return ()


def restored(*jobs: str) -> MemoryStore:
    """A backup that knows these jobs as asked for."""
    store = MemoryStore()
    told = Event(at_ms=NOW, kind=RESTORED, by="cli", text="", data={"backup_ms": NOW})
    store.commit(store.take_lead("me"), Changes(now_ms=NOW, events=(told,)))
    for job in jobs:
        ask = Submit(workload_id=WorkloadId(job), spec=A_JOB)
        store.put_intent(Intent(intent_id=IntentId(job), action=ask, by=UserName("ada"), at_ms=NOW))
    return store


def test_a_job_has_its_own_name_where_a_cluster_knows_only_whose_it_is() -> None:
    job = WorkloadId("a")
    live = Workload(workload_id=job, spec=A_JOB, submitted_ms=NOW, since_ms=NOW, state=State.QUEUED)
    done = replace(ended_well(job), name="a job of ada")
    store = restored()
    look(store, Watched(done), cluster=Cluster(workloads={job: live}))
    (note,) = (one.action for one in store.asked().intents if isinstance(one.action, NoteAgent))
    assert note.text.endswith(f"resume or cancel them: vision/{A_JOB.name}.")


def look(
    store: MemoryStore, found: Watched, *, stopping: bool = False, cluster: Cluster = NOBODY
) -> list[str]:
    """Start once; returns whom it has paused by then."""
    steady = itertools.count()
    clocks = Clocks(now=lambda: NOW, steady_s=lambda: next(steady), wait=lambda _s: stopping)
    reconcile(store, found, cluster, clocks)  # type: ignore[arg-type] # what it asks of Acting
    asked = [one.action for one in store.asked().intents]
    return sorted(one.workload_id for one in asked if isinstance(one, Pause))


def ended_well(job: str) -> Found:
    return Found(
        attempt_id=AttemptId(f"a-{job}"), job_id=job, name=job, running=False, succeeded=True
    )


def test_a_start_that_is_repeated_pauses_also_what_ended_in_between() -> None:
    store = restored("a", "b")
    assert look(store, Watched(ended_well("b"))) == ["b"]
    assert look(store, Watched(ended_well("a"), ended_well("b"))) == ["a", "b"]


def test_a_scheduler_that_is_stopped_while_it_waits_says_nothing_of_what_it_found() -> None:
    running = Found(attempt_id=AttemptId("a-x"), job_id="x", name="x", running=True)
    store = restored("b")
    assert look(store, Watched(running, ended_well("b")), stopping=True) == []
    assert not_yet_reconciled(store) is not None
    assert look(store, Watched(running, ended_well("b"))) == ["b"]


STEPS = ("submit", "wait", "long")


@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(rig: Kept, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a story, the same in each run
    before, after = (chance.choices(STEPS, k=chance.randint(1, 5)) for _ in "ab")
    fuse = chance.randint(0, 12)
    loop = rig.boot()
    known: list[WorkloadId] = []

    def play(steps: list[str]) -> None:
        for step in steps:
            if step == "submit":
                known.append(rig.submit())
            cycles(rig, loop, 2, step_ms=RUN_MS if step == "long" else 500)

    play(before)
    backup, kept = rig.back_up(), tuple(known)
    play(after)
    rig.restore(backup)
    rig.fuse = fuse
    try:
        rig.boot()
    except Crash:
        rig.fuse = None
    rig.fuse = None
    loop = rig.boot()
    cycles(rig, loop, 100, step_ms=1000)
    ended = {job: rig.state(job) for job in kept}
    assert set(ended.values()) <= {State.SUCCEEDED, State.PAUSED}
    done = [rig.world.jobs[one][0] for one, run in rig.world.past.items() if not _killed(run)]
    assert len(done) == len(set(done)), "a job ran to its end twice"
    assert {job for job, state in ended.items() if state is State.PAUSED} <= set(done)
    assert len(rig.store.events(kinds=frozenset({RECONCILED}))) == 1


def _killed(run: object) -> bool:
    return getattr(run, "struck", None) is not None

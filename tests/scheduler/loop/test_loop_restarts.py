"""A scheduler that dies at any point loses nothing and starts nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    Intent,
    Pause,
    PutPools,
    PutTeams,
    Submit,
)
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Changes
from gpucommons.scheduler.core.model.types import (
    AttemptState,
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
    WorkloadId,
)
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.base import Epoch, StoredEvent
from gpucommons.scheduler.store.memory import MemoryStore

POOL, TEAM = PoolName("train"), TeamName("vision")
DEVICE = Device(device_id=DeviceId("sim-0"), index=0, kind="A100-40", memory_mib=40_000)
NODE = Node(
    node_id=NodeId("box"), pool=POOL, devices=(DEVICE,), cpu_milli=64_000, memory_mib=256_000
)
A_JOB = Spec(
    kind=Kind.TRAINING,
    name="digits-1",
    team=TEAM,
    owner=UserName("ada"),
    submitted_by=UserName("ada"),
    pools=(POOL,),
    roles=(Role(command=("python",), milli_gpu=1000),),
    start_timeout_ms=86_400_000,
)

R = TypeVar("R", bound="Rig")


class Crash(BaseException):
    """The scheduler's process dies here: nothing may catch it."""


class Crashing(MemoryStore):
    """A store whose caller may die just before or just after a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.on_call: Callable[[str], None] = lambda _call: None

    def commit(self, epoch: Epoch, changes: Changes) -> tuple[StoredEvent, ...]:
        self.on_call("commit")
        stored = super().commit(epoch, changes)
        self.on_call("commit!")
        return stored


class Rig:
    """What outlives schedulers, and a fuse that kills the present one."""

    def __init__(self, script: Script) -> None:
        self.now_ms = 1_700_000_000_000
        self.store = Crashing()
        self.ids = IdSource(lambda: self.now_ms, lambda _bits: 0)
        self.world = FakeWorld(
            now=lambda: Millis(self.now_ms), nodes=(NODE,), script_of=lambda _launch: script
        )
        self.fuse: int | None = None
        self.crashes = 0
        self.store.on_call = self._burn

    def _burn(self, _call: str) -> None:
        if self.fuse is None:
            return
        self.fuse -= 1
        if self.fuse < 0:
            self.fuse = None
            self.crashes += 1
            raise Crash

    def boot(self) -> Loop:
        loop = Loop(
            Surroundings(
                store=self.store,
                executors={"fake": FakeExecutor(self.world, on_call=self._burn)},
                now=lambda: Millis(self.now_ms),
                new_ids=self.ids,
                token_of=lambda attempt_id: f"token of {attempt_id}",
                api_url="http://127.0.0.1:1",
            )
        )
        loop.open()
        return loop

    def ask(self, action: object) -> None:
        self.store.put_intent(
            Intent(
                intent_id=IntentId(next(self.ids)),
                action=action,  # type: ignore[arg-type] # an action
                by=UserName("ada"),
                at_ms=Millis(self.now_ms),
            )
        )

    def submit(self) -> WorkloadId:
        workload_id = WorkloadId(next(self.ids))
        self.ask(Submit(workload_id=workload_id, spec=A_JOB))
        return workload_id

    def check(self) -> None:
        """What must be true at every moment."""
        assert len(set(self.world.starts)) == len(self.world.starts), "an attempt ran twice"
        # One device: at most one attempt with processes at a time.
        assert len(self.world.running()) <= 1, "two attempts on one device"
        numbers = [stored.number for stored in self.store.events(limit=10_000)]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.fixture
def rig() -> Rig:
    return prepared(Script(start_ms=50, run_ms=500))


def prepared(script: Script) -> Rig:
    return with_one_team(Rig(script))


def with_one_team(made: R) -> R:
    made.ask(PutPools(pools=(Pool(name=POOL, executor="fake", gpu_kind="A100-40"),)))
    team = Team(
        name=TEAM,
        quotas={POOL: Quota(guaranteed_milli_gpu=1000)},
        members=frozenset({UserName("ada")}),
    )
    made.ask(PutTeams(teams=(team,)))
    return made


def cycles(rig: Rig, loop: Loop, count: int, step_ms: int = 100) -> None:
    for _ in range(count):
        rig.now_ms += step_ms
        loop.cycle()
        rig.check()


def test_what_runs_is_adopted_and_not_started_again(rig: Rig) -> None:
    job = rig.submit()
    cycles(rig, rig.boot(), 3)
    again = rig.boot()
    cycles(rig, again, 1)
    assert again.cluster.workloads[job].state is State.RUNNING
    cycles(rig, again, 20)
    assert rig.store.workload(job).state is State.SUCCEEDED  # type: ignore[union-attr] # it is there
    assert len(rig.world.starts) == 1


def test_what_ended_meanwhile_is_noticed(rig: Rig) -> None:
    job = rig.submit()
    cycles(rig, rig.boot(), 3)
    rig.now_ms += 60_000
    cycles(rig, rig.boot(), 2)
    assert rig.store.workload(job).state is State.SUCCEEDED  # type: ignore[union-attr] # it is there
    assert rig.world.runs == {}


def test_what_is_gone_without_a_trace_ends_and_is_tried_again(rig: Rig) -> None:
    job = rig.submit()
    cycles(rig, rig.boot(), 3)
    first = rig.world.starts[0]
    rig.world.runs.clear()
    again = rig.boot()
    cycles(rig, again, 1)
    workload = again.cluster.workloads[job]
    assert workload.attempts[0].state is AttemptState.ENDED
    assert workload.attempts[0].exit_code is None
    cycles(rig, again, 10, step_ms=60_000)
    assert rig.store.workload(job).state is State.SUCCEEDED  # type: ignore[union-attr] # it is there
    assert rig.world.starts[0] == first
    assert len(rig.world.starts) == 2


def test_a_start_that_was_decided_but_not_done_is_done_after_the_restart(rig: Rig) -> None:
    job = rig.submit()
    loop = rig.boot()

    def on_call(call: str) -> None:
        if call == "start":
            raise Crash

    loop._acting.executors = {"fake": FakeExecutor(rig.world, on_call=on_call)}
    with pytest.raises(Crash):
        cycles(rig, loop, 3)
    assert rig.world.starts == []
    cycles(rig, rig.boot(), 20)
    assert rig.store.workload(job).state is State.SUCCEEDED  # type: ignore[union-attr] # it is there
    assert len(rig.world.starts) == 1


def test_processes_that_nobody_knows_are_ended(rig: Rig) -> None:
    rig.submit()
    cycles(rig, rig.boot(), 3)
    stranger = rig.world.starts[0]
    other = prepared(Script())
    rig.store = other.store
    rig.boot()
    assert stranger not in rig.world.running()


SCRIPTS = st.sampled_from(
    [
        Script(run_ms=300),
        Script(start_ms=250, run_ms=300, stop_ms=150),
        Script(run_ms=2_000, stop_ms=None),
        Script(run_ms=300, exit_code=1),
        Script(start_fails="no such command"),
        Script(notice_ms=50, stop_ms=10),
    ]
)
STEPS = st.lists(
    st.one_of(
        st.just("submit"),
        st.just("cancel"),
        st.just("pause"),
        st.integers(0, 12).map(lambda fuse: f"crash {fuse}"),
        st.sampled_from(["wait 10", "wait 200", "wait 40000"]),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=200)
@given(script=SCRIPTS, steps=STEPS)
def test_a_crash_at_any_call_loses_and_doubles_nothing(script: Script, steps: list[str]) -> None:
    rig = prepared(script)
    jobs: list[WorkloadId] = []
    loop: Loop | None = None
    for step in steps:
        word, _, amount = step.partition(" ")
        if word == "submit":
            jobs.append(rig.submit())
        elif word == "cancel" and jobs:
            rig.ask(Cancel(workload_id=jobs[len(jobs) // 2]))
        elif word == "pause" and jobs:
            rig.ask(Pause(workload_id=jobs[-1]))
        elif word == "crash":
            rig.fuse = int(amount)
        elif word == "wait":
            rig.now_ms += int(amount)
        try:
            loop = loop or rig.boot()
            cycles(rig, loop, 2, step_ms=20)
        except Crash:
            loop = None
        rig.check()
    rig.fuse = None
    loop = rig.boot()
    # Everything that can end ends: what runs for ever is cancelled.
    for job in jobs:
        rig.ask(Cancel(workload_id=job))
    cycles(rig, loop, 20, step_ms=30_000)
    for job in jobs:
        workload = rig.store.workload(job)
        assert workload is not None, "an acknowledged job is lost"
        assert workload.state in (State.CANCELLED, State.SUCCEEDED, State.FAILED), workload
    assert rig.world.running() == frozenset()
    assert rig.world.runs == {}, "an end was never forgotten"
    # What a guarantee gave up a moment ago is remembered by the one that leads alone.
    assert replace(loop.cluster, workloads={}, released=()) == replace(
        rig.store.load(), workloads={}, now_ms=loop.cluster.now_ms
    )

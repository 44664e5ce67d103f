"""The loop: what is asked is decided, committed, then done, and nothing that fails stops it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.actions import Act, StartServer
from gpucommons.scheduler.core.model.intents import Cancel, Intent, PutPools, PutTeams, Submit
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    Changes,
    CheckpointReported,
    Cluster,
    Outcome,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    Checkpoint,
    IntentId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Progress,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import LeaderLost, Misconfigured, Unavailable
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.memory import MemoryStore

POOL, TEAM = PoolName("train"), TeamName("vision")
DEVICES = tuple(
    Device(device_id=DeviceId(f"sim-{i}"), index=i, kind="A100-40", memory_mib=40_000)
    for i in range(2)
)
NODE = Node(node_id=NodeId("box"), pool=POOL, devices=DEVICES, cpu_milli=64_000, memory_mib=256_000)


class Machine:
    """A store, a world and a clock that outlive schedulers."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.store = MemoryStore()
        self.ids = IdSource(lambda: self.now_ms)
        self.script = Script()
        self.world = FakeWorld(
            now=lambda: Millis(self.now_ms), nodes=(NODE,), script_of=lambda _: self.script
        )

    def around(self, **changes: object) -> Surroundings:
        plain = Surroundings(
            store=self.store,
            executors={"fake": FakeExecutor(self.world)},
            now=lambda: Millis(self.now_ms),
            new_ids=self.ids,
            token_of=lambda attempt_id: f"token of {attempt_id}",
            api_url="http://127.0.0.1:1",
        )
        return replace(plain, **changes)  # type: ignore[arg-type] # any field

    def loop(self, **changes: object) -> Loop:
        loop = Loop(self.around(**changes))
        loop.open()
        return loop

    def ask(self, action: object, **fields: object) -> IntentId:
        intent = Intent(
            intent_id=IntentId(next(self.ids)),
            action=action,  # type: ignore[arg-type] # an action
            by=UserName("ada"),
            at_ms=Millis(self.now_ms),
            **fields,  # type: ignore[arg-type] # any field
        )
        return self.store.put_intent(intent).intent_id

    def submit(self, **changes: object) -> WorkloadId:
        spec = Spec(
            kind=Kind.TRAINING,
            name="digits-1",
            team=TEAM,
            owner=UserName("ada"),
            submitted_by=UserName("ada"),
            pools=(POOL,),
            roles=(Role(command=("python", "train.py"), milli_gpu=1000),),
        )
        workload_id = WorkloadId(next(self.ids))
        self.ask(Submit(workload_id=workload_id, spec=replace(spec, **changes)))  # type: ignore[arg-type] # any field
        return workload_id

    def cycles(self, loop: Loop, count: int = 3, step_ms: int = 100) -> None:
        for _ in range(count):
            self.now_ms += step_ms
            loop.cycle()


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    made.ask(PutPools(pools=(Pool(name=POOL, executor="fake", gpu_kind="A100-40"),)))
    quota = Quota(guaranteed_milli_gpu=2000)
    team = Team(name=TEAM, quotas={POOL: quota}, members=frozenset({UserName("ada")}))
    made.ask(PutTeams(teams=(team,)))
    return made


def found(machine: Machine, workload_id: WorkloadId) -> Workload:
    workload = machine.store.workload(workload_id)
    assert workload is not None
    return workload


def current(machine: Machine, workload_id: WorkloadId) -> Attempt:
    attempt = found(machine, workload_id).current
    assert attempt is not None
    return attempt


# --- the way of a job --------------------------------------------------------------------------


def test_a_job_goes_from_intent_to_success_and_is_forgotten(machine: Machine) -> None:
    machine.script = Script(run_ms=1_000)
    loop = machine.loop()
    job = machine.submit()
    machine.cycles(loop)
    assert found(machine, job).state is State.RUNNING
    attempt = current(machine, job)
    assert machine.world.starts == [attempt.attempt_id]
    machine.cycles(loop, step_ms=1_000)
    assert found(machine, job).state is State.SUCCEEDED
    assert machine.world.runs == {}


@pytest.mark.parametrize(
    ("exit_code", "state", "said"),
    [
        (0, State.RUNNING, None),
        (1, State.FAILED, "digits-1, after which it should run, has failed"),
    ],
)
def test_a_job_asked_for_while_the_one_it_runs_after_ends_is_kept(
    machine: Machine, exit_code: int, state: State, said: str | None
) -> None:
    machine.script = Script(run_ms=1_000, exit_code=exit_code)
    loop = machine.loop()
    first = machine.submit()
    machine.cycles(loop, step_ms=1_000)
    assert first not in loop.cluster.workloads
    second = machine.submit(after=(first,))
    machine.cycles(loop)
    assert (found(machine, second).state, found(machine, second).ended_text) == (state, said)
    assert machine.store.load().workloads == loop.cluster.workloads


def test_what_the_loop_shows_is_what_the_store_has(machine: Machine) -> None:
    loop = machine.loop()
    job = machine.submit()
    machine.cycles(loop)
    assert loop.cluster.workloads[job] == found(machine, job)
    assert machine.store.load() == replace(loop.cluster, now_ms=machine.store.load().now_ms)


def test_nothing_new_writes_nothing(machine: Machine) -> None:
    loop = machine.loop()
    machine.submit()
    machine.cycles(loop, 5)
    commits: list[Changes] = []
    real = machine.store.commit
    machine.store.commit = lambda epoch, changes: commits.append(changes) or real(epoch, changes)  # type: ignore[method-assign,func-returns-value] # a spy
    machine.cycles(loop, 5, step_ms=1)
    assert commits == []


def test_the_next_cycle_is_due_when_something_is(machine: Machine) -> None:
    machine.script = Script(start_ms=10_000_000)
    loop = machine.loop()
    machine.cycles(loop)
    assert loop.cycle() == 5.0
    machine.submit(start_timeout_ms=400)
    machine.cycles(loop, 1)
    machine.now_ms += 100
    assert loop.cycle() <= 0.3


def test_time_never_goes_backwards(machine: Machine) -> None:
    loop = machine.loop()
    machine.submit()
    machine.cycles(loop)
    seen = machine.store.load().now_ms
    machine.now_ms -= 1_000_000
    machine.submit()
    loop.cycle()
    assert machine.store.load().now_ms >= seen
    again = machine.loop()
    again.cycle()
    assert again.cluster.now_ms >= seen


# --- waiting and telling -----------------------------------------------------------------------


def test_subscribers_are_called_after_each_commit_and_may_fail(machine: Machine) -> None:
    loop = machine.loop()
    loop.cycle()
    seen: list[int] = []

    def fails() -> None:
        raise RuntimeError

    loop.subscribe(fails)
    end = loop.subscribe(lambda: seen.append(machine.store.last_event_number()))
    machine.submit()
    loop.cycle()
    assert seen == [machine.store.last_event_number()]
    end()
    machine.submit()
    loop.cycle()
    assert len(seen) == 1


def test_the_thread_decides_when_woken_and_ends_when_stopped(machine: Machine) -> None:
    loop = Loop(machine.around())
    decided = threading.Event()
    loop.subscribe(lambda: decided.set() if loop.cluster.workloads else None)
    loop.start()
    job = machine.submit()
    loop.wake()
    assert decided.wait(60)
    assert job in loop.cluster.workloads
    loop.stop()


# --- reports -----------------------------------------------------------------------------------


def test_progress_becomes_the_curve_and_a_checkpoint_is_on_record(machine: Machine) -> None:
    loop = machine.loop()
    job = machine.submit()
    machine.cycles(loop)
    attempt = current(machine, job).attempt_id
    for step in (1, 2):
        progress = Progress(step=step, metrics={"loss": 1 / step}, at_ms=Millis(machine.now_ms))
        loop.observe(ProgressReported(attempt_id=attempt, progress=progress))
    checkpoint = Checkpoint(
        attempt_id=attempt,
        step=2,
        path="checkpoints/step-2",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=Millis(machine.now_ms),
    )
    loop.observe(CheckpointReported(attempt_id=attempt, checkpoint=checkpoint))
    loop.cycle()
    curve = machine.store.points(job)
    assert [(p.attempt_number, p.step, p.metrics) for p in curve] == [
        (1, 1, {"loss": 1.0}),
        (1, 2, {"loss": 0.5}),
    ]
    assert found(machine, job).checkpoint == checkpoint
    assert loop.cluster.workloads[job].progress == progress


def test_what_a_stale_attempt_says_is_not_recorded(machine: Machine) -> None:
    loop = machine.loop()
    job = machine.submit()
    machine.cycles(loop)
    progress = Progress(step=9, metrics={"loss": 0.0})
    loop.observe(ProgressReported(attempt_id=next(machine.ids), progress=progress))  # type: ignore[arg-type] # an id
    loop.cycle()
    assert machine.store.points(job) == ()


def test_the_ledger_holds_what_was_held_to_the_millisecond(machine: Machine) -> None:
    machine.script = Script(run_ms=150_000)
    minutes: list[int] = []

    def usage(after_ms: Millis) -> tuple[()]:
        minutes.append(after_ms)
        raise Unavailable

    loop = machine.loop(usage=usage)
    job = machine.submit()
    machine.cycles(loop, 2, step_ms=50)
    machine.cycles(loop, 20, step_ms=10_000)
    attempt = found(machine, job).attempts[0]
    assert attempt.ended_ms is not None
    rows = machine.store.ledger(from_ms=Millis(0), to_ms=Millis(2**60))
    assert sum(row.held_milli_gpu_ms for row in rows) == 1000 * (
        attempt.ended_ms - attempt.reserved_ms
    )
    assert len(minutes) >= 3, "usage that cannot be read must not stop the books"


# --- what goes wrong ---------------------------------------------------------------------------


def test_a_refused_start_ends_the_attempt_with_its_reason(machine: Machine) -> None:
    class Refusing(FakeExecutor):
        def start(self, launch: object) -> None:
            message = "There is no user ada on this machine."
            raise Misconfigured(message)

    loop = machine.loop(executors={"fake": Refusing(machine.world)})
    job = machine.submit()
    machine.cycles(loop)
    assert found(machine, job).state is State.FAILED
    assert found(machine, job).attempts[-1].ended_text == "There is no user ada on this machine."


def test_an_executor_that_fails_is_tried_again_and_logged_once(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    failing = {"start": True}

    def on_call(call: str) -> None:
        if failing.get(call):
            message = "out of processes"
            raise OSError(message)

    loop = machine.loop(executors={"fake": FakeExecutor(machine.world, on_call=on_call)})
    job = machine.submit()
    with caplog.at_level(logging.ERROR):
        machine.cycles(loop, 5)
    assert found(machine, job).state is State.STARTING
    assert len([r for r in caplog.records if "StartAttempt" in r.message]) == 1
    failing["start"] = False
    machine.cycles(loop)
    assert found(machine, job).state is State.RUNNING


@pytest.mark.parametrize("call", ["observe", "nodes", "announce", "signal", "forget"])
def test_no_call_of_an_executor_can_stop_the_loop(machine: Machine, call: str) -> None:
    machine.script = Script(stop_ms=100)
    failing: dict[str, bool] = {}

    def on_call(called: str) -> None:
        if failing.get(called):
            raise OSError

    loop = machine.loop(executors={"fake": FakeExecutor(machine.world, on_call=on_call)})
    job = machine.submit()
    machine.cycles(loop, step_ms=5_000)
    assert found(machine, job).state is State.RUNNING
    failing[call] = True
    machine.ask(Cancel(workload_id=job))
    machine.cycles(loop, step_ms=5_000)
    failing[call] = False
    machine.cycles(loop, step_ms=60_000)
    assert found(machine, job).state is State.CANCELLED
    assert machine.world.runs == {}


def test_an_attempt_whose_executor_is_not_here_waits_for_it(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    job = machine.submit()
    machine.cycles(machine.loop())
    assert found(machine, job).state is State.RUNNING
    without = machine.loop(executors={})
    machine.ask(Cancel(workload_id=job))
    machine.cycles(without, step_ms=60_000)
    assert found(machine, job).state is State.CANCELLING
    assert "No executor runs" in caplog.text
    machine.cycles(machine.loop())
    assert found(machine, job).state is State.CANCELLED


def test_nodes_that_cannot_be_asked_for_are_not_lost(machine: Machine) -> None:
    failing: set[str] = set()

    def on_call(call: str) -> None:
        if call in failing:
            raise Unavailable

    loop = machine.loop(executors={"fake": FakeExecutor(machine.world, on_call=on_call)})
    machine.cycles(loop)
    assert loop.cluster.nodes[NODE.node_id].state.value == "ready"
    failing.add("nodes")
    machine.cycles(loop, step_ms=60_000)
    assert loop.cluster.nodes[NODE.node_id].state.value == "ready"
    failing.clear()
    machine.world.nodes = ()
    machine.cycles(loop, step_ms=60_000)
    assert loop.cluster.nodes[NODE.node_id].state.value == "lost"


def test_a_request_that_breaks_the_core_is_answered_and_the_others_go_on(machine: Machine) -> None:
    def fragile(cluster: Cluster, intents: list[Intent], *rest: object, **named: object) -> Outcome:
        if any(isinstance(i.action, Cancel) for i in intents):
            raise ZeroDivisionError
        return advance(cluster, intents, *rest, **named)  # type: ignore[arg-type] # passed on

    loop = machine.loop(advance=fragile)
    poison = machine.ask(Cancel(workload_id=WorkloadId("none")))
    job = machine.submit()
    machine.cycles(loop)
    assert found(machine, job).state is State.RUNNING
    verdict = machine.store.verdict(poison)
    assert verdict is not None
    assert verdict.error == "SchedulerError"
    assert machine.store.asked().intents == ()


def test_a_core_that_always_fails_loses_no_request(machine: Machine) -> None:
    def broken(*_all: object, **_named: object) -> Outcome:
        raise ZeroDivisionError

    job = machine.submit()
    with pytest.raises(ZeroDivisionError):
        machine.loop(advance=broken).cycle()
    assert machine.store.intent_submits((job,))
    machine.cycles(machine.loop())
    assert found(machine, job).state is State.RUNNING


def test_a_commit_of_unknown_outcome_is_looked_up(machine: Machine) -> None:
    loop = Loop(machine.around())
    real = machine.store.commit
    failures = iter([True])

    def unsure(epoch: object, changes: Changes) -> object:
        stored = real(epoch, changes)  # type: ignore[arg-type] # passed on
        if next(failures, False):
            message = "connection lost"
            raise Unavailable(message)
        return stored

    machine.store.commit = unsure  # type: ignore[method-assign,assignment] # a fault
    job = machine.submit()
    settled = threading.Event()
    loop.subscribe(
        lambda: (
            settled.set()
            if (w := loop.cluster.workloads.get(job)) and w.state is State.RUNNING
            else None
        )
    )
    loop.start()
    assert settled.wait(60)
    loop.stop()
    assert machine.world.starts == [current(machine, job).attempt_id]
    numbers = [e.number for e in machine.store.events()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_observations_survive_a_commit_that_failed(machine: Machine) -> None:
    loop = machine.loop()
    job = machine.submit()
    machine.cycles(loop)
    real = machine.store.commit

    def full(epoch: object, changes: Changes) -> object:
        raise Unavailable

    machine.store.commit = full  # type: ignore[method-assign,assignment] # a fault
    attempt = current(machine, job).attempt_id
    loop.observe(AttemptEnded(attempt_id=attempt, exit_code=0))
    with pytest.raises(Unavailable):
        loop.cycle()
    assert found(machine, job).state is State.RUNNING
    machine.store.commit = real  # type: ignore[method-assign] # mended
    loop.cycle()
    assert found(machine, job).state is State.SUCCEEDED


def test_a_leader_that_was_replaced_stops_and_writes_nothing(machine: Machine) -> None:
    loop = Loop(machine.around())
    loop.start()
    machine.store.take_lead("another")
    before = machine.store.last_event_number()
    machine.submit()
    loop.wake()
    assert loop._thread is not None
    loop._thread.join(60)
    assert isinstance(loop.lost, LeaderLost)
    assert machine.store.last_event_number() == before
    assert machine.world.starts == []
    loop.stop()


def test_server_acts_go_to_the_hub_with_their_workload(machine: Machine) -> None:
    acts: list[tuple[Act, Workload]] = []
    job = machine.submit()
    loop = machine.loop()
    machine.cycles(loop)

    def one_act(
        cluster: Cluster, _intents: object, _seen: object, *, now_ms: Millis, new_ids: Iterator[str]
    ) -> Outcome:
        act = StartServer(workload_id=job)
        return Outcome(cluster=cluster, changes=Changes(now_ms=now_ms), actions=(act,))

    on_server_act: Callable[[Act, Workload], None] = lambda act, w: acts.append((act, w))  # noqa: E731 - short
    again = machine.loop(advance=one_act, on_server_act=on_server_act)
    again.cycle()
    assert acts == [(StartServer(workload_id=job), found(machine, job))]


def test_old_history_is_dropped_where_a_retention_is_set(machine: Machine) -> None:
    machine.script = Script(run_ms=10)
    loop = machine.loop(retention_ms=1_000_000)
    job = machine.submit()
    machine.cycles(loop)
    assert found(machine, job).state is State.SUCCEEDED
    machine.cycles(loop, 1, step_ms=4_000_000)
    assert machine.store.workload(job) is None
    assert machine.store.events() == ()

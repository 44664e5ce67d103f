"""Several loops on one store, turn by turn: one leads, the others follow and take over."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from builders import a_node

from gpucommons.scheduler.core.model.intents import Intent, PutPools, PutTeams, Submit
from gpucommons.scheduler.core.model.resources import Pool, Team
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Checkpoint,
    IntentId,
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import LeaderLost, Unavailable
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.memory import MemoryStore


@dataclass
class Told:
    """A candidate that is told whether it leads."""

    elected: bool = False
    resigned: int = 0

    def leads(self) -> bool:
        return self.elected

    def works(self, well: bool) -> None: ...

    def resign(self) -> None:
        self.resigned += 1
        self.elected = False


class Noted(FakeExecutor):
    """Writes down what it is told to start."""

    def __init__(self, world: FakeWorld, starts: list[str], name_of_replica: str) -> None:
        super().__init__(world)
        self._starts, self._replica = starts, name_of_replica

    def start(self, launch: Launch) -> None:
        self._starts.append(f"{self._replica} {launch.workload.spec.name}")
        super().start(launch)


@dataclass
class Cluster:
    """A store and machines that outlive replicas."""

    now_ms: int = 1_700_000_000_000
    store: MemoryStore = field(default_factory=MemoryStore)
    starts: list[str] = field(default_factory=list)
    jobs: int = 0

    def __post_init__(self) -> None:
        self.ids = IdSource(lambda: self.now_ms)
        self.world = FakeWorld(
            now=lambda: Millis(self.now_ms),
            nodes=(a_node("n1", 2, pool="gpu"),),
            script_of=lambda _: Script(),
        )

    def replica(self, name: str) -> tuple[Loop, Told]:
        told = Told()
        loop = Loop(
            Surroundings(
                store=self.store,
                executors={"fake": Noted(self.world, self.starts, name)},
                now=lambda: Millis(self.now_ms),
                new_ids=self.ids,
                token_of=lambda attempt_id: f"token of {attempt_id}",
                api_url="http://127.0.0.1:1",
                leadership=told,
                holder=name,
            )
        )
        loop._follow()
        return loop, told

    def ask(self, action: object) -> None:
        self.store.put_intent(
            Intent(
                intent_id=IntentId(next(self.ids)),
                action=action,  # type: ignore[arg-type] # an action
                by=UserName("ada"),
                at_ms=Millis(self.now_ms),
            )
        )

    def configure(self) -> None:
        self.ask(PutPools(pools=(Pool(name=PoolName("gpu"), executor="fake"),)))
        team = Team(name=TeamName("vision"), members=frozenset({UserName("ada")}))
        self.ask(PutTeams(teams=(team,)))

    def submit(self) -> WorkloadId:
        self.jobs += 1
        workload_id = WorkloadId(next(self.ids))
        spec = Spec(
            kind=Kind.TRAINING,
            name=f"digits-{self.jobs}",
            team=TeamName("vision"),
            owner=UserName("ada"),
            submitted_by=UserName("ada"),
            pools=(PoolName("gpu"),),
            roles=(Role(command=("true",), cpu_milli=10, memory_mib=16),),
        )
        self.ask(Submit(workload_id=workload_id, spec=spec))
        return workload_id

    def turn(self, *loops: Loop, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += 1000
            for loop in loops:
                try:
                    loop._turn()
                except LeaderLost as error:
                    loop._step_down(error)


def test_a_follower_shows_what_the_leader_commits_and_acts_on_nothing() -> None:
    cluster = Cluster()
    (first, leads), (second, _) = cluster.replica("a"), cluster.replica("b")
    leads.elected = True
    cluster.configure()
    job = cluster.submit()
    cluster.turn(first, second, times=4)
    assert first.leading
    assert not second.leading
    assert second.cluster.workloads[job].state is State.RUNNING
    assert second.cluster.workloads == first.cluster.workloads
    assert set(cluster.starts) == {"a digits-1"}


def test_another_takes_over_where_the_first_one_left() -> None:
    cluster = Cluster()
    (first, leads), (second, waits) = cluster.replica("a"), cluster.replica("b")
    leads.elected = True
    cluster.configure()
    running = cluster.submit()
    cluster.turn(first, second, times=4)
    queued = cluster.submit()
    leads.elected, waits.elected = False, True
    cluster.turn(first, second, times=4)
    assert (first.leading, second.leading) == (False, True)
    states = {name: second.cluster.workloads[name].state for name in (running, queued)}
    assert states == {running: State.RUNNING, queued: State.RUNNING}
    assert len(second.cluster.workloads[running].attempts) == 1
    assert {one for one in cluster.starts if "digits-2" in one} == {"b digits-2"}
    assert first.cluster.workloads == second.cluster.workloads


def test_a_lead_that_is_over_comes_to_rest_at_the_next_turn() -> None:
    cluster = Cluster()
    first, leads = cluster.replica("a")
    assert first.at_rest(0)
    leads.elected = True
    cluster.configure()
    cluster.turn(first, times=2)
    assert not first.at_rest(0)
    leads.elected = False
    assert not first.at_rest(0)
    cluster.turn(first)
    assert first.at_rest(0)


def test_of_two_that_believe_that_they_lead_the_older_writes_and_does_nothing() -> None:
    cluster = Cluster()
    (first, leads), (second, waits) = cluster.replica("a"), cluster.replica("b")
    leads.elected = True
    cluster.configure()
    cluster.turn(first, times=3)
    waits.elected = True
    cluster.turn(second, times=2)
    job = cluster.submit()
    before = list(cluster.starts)
    cluster.turn(first)
    assert leads.resigned == 1
    assert cluster.starts == before
    cluster.turn(second, first, times=3)
    assert cluster.starts[len(before) :].count("a digits-1") == 0
    assert first.cluster.workloads[job].state is State.RUNNING
    numbers = [stored.number for stored in cluster.store.events(limit=1000)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_leader_with_nothing_to_write_does_nothing_after_its_lead_either() -> None:
    """A start is repeated until it is seen to run: also that must end with the lead."""
    cluster = Cluster()
    cluster.world = FakeWorld(
        now=lambda: Millis(cluster.now_ms),
        nodes=(a_node("n1", 2, pool="gpu"),),
        script_of=lambda _: Script(start_ms=10_000_000),
    )
    (first, leads), (second, waits) = cluster.replica("a"), cluster.replica("b")
    leads.elected = True
    cluster.configure()
    cluster.submit()
    cluster.turn(first, times=4)
    before = cluster.starts.count("a digits-1")
    assert before > 1
    waits.elected = True
    cluster.turn(second)
    cluster.turn(first, times=2)
    assert cluster.starts.count("a digits-1") == before
    assert leads.resigned == 1


def test_a_lease_that_ran_out_within_a_cycle_lets_nothing_be_done() -> None:
    cluster = Cluster()
    first, leads = cluster.replica("a")
    leads.elected = True
    cluster.configure()
    cluster.turn(first, times=2)
    cluster.submit()
    answers = iter([True, False])
    leads.leads = lambda: next(answers, False)  # type: ignore[method-assign] # once
    cluster.turn(first)
    assert cluster.starts == []
    assert not first.leading


def test_who_is_about_to_lead_may_act_before_it_leads_and_nobody_after_the_lease() -> None:
    cluster = Cluster()
    first, leads = cluster.replica("a")
    assert not first.may_act
    leads.elected = True
    assert (first.may_act, first.leading) == (True, False)
    cluster.turn(first)
    leads.elected = False
    assert not first.may_act


def test_what_only_a_leader_can_record_is_refused_elsewhere() -> None:
    cluster = Cluster()
    second, _ = cluster.replica("b")
    checkpoint = Checkpoint(
        attempt_id=AttemptId("a"),
        step=1,
        path="checkpoints/step-1",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=Millis(0),
    )
    with pytest.raises(Unavailable, match="Another replica"):
        second.observe(CheckpointReported(attempt_id=AttemptId("a"), checkpoint=checkpoint))


def test_a_follower_catches_up_when_it_is_asked_to() -> None:
    cluster = Cluster()
    (first, leads), (second, _) = cluster.replica("a"), cluster.replica("b")
    leads.elected = True
    cluster.configure()
    job = cluster.submit()
    cluster.turn(first, times=2)
    assert job not in second.cluster.workloads
    second.catch_up()
    assert job in second.cluster.workloads

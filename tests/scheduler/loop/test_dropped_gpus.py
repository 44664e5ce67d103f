"""*Drop to CPU* keeps its word though the scheduler dies anywhere between stop and restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.model.actions import RestartServer, StartServer, StopServer
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    Intent,
    PutPools,
    PutTeams,
    Restarted,
    Started,
    Submit,
)
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import AttemptEnded
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
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld, Script
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store

POOL, TEAM, ADA = PoolName("train"), TeamName("vision"), UserName("ada")
DEVICE = Device(device_id=DeviceId("sim-0"), index=0, kind="A100-40", memory_mib=40_000)
NODE = Node(
    node_id=NodeId("box"), pool=POOL, devices=(DEVICE,), cpu_milli=64_000, memory_mib=256_000
)
LEASE = WorkloadId("lease")


class Crash(BaseException):
    """The scheduler's process dies here: nothing may catch it."""


class Desk:
    """A hub with one server, a store on disk, and schedulers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.now_ms = 1_700_000_000_000
        self.store: Store = open_store(f"sqlite:///{folder}/store.db")
        self.ids: Iterator[str] = IdSource(lambda: self.now_ms)
        self.world = FakeWorld(
            now=lambda: Millis(self.now_ms), nodes=(NODE,), script_of=lambda _: Script()
        )
        self.server = "with GPU"
        self.calls: list[str] = []
        #: The point at which the next scheduler dies.
        self.dies_at = ""
        self.loop = self.boot()

    def boot(self) -> Loop:
        self.loop = Loop(
            Surroundings(
                store=self.store,
                executors={"fake": FakeExecutor(self.world)},
                now=lambda: Millis(self.now_ms),
                new_ids=self.ids,
                token_of=lambda attempt_id: f"token of {attempt_id}",
                api_url="http://127.0.0.1:1",
                on_server_act=self._act,
            )
        )
        self.loop.open()
        return self.loop

    def _act(self, act: StartServer | StopServer | RestartServer, lease: Workload) -> None:
        if isinstance(act, StopServer):
            self._point("before the stop")
            self.server = "down"
            self._point("after the stop")
            self.ask(Cancel(workload_id=lease.workload_id, why="stopped"))
            self._point("stop told")
        elif isinstance(act, RestartServer):
            self._point("before the restart")
            assert self.server != "with GPU"
            self.server = "without GPU"
            self.calls.append("restart")
            self._point("after the restart")
            self.ask(Restarted(workload_id=lease.workload_id))
            self._point("restart told")

    def _point(self, name: str) -> None:
        if name == self.dies_at:
            self.dies_at = ""
            raise Crash

    def ask(self, action: object) -> None:
        self.store.put_intent(
            Intent(
                intent_id=IntentId(next(self.ids)),
                action=action,  # type: ignore[arg-type] # an action
                by=ADA,
                at_ms=Millis(self.now_ms),
            )
        )

    def cycle(self) -> None:
        self.now_ms += 1000
        self.loop.cycle()

    def open_notebook(self) -> None:
        self.cycle()
        self.ask(PutPools(pools=(Pool(name=POOL, executor="fake"),)))
        team = Team(name=TEAM, quotas={POOL: Quota(fixed_milli_gpu=1000)})
        self.cycle()
        self.ask(PutTeams(teams=(team,)))
        self.cycle()
        spec = Spec(
            kind=Kind.NOTEBOOK,
            name="",
            team=TEAM,
            owner=ADA,
            submitted_by=ADA,
            pools=(POOL,),
            roles=(Role(milli_gpu=500),),
        )
        self.ask(Submit(workload_id=LEASE, spec=spec, redeem=True))
        self.cycle()
        self.ask(Started(workload_id=LEASE))
        self.cycle()
        assert self.lease.state is State.ACTIVE

    @property
    def lease(self) -> Workload:
        found = self.store.workload(LEASE)
        assert found is not None
        return found

    def cycle_with_agent(self) -> None:
        """As the agent reads it, the slice of a server that is down is empty."""
        current = self.lease.current
        if self.server != "with GPU" and current is not None and current.stop is not None:
            self.loop.observe(AttemptEnded(attempt_id=current.attempt_id, exit_code=None))
        self.cycle()

    def until_death(self) -> None:
        with pytest.raises(Crash):
            self.cycles_with_agent(20)

    def cycles_with_agent(self, number: int) -> None:
        for _ in range(number):
            self.cycle_with_agent()


POINTS = [
    "before the stop",
    "after the stop",
    "stop told",
    "before the restart",
    "after the restart",
    "restart told",
]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    made.open_notebook()
    yield made
    made.store.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_scheduler_that_dies_there_still_brings_the_notebook_back(desk: Desk, point: str) -> None:
    desk.dies_at = point
    desk.ask(Cancel(workload_id=LEASE, why="released"))
    desk.until_death()
    desk.boot()
    desk.cycles_with_agent(10)
    assert desk.server == "without GPU"
    assert desk.lease.state is State.ENDED
    # Repeated only where nothing says that it was done; a server that runs is started by nobody.
    assert len(desk.calls) == (2 if point == "after the restart" else 1)


def test_a_lease_that_is_over_is_taken_up_by_the_next_scheduler(desk: Desk) -> None:
    """The stop and the empty slice are on record; all that is left is the restart."""
    desk.dies_at = "before the restart"
    desk.ask(Cancel(workload_id=LEASE, why="released"))
    desk.until_death()
    desk.boot()
    desk.dies_at = "before the restart"
    desk.until_death()
    assert desk.lease.state is State.ENDED
    assert LEASE in desk.boot().cluster.workloads
    desk.cycles_with_agent(2)
    assert desk.server == "without GPU"


def test_a_scheduler_that_comes_back_late_restarts_nothing(desk: Desk) -> None:
    desk.dies_at = "before the restart"
    desk.ask(Cancel(workload_id=LEASE, why="released"))
    desk.until_death()
    desk.boot()
    desk.dies_at = "before the restart"
    desk.until_death()
    desk.now_ms += 120_000
    desk.boot()
    desk.cycles_with_agent(5)
    assert desk.server == "down"

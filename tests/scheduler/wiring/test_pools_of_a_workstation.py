"""Pools of a workstation change while work runs: what is held stays where it is held."""

from __future__ import annotations

from builders import World, a_device, a_job, a_pool, a_team

from gpucommons.gpu.client.agent_client import NodeReport
from gpucommons.scheduler.core.model.intents import PutPools
from gpucommons.scheduler.core.model.resources import NodeState, Pool
from gpucommons.scheduler.core.model.state import Cluster, NodesObserved
from gpucommons.scheduler.core.model.types import Millis, PoolName, State, WorkloadId
from gpucommons.scheduler.wiring.local_nodes import local_nodes

REPORT = NodeReport(
    node="box",
    devices=tuple(a_device(f"g{index}", index) for index in range(4)),
    cpu_milli=16_000,
    memory_mib=65_536,
    isolation="watched",
)
GPUS, CPU, MORE = (a_pool(name, executor="local") for name in ("train", "cpu", "build"))


class Workstation(World):
    """One machine with four GPUs; its pools are shared out anew at each look."""

    def __init__(self, *pools: Pool) -> None:
        nodes = local_nodes(REPORT, pools, Cluster())
        super().__init__(*nodes, pools=pools, teams=[a_team(guaranteed_milli_gpu=4000)])

    def look(self) -> None:
        self.now = Millis(self.now + 5_000)
        nodes = local_nodes(REPORT, self.cluster.pools.values(), self.cluster)
        self.step(NodesObserved(executor="local", nodes=nodes))

    def add(self, pool: Pool) -> None:
        assert self.ask(PutPools(pools=(pool,))).error is None
        self.look()

    def shared(self) -> dict[str, list[str]]:
        nodes = self.cluster.nodes.values()
        return {node.pool: [one.device_id for one in node.devices] for node in nodes}

    def devices_of(self, workload_id: WorkloadId) -> list[str]:
        attempt = self.get(workload_id).current
        placed = () if attempt is None else attempt.placements
        return [device_id for one in placed for device_id in one.device_ids]


def test_another_pool_changes_nothing_for_what_runs() -> None:
    world = Workstation(GPUS)
    job = world.run(a_job("d-1", 4000))
    world.add(CPU)
    assert {node.state for node in world.cluster.nodes.values()} == {NodeState.READY}
    assert world.state(job) is State.RUNNING
    assert world.state(world.submit(a_job("d-2"))) is State.QUEUED


def test_a_pool_gets_its_gpus_when_nobody_holds_them_elsewhere() -> None:
    world = Workstation(GPUS, CPU)
    job = world.run(a_job("d-1", 4000))
    world.add(MORE)
    assert world.shared() == {"train": ["g0", "g1", "g2", "g3"], "cpu": [], "build": []}
    assert (world.state(job), world.stop_of(job)) == (State.RUNNING, None)
    waiting = world.submit(a_job("d-2", 2000, pools=(PoolName("build"),)))
    assert world.state(waiting) is State.QUEUED
    world.end(job)
    world.look()
    assert world.shared() == {"train": ["g0", "g1"], "cpu": [], "build": ["g2", "g3"]}
    assert world.devices_of(waiting) == ["g2", "g3"]


def test_gpus_that_nobody_holds_change_their_pool_at_once() -> None:
    world = Workstation(GPUS, CPU)
    job = world.run(a_job("d-1", 3000))
    held = world.devices_of(job)
    world.add(MORE)
    assert set(held) <= set(world.shared()["train"])
    assert set(world.shared()["build"]) == {"g2", "g3"} - set(held)

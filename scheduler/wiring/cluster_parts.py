"""What a scheduler on Kubernetes is made of besides: its executor, and what that asks the loop.

Imported only when jobs run on a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.client.agent_transports import HttpTransport
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.cluster.cluster_agents import ClusterAgents
from gpucommons.scheduler.cluster.cluster_facts import ClusterFacts, NoAgents
from gpucommons.scheduler.cluster.cluster_slices import ClusterSlices
from gpucommons.scheduler.cluster.cluster_troubles import ClusterTroubles
from gpucommons.scheduler.cluster.scale_up_text import ScaleUpText
from gpucommons.scheduler.core.events.leases import SERVER_GONE
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Attempt, NodeId, PoolName
from gpucommons.scheduler.core.whatif.next_shares import next_shares
from gpucommons.scheduler.core.whatif.scale_up import takes_work
from gpucommons.scheduler.environments.images import Images
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebook_images import NotebookImages
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import LeaseHeld, Leases
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.manifests.homes import WithHome
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import JobFiles, PlannedFiles
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, read_settings
from gpucommons.scheduler.file_storage.parts import StorageParts
from gpucommons.scheduler.loop.acting import current_attempts, parked_leases
from gpucommons.scheduler.service.in_memory.slices import slice_ids
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.wiring.scheduler_callbacks import Asked

#: As many times as long as it took, what was worked out holds.
_REST = 9
_NO_VOLUME = "jobs' files lie on no volume here that could take their memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterParts:
    """The executor, and the agents of its nodes where they run."""

    executor: KubernetesExecutor
    #: What jobs may run with there.
    environments: Images
    agents: ClusterAgents | None = None
    slices: ClusterSlices | None = None

    def also(self, service: Service) -> Callable[[], None]:
        """What the housekeeping does besides."""
        agents = NoAgents() if self.agents is None else self.agents
        steps = (
            ClusterFacts(service, agents, another=self.executor.isolation_of).step,
            ClusterTroubles(service, self.executor.troubles, self.executor.refusals).step,
            ScaleUpText(service, self.executor.scale_up).step,
        )

        def step() -> None:
            for one in steps:
                one()

        return step

    def why_not(self, cluster: Cluster, name: PoolName, milli_gpu: int) -> str | None:
        """Why a pool makes no slices of a size; None where it does, or is another executor's."""
        pool = cluster.pools.get(name)
        if pool is None or pool.executor != self.executor.name:
            return None
        return self.executor.why_not(pool, milli_gpu)

    def start(self) -> None:
        """Keep the agents in step."""
        if self.slices is not None and self.agents is not None:
            self.slices.start(self.agents)

    def close(self) -> None:
        """Let go of threads."""
        if self.slices is not None:
            self.slices.close()
        if self.agents is not None:
            self.agents.close()


def make_parts(described: Path, asked: Asked, *, logs: Path, kept: StorageParts) -> ClusterParts:
    """Parts for the cluster that we run in, or that a kubeconfig names; ``described`` by a file.

    Raises
    ------
    BadRequest, Unavailable
        When the file cannot be read, or there is no cluster.
    """
    settings = read_settings(described)
    if kept.mode != "volume":
        settings = settings.model_copy(update={"hibernation_hindrance": _NO_VOLUME})
    cluster, connection = asked.cluster, connect()
    environments = Images(
        images=settings.environments,
        any_image=settings.any_image,
        sees_home=settings.home is not None,
        of_notebook=NotebookImages(connection, settings.hub_namespace),
    )
    around = _around(asked, logs=logs, files=_files(settings, kept, connection))
    if not settings.agents:
        executor = KubernetesExecutor(connection, settings, around)
        return ClusterParts(executor=executor, environments=environments)

    def is_ours(node: NodeId) -> bool:
        return makes_slices(settings, cluster(), node)

    # The agents are found through the executor, which is made with what they say.
    around = replace(
        around,
        # Of slices that another system makes they know nothing, and an empty answer would be none.
        reading=lambda node, slice_id: agents.live(node, slice_id) if is_ours(node) else None,
        notices=lambda: agents.notices(),  # noqa: PLW0108 - made below
        # Until its agent answers (again), a node has the driver that is on record.
        drivers=lambda: {**_drivers(cluster()), **agents.heard.drivers(executor.agents())},
        unhealthy=lambda: agents.heard.unhealthy(executor.agents()),
    )
    executor = KubernetesExecutor(connection, settings, around)
    slices = ClusterSlices(executor.cards, cluster, leading=asked.leading, is_ours=is_ours)
    agents = ClusterAgents(
        addresses=executor.agents,
        connect=partial(_client, settings),
        devices_of=executor.cards,
        node_of=lambda slice_id: node_of_slice(cluster(), slice_id),
    )
    return ClusterParts(executor=executor, environments=environments, agents=agents, slices=slices)


def _around(asked: Asked, *, logs: Path, files: JobFiles) -> Around:
    """What the loop knows, for the executor."""
    cluster = asked.cluster
    return Around(
        pools=asked.pools,
        pool_of_node=lambda node_id: _pool_of_node(cluster(), node_id),
        held=lambda: held_slots(cluster()),
        fractions=lambda: shared_slots(cluster()),
        next_shares=NextShares(cluster),
        missing_nodes=asked.missing_nodes,
        takes_work=lambda node_id: takes_work(cluster(), node_id),
        current=lambda: current_attempts(cluster()).keys(),
        were_unhealthy=lambda: {
            one.node_id: one.unhealthy for one in cluster().nodes.values() if one.unhealthy
        },
        leases=lambda: leases_held(cluster()),
        on_change=asked.wake,
        leading=asked.may_act,
        now_ms=asked.now_ms,
        files=files,
        logs=logs,
    )


def _drivers(cluster: Cluster) -> dict[NodeId, str]:
    return {node.node_id: node.driver for node in cluster.nodes.values() if node.driver}


def _client(settings: KubernetesSettings, address: str) -> AgentClient:
    # Read each time: a Secret that is renewed changes its file.
    token = settings.agent_token_file.read_text().strip()
    return AgentClient(
        HttpTransport(
            url=address,
            token=token,
            ca_file=settings.agent_ca_file,
            server_name=settings.agent_server_name,
            in_clear=settings.agent_in_clear,
        )
    )


def _files(settings: KubernetesSettings, kept: StorageParts, connection: Connection) -> JobFiles:
    place = PodPlace(
        image=settings.own_image,
        image_pull_policy=settings.image_pull_policy,
        storage=kept.mode,
        claim=kept.claim,
    )
    planned = PlannedFiles(place=place)
    if kept.files is not None:
        ready = kept.files.ready
        planned = PlannedFiles(
            place=place, make_ready=lambda launch: ready(launch.workload, launch.attempt)
        )
    if settings.home is None:
        return planned
    return WithHome(
        files_of_job=planned, home=settings.home, settings=settings, connection=connection
    )


def _pool_of_node(cluster: Cluster, node_id: NodeId) -> Pool | None:
    node = cluster.nodes.get(node_id)
    return None if node is None else cluster.pools.get(node.pool)


def makes_slices(settings: KubernetesSettings, cluster: Cluster, node: NodeId) -> bool:
    """Whether our agents make a node's slices, and no other system of the cluster."""
    pool = _pool_of_node(cluster, node)
    return pool is None or settings.place_of(pool.name).provider is None


def node_of_slice(cluster: Cluster, slice_id: SliceId) -> NodeId | None:
    """Where a slice is that somebody holds, or a parked notebook lives in."""
    held = (
        placement
        for _, attempt in current_attempts(cluster).values()
        for placement in attempt.placements
    )
    parked = (one.place for _, one in parked_leases(cluster))
    return next((one.node_id for one in chain(held, parked) if one.slice_id == slice_id), None)


def leases_held(cluster: Cluster) -> Leases:
    """Leases that hold a slice, whose server is being ended, or lives on without its cards."""
    found: dict[str, LeaseHeld] = {
        workload.workload_id: LeaseHeld(
            slices=frozenset(slice_ids(attempt)), gone_since_ms=_gone_since_ms(attempt)
        )
        for workload, attempt in current_attempts(cluster).values()
        if is_lease(workload)
    }
    for workload, one in parked_leases(cluster):
        if one.place.slice_id is not None:
            slices = frozenset({one.place.slice_id})
            found[workload.workload_id] = LeaseHeld(slices=slices, parked=True)
    return found


def _gone_since_ms(attempt: Attempt) -> int | None:
    stop = attempt.stop
    return stop.term_ms if stop is not None and stop.why in SERVER_GONE else None


class NextShares:
    """Slots of the next notebooks with a part of a GPU. Asked by one thread.

    Worked out anew only when something changed, and never for more than a tenth of the time.
    """

    def __init__(
        self, cluster: Callable[[], Cluster], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._known: tuple[object, frozenset[DeviceId]] = (None, frozenset())
        self._rests_until_s = now_s()

    def __call__(self, pools: Set[PoolName]) -> frozenset[DeviceId]:
        """See :func:`.core.next_shares.next_shares`."""
        now, began_s = self._cluster(), self._now_s()
        of = (pools, now.pools, now.nodes, now.teams, now.workloads, now.blocks)
        if began_s >= self._rests_until_s and self._known[0] != of:
            self._known = (of, next_shares(now, pools))
            ended_s = self._now_s()
            self._rests_until_s = ended_s + _REST * (ended_s - began_s)
        return self._known[1]


def held_slots(cluster: Cluster) -> frozenset[DeviceId]:
    """Devices that any work of ours holds."""
    return frozenset(
        device_id
        for _, attempt in current_attempts(cluster).values()
        for placement in attempt.placements
        for device_id in placement.device_ids
    )


def shared_slots(cluster: Cluster) -> frozenset[DeviceId]:
    """Slots of which somebody holds a part."""
    return frozenset(
        device_id
        for _, attempt in current_attempts(cluster).values()
        for placement in attempt.placements
        if placement.milli_gpu < WHOLE_MILLI_GPU
        for device_id in placement.device_ids
    )

"""An executor on a real API server, driven by hand: launches on simulated or real nodes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cluster_objects import a_launch, an_attempt
from kubernetes import client

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import AttemptEnded, AttemptStarted
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis, NodeId, PoolName, Stop
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.manifests.homes import WithHome
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import JobFiles, PlannedFiles
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from tests.kubernetes.api import wait_for

POOL_LABEL = "gpucommons.io/pool"
Seen = TypeVar("Seen", AttemptStarted, AttemptEnded)


class Jobs:
    """One namespace, one executor, and the administrator beside it."""

    def __init__(
        self, api: client.ApiClient, kubeconfig: Path, namespace: str, **settings: Any
    ) -> None:
        self.core, self.batch = client.CoreV1Api(api), client.BatchV1Api(api)
        self.namespace = namespace
        #: Where pods ask for their orders; real ones do.
        self.api_url = "http://127.0.0.1:1"
        self.live: set[AttemptId] = set()
        self.fractions: set[DeviceId] = set()
        #: Nodes that an autoscaler is to bring.
        self.missing: dict[PoolName, int] = {}
        self._kubeconfig = kubeconfig
        own = uuid.uuid4().hex[:8]
        self.pool = Pool(
            name=PoolName(f"train-{own}"),
            executor="kubernetes",
            gpu_kind="A100-40",
            grace_ms=5000,
        )
        made: dict[str, Any] = {
            "instance": f"test-{own}",
            "namespace": namespace,
            "system_namespace": namespace,
            "environments": {"": "gpucommons.test/tools:1"},
            "patience_s": 1,
            "reservation_priority_class": None,
            "placeholder_priority_class": None,
            **settings,
        }
        self.settings = KubernetesSettings(**made)
        self.executor = self.boot()

    def boot(self) -> KubernetesExecutor:
        """An executor, as a scheduler that comes back has one."""
        connection = connect(kubeconfig=str(self._kubeconfig))
        files: JobFiles = PlannedFiles(place=PodPlace(image=self.settings.own_image))
        if self.settings.home is not None:
            files = WithHome(
                files_of_job=files,
                home=self.settings.home,
                settings=self.settings,
                connection=connection,
            )
        around = Around(
            pools=lambda: (self.pool,),
            pool_of_node=lambda _node: self.pool,
            current=lambda: frozenset(self.live),
            fractions=lambda: frozenset(self.fractions),
            missing_nodes=lambda: self.missing,
            takes_work=lambda _node: True,
            files=files,
        )
        return KubernetesExecutor(connection, self.settings, around)

    def restart(self) -> None:
        """The scheduler dies and comes back."""
        self.executor.close()
        self.executor = self.boot()

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pool's nodes."""
        return {POOL_LABEL: self.pool.name}

    def launch(
        self,
        *nodes: str,
        milli_gpu: int = 1000,
        cpu_milli: int = 10,
        memory_mib: int = 32,
        **spec: Any,
    ) -> Launch:
        """Begin to start an attempt with a worker on each node; of several roles the first on the first."""
        named = [role.name for role in spec.get("roles", ())]
        roles = named if len(named) > 1 else ["worker"] * len(nodes)
        made = an_attempt(*roles, milli_gpu=milli_gpu, attempt_id=str(uuid.uuid4()))
        placements = tuple(
            replace(
                one,
                node_id=NodeId(node),
                device_ids=(DeviceId(f"{node}/gpu-{rank}"),) if milli_gpu else (),
                cpu_milli=cpu_milli,
                memory_mib=memory_mib,
            )
            for rank, (one, node) in enumerate(zip(made.placements, nodes, strict=True))
        )
        attempt = replace(made, placements=placements)
        launch = replace(a_launch(attempt, **spec), api_url=self.api_url)
        self.live.add(attempt.attempt_id)
        self.start(launch)
        return launch

    def start(self, launch: Launch) -> None:
        """As the loop does every cycle."""
        self.executor.start(launch)

    def seen(self, launch: Launch, kind: type[Seen]) -> Seen | None:
        """What is observed of an attempt."""
        mine = launch.attempt.attempt_id
        for one in self.executor.observe():
            if isinstance(one, kind) and one.attempt_id == mine:
                return one
        return None

    def wait_started(self, launch: Launch) -> None:
        """Until all of its workers run."""

        def started() -> bool:
            ended = self.seen(launch, AttemptEnded)
            assert ended is None, f"it ended before all of its workers ran: {ended}"
            self.start(launch)
            return self.seen(launch, AttemptStarted) is not None

        wait_for(started, "a start", seconds=120)

    def wait_ended(self, launch: Launch, *, seconds: float = 120) -> AttemptEnded:
        """Until it is over."""
        return wait_for(lambda: self.seen(launch, AttemptEnded), "an end", seconds=seconds)

    def stop(self, launch: Launch) -> Attempt:
        """Signal it."""
        now = Millis(self.executor._around.now_ms())
        stop = Stop(
            why="preempt", text="for nlp", announced_ms=now, term_ms=now, kill_ms=Millis(now + 5000)
        )
        stopping = replace(launch.attempt, stop=stop)
        self.executor.signal(stopping, now_ms=now)
        return stopping

    def job_name(self, launch: Launch) -> str:
        """Its Job."""
        return f"gc-{launch.attempt.attempt_id}"

    def pods(self, launch: Launch) -> Sequence[Any]:
        """Its pods."""
        label = f"gpucommons.io/attempt={launch.attempt.attempt_id}"
        found: Sequence[Any] = self.core.list_namespaced_pod(
            self.namespace, label_selector=label
        ).items
        return found

    def close(self) -> None:
        """End what still runs."""
        self.executor.adopt(())
        self.executor.close()

"""From a job that waits to its node: the placeholders that an autoscaler is shown meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, cast

from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.background_tasks.scale_up import PeriodicScaleUp
from gpucommons.scheduler.core.model.intents import Cancel
from gpucommons.scheduler.core.model.resources import Growth
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.core.whatif.scale_up import takes_work
from gpucommons.scheduler.executors.kubernetes.api_server.connection import NOT_FOUND, ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import FIRST_REST_S, Refusals
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView, Hears
from gpucommons.scheduler.executors.kubernetes.cluster_state.placeholder_upkeep import Placeholders
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import read_placeholder
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

CLOUD = PoolName("cloud")
GROWTH = Growth(max_nodes=3, gpus=4, cpu_milli=64_000, memory_mib=262_144, boot_ms=240_000)


class Played:
    """A scheduler with a pool that grows from zero, on a cluster that keeps pods and does nothing else."""

    def __init__(self) -> None:
        pool = a_pool("cloud", gpu_kind="A100-40", growth=GROWTH)
        self.world = World(
            a_node("h1", pool="here"), teams=[a_team(pool="cloud")], pools=[a_pool("here"), pool]
        )
        self.pods: dict[str, dict[str, Any]] = {}
        #: How many pods were ever made.
        self.made = 0
        #: Uid of the scheduler's Deployment; None where there is none.
        self.deployment: str | None = "d1"
        #: How often it was asked for.
        self.asked = 0
        self.now_s = 0.0
        self.refusals = Refusals(lambda: self.now_s)
        self.start()

    def start(self) -> None:
        """The scheduler begins, and knows what the cluster shows."""
        settings = KubernetesSettings(placeholder_owner="gpucommons-scheduler")
        hears = Hears(
            changed=lambda _id: None, warned=lambda _id, _why: None, nodes_changed=lambda: None
        )
        itself = cast("Any", self)
        self.view = ClusterView(itself, settings, threading.RLock(), hears)
        self.scale_ups = PeriodicScaleUp(
            lambda: self.world.cluster, lambda: self.world.now, lambda: self.world.now / 1000
        )
        around = Around(
            pools=lambda: tuple(self.world.cluster.pools.values()),
            missing_nodes=self.scale_ups.missing,
            takes_work=lambda node: takes_work(self.world.cluster, node),
        )
        self.placeholders = Placeholders(itself, settings, around, self.view, itself)
        self._show()

    def beat(self, *, look: bool = True) -> list[str]:
        """Let time go by; returns the placeholders that are there then."""
        if look:
            self.scale_ups.step()
        self.placeholders.beat()
        self.placeholders.beat()
        return sorted(self.pods)

    def observe(self, *, gpus: bool) -> None:
        """A node of the pool is ready, with its GPUs or before they are offered."""
        node = a_node("c1", pool="cloud")
        node = node if gpus else replace(node, devices=())
        self.world.step(NodesObserved(executor="fake", nodes=(a_node("h1", pool="here"), node)))

    def become(self, name: str, **changes: Any) -> None:
        """Something happens to a pod."""
        self.pods[name] = {**self.pods[name], **changes}
        self._show()

    def _show(self) -> None:
        pods = [read_placeholder(pod) for pod in self.pods.values()]
        self.view.placeholders = {pod.uid: pod for pod in pods}

    # --- the cluster -------------------------------------------------------------------------

    def give(
        self, key: Hashable, work: Callable[[], None], told: Callable[[ApiError | None], None]
    ) -> None:
        """Orders are carried out at once, unless they were just refused."""
        if self.refusals.rests(key):
            return
        outcome: ApiError | None = None
        try:
            work()
        except ApiError as error:
            outcome = error
        self.refusals.note(key, outcome)
        told(outcome)
        self._show()

    def get(self, path: str) -> Mapping[str, Any]:
        name = "gpucommons-scheduler"
        self.asked += 1
        assert path == f"/apis/apps/v1/namespaces/gpucommons/deployments/{name}"
        if self.deployment is None:
            raise ApiError(NOT_FOUND, "NotFound", f'deployments.apps "{name}" not found')
        return {"metadata": {"name": name, "uid": self.deployment}}

    def post(self, _path: str, body: Mapping[str, Any]) -> None:
        self.made += 1
        meta = {**body["metadata"], "uid": f"u{self.made}"}
        self.pods[meta["name"]] = {**body, "metadata": meta}

    def delete(self, path: str, options: Mapping[str, Any]) -> None:
        name = path.rpartition("/")[2]
        assert self.pods[name]["metadata"]["uid"] == options["preconditions"]["uid"]
        del self.pods[name]


def test_one_job_has_one_node_asked_for_also_while_that_has_no_gpu_yet() -> None:
    played = Played()
    played.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    assert played.beat() == ["gc-node-cloud-1"]
    played.observe(gpus=False)
    assert played.beat(look=False) == ["gc-node-cloud-1"]
    assert played.beat() == ["gc-node-cloud-1"]
    # Its GPUs are seen by the cluster first, which has the placeholder run there.
    pod = played.pods["gc-node-cloud-1"]
    played.become("gc-node-cloud-1", spec={**pod["spec"], "nodeName": "c1"})
    assert played.beat() == ["gc-node-cloud-1"]
    played.observe(gpus=True)
    assert played.beat(look=False) == []
    assert played.beat() == []
    assert played.made == 1


def test_a_scheduler_that_comes_back_leaves_what_was_asked_for() -> None:
    played = Played()
    played.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    assert played.beat() == ["gc-node-cloud-1"]
    played.start()
    assert played.beat(look=False) == ["gc-node-cloud-1"]
    assert played.beat() == ["gc-node-cloud-1"]
    assert played.made == 1


def test_after_a_restart_what_nothing_needs_any_more_goes() -> None:
    played = Played()
    job = played.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    assert played.beat() == ["gc-node-cloud-1"]
    played.world.ask(Cancel(workload_id=job))
    played.start()
    assert played.beat() == []


def test_a_placeholder_that_was_evicted_is_replaced_and_removed() -> None:
    played = Played()
    played.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    assert played.beat() == ["gc-node-cloud-1"]
    played.become("gc-node-cloud-1", status={"phase": "Failed", "reason": "Evicted"})
    assert played.beat() == ["gc-node-cloud-2"]


def test_a_placeholder_belongs_to_the_deployment_of_its_time() -> None:
    played = Played()
    played.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    played.beat()
    played.deployment = "d2"
    played.become("gc-node-cloud-1", status={"phase": "Failed"})
    (name,) = played.beat()
    (owner,) = played.pods[name]["metadata"]["ownerReferences"]
    assert owner["uid"] == "d2"


def test_where_the_release_is_gone_no_node_is_asked_for_and_an_admin_reads_why() -> None:
    played = Played()
    played.deployment = None
    played.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    assert played.beat() == []
    assert played.asked == 1, "a person must mend it: it is not asked for at each beat"
    assert played.placeholders.refused()[CLOUD] == (
        "No node can be asked for in pool cloud, as placeholder_owner names the Deployment"
        " gpucommons-scheduler, which the cluster does not show in namespace gpucommons:"
        ' deployments.apps "gpucommons-scheduler" not found'
    )
    played.deployment = "d1"
    played.now_s = FIRST_REST_S
    assert played.beat() == ["gc-node-cloud-1"]
    assert played.placeholders.sentences() == {}

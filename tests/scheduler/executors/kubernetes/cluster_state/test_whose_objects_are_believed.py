"""Labels say whose an object is only where nobody else may write: elsewhere it is somebody else's."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from cluster_objects import ATTEMPT_ID, JOB, a_pod

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import (
    AgentSeen,
    ClusterView,
    Hears,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import NotebookSeen
from gpucommons.scheduler.executors.kubernetes.nodes.reservation_pods import (
    ReservationSeen,
    reservation_name,
)
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import OtherPod, PodSeen
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

SLOT = DeviceId("n1/gpu-0")
SETTINGS = KubernetesSettings(
    namespace="jobs",
    team_namespaces={"nlp": "nlp-jobs"},
    system_namespace="system",
    hub_namespace="hub",
    agent_namespace="agents",
)


def a_view() -> ClusterView:
    hears = Hears(
        changed=lambda _id: None, warned=lambda _id, _why: None, nodes_changed=lambda: None
    )
    return ClusterView(cast("Connection", None), SETTINGS, threading.RLock(), hears)


def subject(path: str) -> Any:
    """How objects of a kind are read."""
    return next(one.read for one, _ in a_view()._subjects() if one.path.endswith(path))


def running(namespace: str, **labels: str) -> dict[str, Any]:
    """A pod on a node, with one GPU."""
    pod = a_pod(phase="Running")
    pod["metadata"]["namespace"] = namespace
    pod["metadata"]["labels"] |= labels
    pod["spec"]["nodeName"] = "n1"
    return pod


def a_reservation(namespace: str, name: str) -> dict[str, Any]:
    pod = running(namespace)
    pod["metadata"] |= {
        "name": name,
        "labels": {names.INSTANCE: "gpucommons", names.KIND: names.RESERVATION},
        "annotations": {names.SLOT: SLOT},
    }
    return pod


@pytest.mark.parametrize(
    ("namespace", "kind"),
    [("jobs", PodSeen), ("nlp-jobs", PodSeen), ("hub", OtherPod), ("anybodys", OtherPod)],
)
def test_an_attempts_pod_is_one_only_where_jobs_run(namespace: str, kind: type) -> None:
    assert isinstance(subject("/pods")(running(namespace)), kind)


@pytest.mark.parametrize(
    ("namespace", "name", "kind"),
    [
        ("system", reservation_name(SLOT), ReservationSeen),
        ("system", "another", OtherPod),
        ("jobs", reservation_name(SLOT), OtherPod),
        ("anybodys", reservation_name(SLOT), OtherPod),
    ],
)
def test_a_reservation_is_one_in_our_namespace_under_its_slots_name(
    namespace: str, name: str, kind: type
) -> None:
    assert isinstance(subject("/pods")(a_reservation(namespace, name)), kind)


@pytest.mark.parametrize(("namespace", "kind"), [("hub", NotebookSeen), ("anybodys", OtherPod)])
def test_a_notebook_is_one_beside_the_hub(namespace: str, kind: type) -> None:
    pod = running(namespace)
    # As GpuKubeSpawner writes them; the instance is the hub's release.
    pod["metadata"]["labels"] = {
        names.INSTANCE: "jupyterhub",
        names.KIND: "notebook",
        names.WORKLOAD: "lease",
        names.SLICE: "s-1",
    }
    assert isinstance(subject("/pods")(pod), kind)


def test_a_notebook_without_a_slice_takes_its_room_like_everybody() -> None:
    pod = running("hub")
    pod["metadata"]["labels"] = {names.KIND: "notebook"}
    assert isinstance(subject("/pods")(pod), OtherPod)


def test_the_gpus_of_a_pod_that_says_it_is_ours_still_count() -> None:
    found = subject("/pods")(running("anybodys"))
    assert (found.node, found.gpus) == ("n1", 1)


@pytest.mark.parametrize(("namespace", "ours"), [("nlp-jobs", True), ("anybodys", False)])
def test_jobs_and_complaints_about_them_count_only_where_jobs_run(
    namespace: str, ours: bool
) -> None:
    meta = {"name": JOB, "namespace": namespace, "uid": "u", "labels": {names.ATTEMPT: ATTEMPT_ID}}
    job = {"metadata": meta, "spec": {"template": {"spec": {}}}}
    event = {"metadata": meta, "involvedObject": {"kind": "Job", "name": JOB}, "reason": "Failed"}
    assert (subject("/jobs")(job) is not None) == ours
    assert (subject("/events")(event) is not None) == ours


def an_agent(namespace: str = "agents", account: str = "gpucommons-agent", **labels: str) -> Any:
    pod = running(namespace)
    pod["metadata"]["labels"] = {
        names.INSTANCE: "gpucommons",
        names.COMPONENT: "agent",
    } | labels
    pod["spec"]["serviceAccountName"] = account
    pod["status"]["podIP"] = "10.0.0.7"
    return pod


def test_an_agent_is_asked_where_it_is() -> None:
    found = subject("/pods")(an_agent())
    assert (found.node, found.address) == ("n1", "10.0.0.7")


@pytest.mark.parametrize(
    "pod",
    [
        an_agent("jobs"),
        an_agent("hub"),
        an_agent(account="default"),
        an_agent(**{names.INSTANCE: "anothers"}),
        an_agent(**{names.COMPONENT: "scheduler"}),
    ],
    ids=["of jobs", "of notebooks", "of another account", "of another release", "another part"],
)
def test_a_pod_that_only_looks_like_an_agent_never_gets_the_token(pod: Any) -> None:
    assert not isinstance(subject("/pods")(pod), AgentSeen)


def test_agents_are_not_asked_in_clear_unless_somebody_says_so() -> None:
    with pytest.raises(ValueError, match="would cross the network in clear"):
        KubernetesSettings(agents=True)
    KubernetesSettings(agents=True, agent_in_clear=True)
    KubernetesSettings(agents=True, agent_ca_file=Path("ca.crt"))

"""The node agent on a real node: a real kubelet mounts slices into pods of a `restricted` namespace."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.providers.cluster.pods import pod_injection
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.scheduler.cluster.cluster_agents import ClusterAgents
from gpucommons.scheduler.core.model.types import NodeId
from tests.kubernetes.api import wait_for
from tests.kubernetes.gpu.node_agent import NodeAgent
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.pods import Pods

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

MOUNT = "/run/gpucommons/slice"
ATTEMPT = "0193f0aa-1111-7222-8333-444455556666"


@pytest.fixture(scope="module")
def agent(api: client.ApiClient, real_node: str, python_image: str) -> Iterator[NodeAgent]:
    core = client.CoreV1Api(api)
    made = core.create_namespace({"metadata": {"generateName": "agents-"}})
    namespace = made.metadata.name
    agent = NodeAgent(api, namespace, real_node)
    try:
        agent.start()
        yield agent
    finally:
        agent.stop()
        core.delete_namespace(namespace)


@pytest.fixture
def pods(api: client.ApiClient, restricted_namespace: str, agent: NodeAgent) -> Iterator[Pods]:
    pods = Pods(client.CoreV1Api(api), restricted_namespace)
    yield pods
    # While there is an agent: without one the kubelet could not take their volumes back.
    pods.core.delete_collection_namespaced_pod(pods.namespace)
    wait_for(lambda: not names_of(pods), "the pods are gone", seconds=120)


def names_of(pods: Pods) -> list[str]:
    return [pod.metadata.name for pod in pods.core.list_namespaced_pod(pods.namespace).items]


@pytest.fixture
def opened(agent: NodeAgent) -> Iterator[Callable[..., GpuSlice]]:
    """Opens slices as a scheduler does; they are closed in the end."""
    names: list[SliceId] = []

    def open_slice(name: str, milli_gpu: int = 500) -> GpuSlice:
        card = agent.client.devices().devices[0]
        gpu_slice = GpuSlice(
            slice_id=SliceId(name),
            shares=(DeviceShare(device_id=card.device_id, milli_gpu=milli_gpu),),
            memory_mib=share_memory_mib(card, milli_gpu),
        )
        agent.client.open(gpu_slice)
        names.append(gpu_slice.slice_id)
        return gpu_slice

    yield open_slice
    for name in names:
        agent.client.close_slice(name)


@pytest.fixture
def start(pods: Pods, agent: NodeAgent) -> Callable[..., None]:
    """Starts a pod with a slice's volume."""

    def create(name: str, command: list[str], **attributes: str) -> None:
        pods.create(
            name,
            command,
            node=agent.node,
            volumes=[agent.volume(**attributes)],
            mounts=[{"name": "slice", "mountPath": MOUNT}],
        )

    return create


def events_of(pods: Pods, name: str) -> str:
    found = pods.core.list_namespaced_event(
        pods.namespace, field_selector=f"involvedObject.name={name}"
    )
    return "\n".join(str(event.message) for event in found.items)


def test_the_agent_reports_the_cards_of_its_node_by_uuid(agent: NodeAgent) -> None:
    report = agent.client.devices()
    assert report.node == agent.node
    assert len(report.devices) == 4
    assert all(device.device_id.startswith("GPU-") for device in report.devices)
    assert not any(device.simulated for device in report.devices)
    assert set(report.isolations) == {device.device_id for device in report.devices}


def test_a_restricted_pod_reads_its_slice_and_writes_nothing_there(
    pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    opened("reads")
    script = (
        f"ls {MOUNT}; test -e {MOUNT}/usage.sock && echo socket;"
        f"touch {MOUNT}/new 2>&1; rm {MOUNT}/usage.sock 2>&1; echo end"
    )
    start("pod", ["sh", "-c", script], slice="reads")
    said = pods.output("pod", seconds=120)
    assert "socket" in said
    assert said.count("cannot") == 2


def test_the_processes_of_the_pod_are_the_slices_and_gone_with_it(
    agent: NodeAgent,
    pods: Pods,
    start: Callable[..., None],
    opened: Callable[..., GpuSlice],
) -> None:
    held = opened("counts").slice_id
    start("pod", ["sh", "-c", "sleep 600 & sleep 600"], slice="counts")
    pods.wait_running("pod", seconds=120)
    wait_for(lambda: len(agent.client.reading(held).pids) >= 3, "the pod's processes are seen")
    assert len(agent.client.tenants()[held]) == 1

    pods.core.delete_namespaced_pod("pod", pods.namespace)
    wait_for(lambda: not agent.client.reading(held).pids, "they are seen gone", seconds=120)
    # NodeUnpublishVolume came, too.
    wait_for(lambda: not agent.client.tenants()[held], "the volume is taken back", seconds=120)


def test_a_pod_hears_of_its_slice_through_the_socket(
    pods: Pods, agent: NodeAgent, opened: Callable[..., GpuSlice], python_image: str
) -> None:
    opened("hears")
    program = (
        "import json, socket; s = socket.socket(socket.AF_UNIX);"
        f"s.connect('{MOUNT}/usage.sock'); f = s.makefile();"
        "print(sorted(json.loads(f.readline()))); print(json.loads(f.readline())['sample']['slice_id'])"
    )
    pods.create(
        "pod",
        ["python", "-c", program],
        image=python_image,
        node=agent.node,
        volumes=[agent.volume(slice="hears")],
        mounts=[{"name": "slice", "mountPath": MOUNT}],
    )
    assert pods.output("pod", seconds=120).split() == ["['history']", "hears"]


def test_a_worker_finds_its_slice_by_attempt_and_rank(
    agent: NodeAgent, pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    held = opened("444455556666-1").slice_id
    start("digits-7-1-abcde", ["sleep", "600"], attempt=ATTEMPT)
    pods.wait_running("digits-7-1-abcde", seconds=120)
    assert agent.client.reading(held).pids


def test_a_pod_without_a_grant_does_not_start_and_says_why(
    pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    start("pod", ["true"], slice="nobody-granted")
    wait_for(
        lambda: "has not opened slice nobody-granted" in events_of(pods, "pod"),
        "the reason among the pod's events",
        seconds=120,
    )
    assert pods.read("pod").status.phase == "Pending"
    # The grant comes late: the kubelet tries again by itself.
    opened("nobody-granted")
    pods.output("pod", seconds=120)


def test_another_pod_that_names_the_slice_does_not_start(
    pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    opened("mine")
    start("owner", ["sleep", "600"], slice="mine")
    pods.wait_running("owner", seconds=120)
    start("thief", ["true"], slice="mine")
    wait_for(
        lambda: "another pod's" in events_of(pods, "thief"), "the refusal among events", seconds=120
    )
    assert pods.read("thief").status.phase == "Pending"


def test_an_agent_that_was_killed_leaves_pods_as_they_are(
    agent: NodeAgent, pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    held = opened("survives").slice_id
    start(
        "pod",
        ["sh", "-c", f"sleep 600 & while :; do test -e {MOUNT}/usage.sock; sleep 1; done"],
        slice="survives",
    )
    pods.wait_running("pod", seconds=120)
    before = pods.read("pod").status.container_statuses[0].container_id
    agent.kill()
    agent.run()
    assert pods.read("pod").status.container_statuses[0].container_id == before
    wait_for(lambda: agent.client.reading(held).pids, "its processes are the slice's again")
    # It starts and ends with the agent's successor as with the agent.
    pods.core.delete_namespaced_pod("pod", pods.namespace)
    wait_for(lambda: not agent.client.tenants()[held], "the volume is taken back", seconds=120)


def test_a_pod_that_is_deleted_while_the_agent_is_away_goes_when_it_is_back(
    agent: NodeAgent, pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    held = opened("leaves").slice_id
    start("pod", ["sleep", "600"], slice="leaves")
    pods.wait_running("pod", seconds=120)
    agent.kill()
    pods.core.delete_namespaced_pod("pod", pods.namespace)
    agent.run()
    wait_for(lambda: not agent.client.tenants()[held], "the volume is taken back", seconds=120)


def test_the_kubelets_word_names_the_card_of_each_pod(agent: NodeAgent, pods: Pods) -> None:
    pods.create(
        "holder", ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 600"], gpus=1, node=agent.node
    )
    pods.wait_running("holder", seconds=120)

    def held() -> tuple[DeviceId, ...]:
        rows: dict[Any, Any] = {(row.namespace, row.pod): row for row in agent.client.held()}
        row = rows.get((pods.namespace, "holder"))
        return () if row is None else row.device_ids

    ids = wait_for(held, "the kubelet says what the pod holds")
    said = pods.core.read_namespaced_pod_log("holder", pods.namespace).strip()
    assert ids == (said,)


def test_a_pod_cannot_pretend_another_rank_or_another_pod(
    agent: NodeAgent, pods: Pods, start: Callable[..., None], opened: Callable[..., GpuSlice]
) -> None:
    own, other = opened("444455556666-2").slice_id, opened("444455556666-3").slice_id
    forged = {
        "csi.storage.k8s.io/pod.name": "digits-7-3-abcde",
        "csi.storage.k8s.io/pod.uid": "11111111-9a1d-4c22-8b7e-0d7c4f6a1b2c",
    }
    start("digits-7-2-abcde", ["sleep", "600"], attempt=ATTEMPT, **forged)
    pods.wait_running("digits-7-2-abcde", seconds=120)
    # The kubelet's own words stand above those in the pod.
    assert agent.client.reading(own).pids
    assert agent.client.reading(other).pids == ()
    assert agent.client.tenants()[own] == {pods.read("digits-7-2-abcde").metadata.uid}


def test_the_agents_of_two_nodes_are_asked_as_one(
    api: client.ApiClient, agent: NodeAgent, two_real_nodes: list[str], pods: Pods
) -> None:
    core = client.CoreV1Api(api)
    made = core.create_namespace({"metadata": {"generateName": "agents-"}})
    second = NodeAgent(api, made.metadata.name, two_real_nodes[1])
    second.start()
    both = {NodeId(one.node): one for one in (agent, second)}
    places = {node: one.url for node, one in both.items()}
    agents = ClusterAgents(
        addresses=lambda: places,
        connect=lambda url: next(both[n] for n, place in places.items() if place == url).connect(
            url
        ),
        devices_of=lambda: {
            DeviceId(f"{node}/gpu-{card.index}"): card.device_id
            for node, report in agents.reports().items()
            for card in report.devices
        },
    )
    try:
        assert set(agents.reports()) == set(both)
        slot = DeviceId(f"{second.node}/gpu-2")
        share = DeviceShare(device_id=slot, milli_gpu=500)
        held = GpuSlice(slice_id=SliceId("far"), shares=(share,), memory_mib=8192)
        assert agents.prepare(held).isolation == "watched"
        pods.create(
            "pod",
            ["sleep", "600"],
            node=second.node,
            volumes=[second.volume(slice="far")],
            mounts=[{"name": "slice", "mountPath": MOUNT}],
        )
        pods.wait_running("pod", seconds=120)
        assert agents.reading(held.slice_id).pids
        assert {one.slice_id for one in agents.usage()} >= {"far"}
        second.kill()
        wait_for(lambda: _is_away(agents, held.slice_id), "a node that is away is never empty")
        second.run()
        places[NodeId(second.node)] = second.url
        pods.core.delete_namespaced_pod("pod", pods.namespace)
        wait_for(lambda: not names_of(pods), "the pod is gone", seconds=120)
        assert agents.reading(held.slice_id).pids == ()
        agents.close_slice(held.slice_id)
    finally:
        agents.close()
        second.stop()
        core.delete_namespace(made.metadata.name)


def _is_away(agents: ClusterAgents, slice_id: SliceId) -> bool:
    try:
        assert agents.reading(slice_id).pids
    except AgentUnavailable:
        return True
    return False


def test_half_a_reserved_card_as_a_pod_gets_it(
    agent: NodeAgent, pods: Pods, python_image: str
) -> None:
    pods.create("reservation", ["sleep", "600"], gpus=1, node=agent.node)
    pods.wait_running("reservation", seconds=120)

    def reserved() -> DeviceId | None:
        ids = [row.device_ids for row in agent.client.held() if row.namespace == pods.namespace]
        return ids[0][0] if ids else None

    uuid = wait_for(reserved, "the card of the reservation")
    report = agent.client.devices()
    card = next(device for device in report.devices if device.device_id == uuid)
    half = GpuSlice(
        slice_id=SliceId("half"),
        shares=(DeviceShare(device_id=uuid, milli_gpu=500),),
        memory_mib=share_memory_mib(card, 500),
    )
    prepared = agent.client.prepare(half)
    given = pod_injection(half, [card], isolation=prepared.isolation, driver=agent.driver)
    program = (
        "import json, os, socket; s = socket.socket(socket.AF_UNIX);"
        "s.connect(os.environ['GPUCOMMONS_SLICE_SOCKET']); f = s.makefile(); f.readline();"
        "sample = json.loads(f.readline())['sample'];"
        "print(sample['memory_limit_mib'], sample['isolation'], os.environ['NVIDIA_VISIBLE_DEVICES'])"
    )
    pods.create(
        "fraction",
        ["python", "-c", program],
        image=python_image,
        node=agent.node,
        env=[{"name": key, "value": value} for key, value in given.env.items()],
        volumes=list(given.pod.volumes),
        mounts=given.pod.volume_mounts,
    )
    said = pods.output("fraction", seconds=120).split()
    agent.client.close_slice(half.slice_id)
    assert said == [str(half.memory_mib), report.isolations[uuid], uuid]


def test_a_whole_gpu_that_the_kubelet_chose_is_the_pods_slice(agent: NodeAgent, pods: Pods) -> None:
    whole = GpuSlice(
        slice_id=SliceId("whole"),
        shares=(DeviceShare(device_id=DeviceId("chosen-later-0"), milli_gpu=1000),),
        memory_mib=8192,
    )
    agent.client.open(whole)
    pods.create(
        "worker",
        ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 600"],
        gpus=1,
        node=agent.node,
        volumes=[agent.volume(slice="whole")],
        mounts=[{"name": "slice", "mountPath": MOUNT}],
    )
    pods.wait_running("worker", seconds=120)
    (known,) = (one for one in agent.client.slices() if one.slice_id == "whole")
    said = pods.core.read_namespaced_pod_log("worker", pods.namespace).strip()
    agent.client.close_slice(whole.slice_id)
    assert [share.device_id for share in known.shares] == [said]


@pytest.mark.timeout(600)
def test_an_agent_that_lost_everything_hears_of_its_pods_again(
    agent: NodeAgent, pods: Pods, kubeconfig: Path
) -> None:
    whole = GpuSlice(
        slice_id=SliceId("forgotten"),
        shares=(DeviceShare(device_id=DeviceId("chosen-later-0"), milli_gpu=1000),),
        memory_mib=8192,
    )
    agent.client.open(whole)
    pods.create(
        "pod",
        ["sleep", "600"],
        gpus=1,
        node=agent.node,
        volumes=[agent.volume(slice="forgotten")],
        mounts=[{"name": "slice", "mountPath": MOUNT}],
    )
    pods.wait_running("pod", seconds=120)
    agent.client.slices()
    before = agent.client.reading(whole.slice_id).pids
    forget = f"import glob, os\nfor name in glob.glob('{agent.folder}/*.json'): os.remove(name)"
    Kubectl(kubeconfig, agent.namespace)("exec", "agent", "--", "python", "-c", forget)
    agent.kill()
    agent.run()
    assert "forgotten" not in {one.slice_id for one in agent.client.slices()}
    assert agent.client.reading(whole.slice_id).pids == before
    agent.client.open(whole)
    assert agent.client.reading(whole.slice_id).pids == before
    # The kubelet shows its pods their volumes again, and with that says which card each has.
    wait_for(
        lambda: [one for one in agent.client.slices() if one.shares[0].device_id[:4] == "GPU-"],
        "the slice's card is known again",
        seconds=240,
    )
    assert pods.read("pod").status.container_statuses[0].restart_count == 0
    pods.core.delete_namespaced_pod("pod", pods.namespace)
    wait_for(lambda: not agent.client.reading(whole.slice_id).pids, "nobody is in it", seconds=120)
    agent.client.close_slice(whole.slice_id)

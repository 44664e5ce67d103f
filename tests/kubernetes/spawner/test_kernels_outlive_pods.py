"""A pod ends, and what ran in it goes on in the next one, on another node: kernels, and jobs.

Everything is real: hub, agents, kubelets, containerd, CRIU. Users' pods are in a namespace that is
guarded and enforces PodSecurity `restricted`.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websocket
from kernel_server import Page, criu_of_tests
from kubernetes import client

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.gpu.hibernation.containers import RESOURCE
from gpucommons.scheduler.executors.kubernetes.objects.names import ATTEMPT
from tests.kubernetes.api import wait_for
from tests.kubernetes.attempts_api import AttemptsApi
from tests.kubernetes.executors.hibernated_job import HibernatedJob, over, token_of
from tests.kubernetes.gpu.node_agent import NodeAgent
from tests.kubernetes.guarded import Guarded, guarded
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.pods import make_volume
from tests.kubernetes.spawner.kube_hub import (
    CONFIG,
    REAL_CONFIG,
    AgentScheduler,
    KubeHub,
    bridge_address,
    in_pod,
    started,
    until,
)

pytestmark = [pytest.mark.hub, pytest.mark.criu, pytest.mark.timeout(600)]
HALF = {"milli_gpu": 500, "team": "vision", "pool": "gpu"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
HOME = """
c.KubeSpawner.volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]
c.KubeSpawner.mem_limit = "2G"
"""


@pytest.fixture(scope="module")
def place(api: client.ApiClient, real_node: str) -> Iterator[Guarded]:
    with guarded(api, **RESTRICTED) as found:
        yield found


@pytest.fixture(scope="module")
def agents(
    api: client.ApiClient, python_image: str, two_real_nodes: list[str]
) -> Iterator[list[NodeAgent]]:
    criu = Path(criu_of_tests())
    if not criu.is_dir():
        pytest.skip("the CRIU of the tests is no folder that a container could be shown")
    core = client.CoreV1Api(api)
    name = core.create_namespace({"metadata": {"generateName": "agents-"}}).metadata.name
    first = NodeAgent(api, name, two_real_nodes[0], criu=criu)
    second = first.beside(two_real_nodes[1])
    try:
        first.start()
        second.run()
        for one in (first, second):
            wait_for(lambda one=one: offers(core, one.node), one.said, seconds=120)
        yield [first, second]
        second.kill()
        first.stop()
    finally:
        core.delete_namespace(name)


def offers(core: client.CoreV1Api, node: str) -> bool:
    return core.read_node(node).status.allocatable.get(RESOURCE, "0") != "0"


@pytest.fixture(scope="module")
def hub(
    tmp_path_factory: pytest.TempPathFactory,
    api: client.ApiClient,
    place: Guarded,
    agents: list[NodeAgent],
    python_image: str,
) -> Iterator[KubeHub]:
    home = tmp_path_factory.mktemp("home")
    for folder in (home, *list(home.parents)[:2]):
        folder.chmod(0o755)
    os.chown(home, 1000, 1000)
    volume = make_volume(api, place.namespace, "home", home)
    scheduler = AgentScheduler(agents[0])
    scheduler.besides = {"can_hibernate": True}
    facts = {
        "answering_url": "",
        "host": bridge_address(api, agents[0].node),
        "image": python_image,
        "slice_driver": agents[0].driver,
    }
    folder = tmp_path_factory.mktemp("hub")
    config = CONFIG + REAL_CONFIG + HOME
    made = KubeHub(folder, scheduler, place, facts=facts, config=config)
    try:
        with started(made, api) as found:
            yield found
    finally:
        client.CoreV1Api(api).delete_persistent_volume(volume)


class Server:
    """The server in the user's pod, as their browser sees it."""

    def __init__(self, hub: KubeHub, user: str) -> None:
        self.hub, self.user = hub, user
        self.token = hub.api.post(f"/users/{user}/tokens", json={}).json()["token"]

    @property
    def address(self) -> str:
        pod = self.hub.pod(self.user)
        assert pod is not None
        return f"{pod['status']['podIP']}:8888/user/{self.user}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"token {self.token}"}
        url = f"http://{self.address}/{path}"
        answer = httpx.request(
            method,
            url,
            headers=headers,
            json=body,
            timeout=60,
            trust_env=False,
            verify=trusted_at(url),
        )
        answer.raise_for_status()
        return answer.json()

    def open(self, path: str) -> str:
        """Open a notebook; its kernel."""
        kernel = {"name": "python3"}
        asked = {"path": path, "name": path, "type": "notebook", "kernel": kernel}
        return str(self.ask("POST", "api/sessions", asked)["kernel"]["id"])

    def moved(self) -> dict[str, bool]:
        """What an open page is told of each kernel that is back: whether it came from another node."""
        line = websocket.create_connection(
            f"ws://{self.address}/gpucommons/ws",
            header=[f"Authorization: token {self.token}"],
            suppress_origin=True,
            timeout=60,
        )
        try:
            told = (json.loads(line.recv()) for _ in itertools.count())
            message = next(each for each in told if each["type"] == "kernels")
        finally:
            line.close()
        return {each["kernel_id"]: each["moved"] for each in message["woken"]}

    def run(self, kernel: str, code: str) -> str:
        page = Page(f"ws://{self.address}/api/kernels/{kernel}", self.token)
        try:
            return page.run(code).strip()
        finally:
            page.close()


@pytest.fixture(scope="module")
def server(hub: KubeHub) -> Iterator[Server]:
    started_now(hub)
    yield Server(hub, "alice")
    hub.stop_server("alice")
    until(lambda: hub.pod("alice") is None, what="the end of the pod")


def started_now(hub: KubeHub) -> None:
    answer = hub.start_server("alice", HALF)
    assert answer.status_code == 201, answer.text + hub.log[-3000:]


def test_kernels_answer_with_their_variables_in_a_pod_on_the_other_node(
    hub: KubeHub, server: Server, agents: list[NodeAgent], place: Guarded
) -> None:
    first, second, refused = (server.open(f"{name}.ipynb") for name in "abc")
    server.run(first, "import os; x = 41; data = os.urandom(50 << 20); total = sum(data)")
    server.run(second, "text = 'kept'")
    # Memory of a removed file: CRIU cannot save that without rights over the machine.
    unnamed = "import mmap, tempfile; f = tempfile.TemporaryFile(); f.truncate(9)"
    server.run(refused, f"{unnamed}; a = mmap.mmap(f.fileno(), 9); y = 7")
    pod = hub.pod("alice")
    assert pod is not None

    place.admin.ask("DELETE", place.path("pods", pod["metadata"]["name"]))
    until(lambda: hub.pod("alice") is None, what="the end of the pod")
    until(lambda: not hub.server("alice"), what="the hub's notice of it")
    scheduler = hub.scheduler
    assert isinstance(scheduler, AgentScheduler)
    scheduler.move_to(agents[1])
    started_now(hub)

    pod = hub.pod("alice")
    assert pod is not None
    assert pod["spec"]["nodeName"] == agents[1].node
    assert server.run(first, "print(x + 1, sum(data) == total)") == "42 True"
    assert server.run(second, "print(text)") == "kept"
    assert server.moved() == {first: True, second: True}
    [stored] = server.ask("GET", "gpucommons/stored-variables")["stored"]
    assert stored["path"] == "c.ipynb"
    assert "y" in stored["kept"]


@pytest.fixture
def job(
    api: client.ApiClient,
    kubeconfig: Path,
    place: Guarded,
    python_image: str,
    attempts_api: AttemptsApi,
) -> Iterator[HibernatedJob]:
    made = HibernatedJob(api, kubeconfig, place.namespace, python_image, attempts_api)
    try:
        yield made
    finally:
        made.close()


def test_a_plain_job_goes_on_on_the_other_node_and_repeats_no_step(
    job: HibernatedJob, agents: list[NodeAgent], kubeconfig: Path
) -> None:
    first = job.start(agents[0].node)
    job.steps(first, more_than=20)

    job.pause(first)
    before = over(first, job.image(first))
    steps = job.steps(first)
    second = job.start(agents[1].node, (before,))
    steps += job.steps(second, more_than=20)
    told = job.attempts.trees[token_of(second.attempt.attempt_id)]
    assert (told.woken_from, told.not_woken) == (1, "")

    assert steps == list(range(1, len(steps) + 1))

    # What an admin does before a node is worked on; the log of an evicted pod goes with it.
    drain(kubeconfig, agents[1].node, second.attempt.attempt_id)
    again = over(second, job.image(second))
    third = job.start(agents[0].node, (before, again))
    later = job.steps(third, more_than=20)
    assert later[0] > steps[-1]
    assert later == list(range(later[0], later[0] + len(later)))


def drain(kubeconfig: Path, node: str, attempt: str) -> None:
    """Evict its pod; those of agents and of other tests stay, and the node comes back."""
    kubectl = Kubectl(kubeconfig)
    selected = f"--pod-selector={ATTEMPT}={attempt}"
    try:
        kubectl("drain", node, "--ignore-daemonsets", "--force", "--delete-emptydir-data", selected)
    finally:
        kubectl("uncordon", node)


#: What a hostile user runs in such a pod; each line says what they got, and should not have.
HOSTILE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
PROC = "/run/gpucommons/hibernation/proc"
def got(name, *arguments):
    if libc.syscall(*arguments) != -1:
        print(name)
def calls(where):
    here = where.encode()
    got(where + " bind", 165, b"/", b"/tmp/x", b"", 0x1000, None)
    got(where + " remount", 165, b"none", b"/", b"", 0x20, None)
    got(where + " umount", 166, PROC.encode(), 2)
    got(where + " setns", 308, os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)
    for flags in (0x40000000, 0x50000000, 0x08000000, 0x04000000, 0x02000000, 0x30020000):
        got(f"{where} unshare {flags:x}", 272, flags)
    for name, number in (("fsopen", 430), ("bpf", 321), ("io_uring", 425), ("keyctl", 250),
                         ("userfaultfd", 323), ("clone3", 435), ("pivot_root", 155), ("chroot", 161),
                         ("perf", 298), ("init_module", 175), ("open_by_handle_at", 304)):
        got(f"{where} {name}", number, 0, 0, 0, 0, 0)
def files(where):
    for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches",
                 "sysrq-trigger", "kcore", "sys/kernel/hostname", "sys/net/ipv4/ip_forward"):
        try:
            os.close(os.open(f"{PROC}/{name}", os.O_WRONLY))
        except OSError:
            continue
        print(where, name)
    try:
        open("/run/gpucommons/hibernation/criu/usr/sbin/criu", "ab")
    except OSError:
        pass
    else:
        print(where, "criu")
def processes(where):
    for pid in {one for one in os.listdir(PROC) if one.isdecimal()} - {str(os.getpid())}:
        for word in (b"kubelet", b"containerd", b"gpucommons.gpu.agent"):
            if word in open(f"{PROC}/{pid}/cmdline", "rb").read():
                print(where, "sees", word)
os.makedirs("/tmp/x", exist_ok=True)
for where in ("user", "namespace"):
    if where == "namespace":
        uid = os.getuid()
        assert libc.unshare(0x10000000) == 0
        open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
        assert libc.unshare(0x20020000) == 0 and os.getuid() == 0
    calls(where); files(where); processes(where)
print("end")
"""


def test_a_hostile_user_gains_nothing_on_others_or_the_node(
    hub: KubeHub, server: Server, kubeconfig: Path
) -> None:
    pod = hub.pod("alice")
    assert pod is not None
    # Beside the kernels' trees: under the pod's own filter, with all that the pod has.
    assert in_pod(kubeconfig, pod, "python", "-c", HOSTILE) == "end\n"

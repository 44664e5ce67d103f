"""A notebook's pod stays while it is parked: its GPU is another team's, and comes back to the same pod.

All of it is real but the card: two nodes with kubelets, agents, scheduler, hub, a notebook server in a pod.
The driver is the one of the tests with NVIDIA's checkpoint calls; what the card says of who is on it (the
fake NVML) is the test's word, so that a notebook can be caught at a lie.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from kernel_server import Page

from benchmarks.tour.person import Person
from benchmarks.tour_kubernetes.site import AGENTS, HUB, JOBS, Site
from gpucommons.gpu.shim.building import CannotBuildShim
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls, parking_calls
from tests.gpu.fake_cuda import parking_card
from tests.kubernetes.api import wait_for
from tests.kubernetes.fixtures import need, need_root
from tests.kubernetes.node.node_parts import fake_nvml_state
from tests.kubernetes.node.real_node import NVML_STATE, PROGRAMS

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]
HOME = "/home/user"
DRIVER = f"{HOME}/libcuda.so.1"
#: The server in the pod finds this driver as it would find NVIDIA's.
CONFIG = f"""
import os
from pathlib import Path
from gpucommons.gpu.shim.drivers import Drivers
from gpucommons.labextension.activity import reporter
from gpucommons.labextension.parking import ability
os.environ["FAKE_CUDA_CARD"] = "{HOME}/card"
ability.find_drivers = lambda: Drivers(cuda=Path("{DRIVER}"), nvml=None)
reporter.REPORT_EVERY_S = 1.0
"""
TAKE = f"""
import ctypes
cuda = ctypes.CDLL("{DRIVER}")
context, address, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(8 << 20)
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), size) == 0
assert cuda.cuMemcpyHtoD_v2(address, b"kept", ctypes.c_size_t(4)) == 0
x = 41
"""
READ = """
found = ctypes.create_string_buffer(4)
assert cuda.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(4)) == 0
print(found.raw.decode(), x + 1)
"""
NOTICE = "Parked: this cell waits for 1 GPU, and goes on by itself."


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One for all tests here: each leaves it without servers, jobs and processes on cards."""
    need_root()
    need(*PROGRAMS, "versitygw")
    with Site(idle_after_s=3600, warn_after_s=3000, reservations="standing") as made:
        yield made


@pytest.fixture(scope="module")
def card(site: Site) -> parking_card.Card:
    """The card of the notebook's kernels, in the home that its pod mounts."""
    try:
        parking_card.build(site.home)
    except CannotBuildShim as error:
        pytest.skip(str(error))
    config = site.home / ".jupyter"
    config.mkdir()
    (config / "jupyter_server_config.py").write_text(CONFIG)
    made = parking_card.Card(site.home / "card")
    for path in (config, *config.iterdir(), made.folder, *made.folder.iterdir()):
        os.chown(path, 1000, 1000)
    return made


class Notebook:
    """Alice's server with one kernel, and what its card says of it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.alice = Person(site.url, "alice", site.password)
        self.operator = SchedulerClient(f"unix:{site.state / 'api.sock'}")
        self.page: Page | None = None
        self._kernel = ""
        self._nvml: Any = None

    def start(self, *, milli_gpu: int = 1000) -> Page:
        answer = self.alice.start_server(milli_gpu=milli_gpu, team="vision", pool="gpu")
        assert answer.status_code in (201, 202), answer.text + self.site.log("hub")[-3000:]
        self.alice.wait_until_ready(timeout_s=180)
        kernel = self.alice.lab("POST", "api/kernels", json={"name": "python3"})["id"]
        address = self.alice.url.replace("http", "ws", 1)
        self._kernel = f"{address}/user/alice/api/kernels/{kernel}"
        return self.open()

    def open(self) -> Page:
        """Its page; anew after a while, as one that answers no pings loses its connection."""
        if self.page is not None:
            self.page.close()
        self.page = Page(self._kernel, self.alice.token)
        return self.page

    def close(self) -> None:
        """Leave nothing of it: no server, no lease, and none of its processes on a card."""
        if self.page is not None:
            self.page.close()
        if self._nvml is not None:
            self._nvml.no_processes()
        if self.alice.server():
            self.alice.stop_server()
        wait_for(lambda: not self.leases, "the end of its lease", seconds=120)
        self.operator.close()
        self.alice.http.close()

    @property
    def pod(self) -> Any:
        (found,) = self.site.client().list_namespaced_pod(HUB).items
        return found

    @property
    def lease(self) -> models.LeaseView:
        (found,) = self.leases
        return found

    @property
    def leases(self) -> list[models.LeaseView]:
        """Those that are not over."""
        every = self.operator.send(calls.leases()).leases
        return [one for one in every if one.state not in ("ended", "hibernated")]

    @property
    def nvml(self) -> Any:
        node = self.site.machine(self.pod.spec.node_name)
        self._nvml = fake_nvml_state().FakeNvml.there(node.folder / NVML_STATE)
        return self._nvml

    def is_on(self, uuid: str) -> None:
        """The card shows the kernel's processes from now on."""
        self.card_shows(uuid, processes_of(self.pod.metadata.uid))

    def card_shows(self, uuid: str, pids: Iterable[int]) -> None:
        """Beside what it shows already."""
        nvml = self.nvml
        for pid in pids:
            nvml.process(pid, device=nvml.card_of(uuid), memory_mib=900)

    def card_shows_only(self, uuid: str, pids: Iterable[int]) -> None:
        """As a card does: who has ended is on it no longer."""
        self.nvml.no_processes()
        self.card_shows(uuid, pids)

    def park(self) -> None:
        wait_for(lambda: (idle := self.lease.idle) and idle.can_park, "that it can be parked")
        self.operator.send(parking_calls.park(self.lease.id, models.ParkRequest()))


def processes_of(pod: str, word: bytes = b"ipykernel") -> list[int]:
    """Those of a pod with this in their command, as this machine numbers them: else its kernels."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_one = word in (folder / "cmdline").read_bytes()
            if is_one and f"pod{pod}" in (folder / "cgroup").read_text():
                found.append(int(folder.name))
    assert found
    return found


def kill_agent(site: Site, node: str) -> None:
    """Its process, at once; its pod starts it again."""

    def of_node() -> Any:
        pods = site.client().list_namespaced_pod(AGENTS).items
        return next(one for one in pods if one.spec.node_name == node)

    # By its pod: another cluster on this machine has nodes and agents of the same names.
    for pid in processes_of(of_node().metadata.uid, b"gpucommons.gpu.agent"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        (status,) = of_node().status.container_statuses
        return bool(status.restart_count and status.state.running)

    wait_for(is_back, f"the agent of {node} again", seconds=120)


def kill_server(notebook: Notebook) -> None:
    """At once, and its kernels go with it; its pod starts another one."""
    pod = notebook.pod.metadata.uid
    kernel = processes_of(pod)
    for pid in processes_of(pod, b"jupyterhub-singleuser"):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(map(psutil.pid_exists, kernel)), "the end of its kernel")


class Job:
    """Of another team, on so many GPUs until it is stopped."""

    def __init__(self, site: Site, *, milli_gpu: int, count: int = 1) -> None:
        self._site, self._ranks = site, range(count)
        bob = Person(site.url, "bob", site.password)
        bob.http.close()
        self._scheduler = SchedulerClient(site.api_url, token=bob.token)
        script = "import os, time; print(os.environ['NVIDIA_VISIBLE_DEVICES'], flush=True); time.sleep(900)"
        command = ["python", "-c", script]
        role = models.RoleRequest(
            count=count, milli_gpu=milli_gpu, memory_mib=128, cpu_milli=100, command=command
        )
        request = models.JobRequest(name="claim", roles=[role], pools=["gpu"])
        self._id = self._scheduler.send(calls.submit(request, key=None)).id

    @property
    def state(self) -> str:
        return self._scheduler.send(calls.job(self._id)).state

    def runs(self) -> None:
        wait_for(lambda: self.state == "running", "the other team's job", seconds=180)

    def given(self) -> set[str]:
        """The cards that its workers were given."""
        found = set()
        for rank in self._ranks:
            read = calls.log(self._id, rank=rank)
            (line, *_) = wait_for(lambda read=read: self._scheduler.send(read).lines, "a line")
            found |= set(line.split(","))
        return found

    def processes(self) -> list[int]:
        """Its scripts, as this machine numbers them."""
        pods = self._site.client().list_namespaced_pod(JOBS).items
        own = [one.metadata.uid for one in pods if self._id in str(one.metadata.labels)]
        return [pid for uid in own for pid in processes_of(uid, b"NVIDIA_VISIBLE_DEVICES")]

    def close(self) -> None:
        """End it, so that nothing is held for it."""
        self._scheduler.send(calls.cancel(self._id))
        wait_for(lambda: self.state == "cancelled", "the end of the other team's job", seconds=120)
        self._scheduler.close()


@pytest.fixture
def notebook(site: Site, card: parking_card.Card) -> Iterator[Notebook]:
    made = Notebook(site)
    yield made
    made.close()


@pytest.fixture
def job(site: Site) -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def submit(*, milli_gpu: int, count: int = 1) -> Job:
        made.append(Job(site, milli_gpu=milli_gpu, count=count))
        return made[-1]

    yield submit
    for one in made:
        one.close()


def test_a_parked_pod_gives_its_gpu_away_and_has_it_back_whatever_is_killed_in_between(
    site: Site, card: parking_card.Card, notebook: Notebook, job: Callable[..., Job]
) -> None:
    page = notebook.start()
    assert page.run(TAKE) == ""
    held = notebook.lease.slice
    assert held is not None
    (mine,) = held.visible_devices
    pod = notebook.pod
    notebook.is_on(mine)
    other = job(milli_gpu=4000, count=2)

    # Its server says that its memory is on the host; the node sees it on the card all the same.
    notebook.park()
    wait_for(lambda: card.used_mib == 0, "its memory on the host")
    with pytest.raises(TimeoutError):
        wait_for(lambda: notebook.lease.state != "parking", "what its node sees", seconds=5)
    assert other.state == "queued"

    notebook.nvml.no_processes()
    wait_for(lambda: notebook.lease.state == "parked", "that its node has seen its card free")
    other.runs()
    assert mine in other.given()
    assert notebook.pod.metadata.uid == pod.metadata.uid

    site.kill_scheduler()
    kill_agent(site, pod.spec.node_name)
    assert notebook.lease.state == "parked"
    assert other.state == "running"

    page = notebook.open()
    waits = page.send(READ)
    page.printed(waits, until=NOTICE)
    assert page.until_done(waits).strip() == "kept 42"
    assert notebook.lease.state == "active"
    assert card.used_mib == 8
    assert notebook.pod.metadata.uid == pod.metadata.uid
    assert other.state != "running"

    # Deleted while it is parked: nothing holds its GPU, nor its place in the books.
    notebook.park()
    wait_for(lambda: notebook.lease.state == "parked", "that it is parked again")
    site.client().delete_namespaced_pod(pod.metadata.name, HUB)
    wait_for(lambda: not notebook.alice.server(), "the hub's notice of it", seconds=120)
    wait_for(lambda: not notebook.leases, "the end of its lease")
    other.runs()


def test_a_parked_half_is_not_given_away_before_its_node_says_so_whoever_is_killed_meanwhile(
    site: Site, card: parking_card.Card, notebook: Notebook, job: Callable[..., Job]
) -> None:
    page = notebook.start(milli_gpu=500)
    assert page.run(TAKE) == ""
    held = notebook.lease.slice
    assert held is not None
    (mine,) = held.visible_devices
    # All else is taken: who comes now gets the other half of that card, or waits.
    for milli_gpu in (4000, 3000):
        job(milli_gpu=milli_gpu).runs()
    neighbour = job(milli_gpu=500)
    neighbour.runs()
    assert neighbour.given() == {mine}
    waits = job(milli_gpu=500)
    notebook.is_on(mine)
    notebook.card_shows(mine, neighbour.processes())

    # Its server has said that all is on the host; its node has not seen that yet.
    notebook.park()
    wait_for(lambda: card.used_mib == 0, "its memory on the host")
    site.kill_scheduler()
    kill_agent(site, notebook.pod.spec.node_name)
    with pytest.raises(TimeoutError):
        wait_for(lambda: notebook.lease.state != "parking", "what its node sees", seconds=10)
    assert (waits.state, neighbour.state) == ("queued", "running")

    # The neighbour stays on the card: that keeps nobody from the parked half.
    notebook.card_shows_only(mine, neighbour.processes())
    wait_for(lambda: notebook.lease.state == "parked", "that its node has seen its half free")
    waits.runs()
    assert waits.given() == {mine}
    assert neighbour.state == "running"

    page = notebook.open()
    cell = page.send(READ)
    page.printed(cell, until="Parked: this cell waits for ½ GPU, and goes on by itself.")
    assert page.until_done(cell).strip() == "kept 42"
    gone, stays = sorted((neighbour, waits), key=lambda one: one.state == "running")
    assert (gone.state, stays.state) == ("queued", "running")

    # Now the server itself: whatever its pod starts in its place has no GPU.
    notebook.card_shows_only(mine, stays.processes())
    notebook.is_on(mine)
    notebook.park()
    wait_for(lambda: card.used_mib == 0, "its memory on the host again")
    assert gone.state == "queued"
    kill_server(notebook)
    notebook.card_shows_only(mine, stays.processes())
    gone.runs()
    assert {one.state for one in notebook.leases} <= {"parked"}
    assert stays.state == "running"

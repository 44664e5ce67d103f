"""The interposer in a pod: what the pod sees of it, what it can spoil, and what stops it from starting."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.agent.control.requests import NodeFacts, Requests
from gpucommons.gpu.agent.limits.grants import Grants
from gpucommons.gpu.agent.limits.guard import Guard
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.errors import LimitNotInForce, UnknownDevice
from gpucommons.gpu.kubelet.csi import SliceVolumes
from gpucommons.gpu.linux import mounts
from gpucommons.gpu.linux.fake_processes import FakeProcesses
from gpucommons.gpu.node.fake import SimulatedGpus
from gpucommons.gpu.providers.base import NodeTraits
from gpucommons.gpu.providers.node.exclusive import ExclusiveProvider
from gpucommons.gpu.providers.node.shim import CONTEXT_MIB, ShimProvider
from gpucommons.gpu.providers.stack import provider_stack
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slice_folders import PodFolders
from gpucommons.gpu.slices.slice_processes import SliceProcesses
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, MpsDaemon, SliceId

from .conftest import new_pod

CARD = Device(device_id=DeviceId("GPU-0"), index=0, kind="Pretended-16", memory_mib=16 << 10)
QUARTER = GpuSlice(
    slice_id=SliceId("a"),
    shares=(DeviceShare(device_id=CARD.device_id, milli_gpu=250),),
    memory_mib=share_memory_mib(CARD, 250),
)
STRANGER = 1234


WHOLE = GpuSlice(
    slice_id=SliceId("a"),
    shares=(DeviceShare(device_id=DeviceId("chosen-later-0"), milli_gpu=1000),),
    memory_mib=share_memory_mib(CARD, 1000),
)


class OneNode:
    """An agent and its kubelet in one process; the wire between them is a call."""

    place, advice = "here", "look again"

    def __init__(self, kubelet: Path) -> None:
        self.kubelet = kubelet
        self.folders = PodFolders(kubelet / "plugins" / "slices")
        traits = NodeTraits(driver="580.95.05", shim=True, watched=True, devices_confined=True)
        providers = (ExclusiveProvider(), ShimProvider(self.folders, own_uid=0))
        state = kubelet / "plugins"
        grants = Grants(provider_stack(traits, providers), (CARD,), state / "grants.json")
        processes = FakeProcesses()
        self.watch = Watch(
            SimulatedGpus((CARD,), processes),
            SliceProcesses(processes, own_uid=0),
            StateFile(state / "open-slices.json"),
            Guard(grants=grants, watchdog=None),
        )
        facts = NodeFacts(name="n", cpu_milli=1, memory_mib=1)
        self._requests = Requests(self.watch, facts, self.folders)
        #: What the kubelet gave to each pod.
        self.given: dict[tuple[str, str], tuple[DeviceId, ...]] = {}
        self.volumes = SliceVolumes(
            AgentClient(self),
            kubelet,
            given=lambda *pod: self.given.get(pod, ()),
            patience_s=0,
        )

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        return self._requests.answer(line, now_ms=0)

    def open(self, gpu_slice: GpuSlice) -> None:
        AgentClient(self).open(gpu_slice)
        self.folders.make(gpu_slice.slice_id)

    def target(self, pod: str) -> Path:
        path = self.kubelet / "pods" / pod / "volumes" / "kubernetes.io~csi" / "slice" / "mount"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def publish(self, pod: str) -> Path:
        target = self.target(pod)
        context = {
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.uid": pod,
            "csi.storage.k8s.io/pod.namespace": "jobs",
            "csi.storage.k8s.io/pod.name": "worker",
            "slice": "a",
        }
        self.volumes.publish(context, str(target))
        return target


@pytest.fixture
def one_node(kubelet_folder: Path, machine: Any, monkeypatch: pytest.MonkeyPatch) -> OneNode:
    drivers = shim.Drivers(cuda=machine.driver, nvml=None)
    monkeypatch.setattr("gpucommons.gpu.shim.folder.find_drivers", lambda: drivers)
    for folder in [machine.driver, *machine.driver.parents]:
        if folder == Path("/tmp"):  # noqa: S108 - pytest's folders are private, the driver is not
            break
        folder.chmod(folder.stat().st_mode | 0o055)
    (kubelet_folder / "plugins").mkdir()
    return OneNode(kubelet_folder)


@pytest.fixture
def target(one_node: OneNode) -> Path:
    one_node.open(QUARTER)
    target = one_node.publish(new_pod())
    for folder in target.parents:
        folder.chmod(folder.stat().st_mode | 0o055)
        if folder == one_node.kubelet:
            break
    return target


@pytest.fixture
def client_at(machine: Any) -> Iterator[Callable[[Path], Any]]:
    started: list[Any] = []

    def start(library_path: Path) -> Any:
        started.append(machine.client(library_path))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def as_stranger(code: str, *arguments: object) -> str:
    """What a program says that runs as an ordinary account, as in a restricted pod."""
    drop = f"import os; os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})"
    done = subprocess.run(
        [sys.executable, "-c", f"import mmap, sys\n{drop}\n{code}", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).strip()


def test_a_program_in_the_pod_stays_in_its_slice(
    target: Path, client_at: Callable[[Path], Any]
) -> None:
    inside = client_at(target / "shim")
    assert inside.alloc(QUARTER.memory_mib + 1) == 0
    assert inside.alloc(QUARTER.memory_mib - CONTEXT_MIB)
    ledger = shim.read_ledger(target / "shim")
    assert ledger is not None
    assert ledger.used_bytes == (QUARTER.memory_mib - CONTEXT_MIB) << 20


def test_the_agent_reads_what_the_pod_writes_into_its_ledger(
    one_node: OneNode, target: Path, client_at: Callable[[Path], Any]
) -> None:
    inside = client_at(target / "shim")
    assert inside.alloc(100)
    seen = shim.read_ledger(one_node.folders.path(QUARTER.slice_id) / "shim")
    assert seen is not None
    assert seen.used_bytes == 100 << 20


def test_an_ordinary_account_opens_the_ledger_and_nothing_else(target: Path) -> None:
    opens = "open(sys.argv[1], 'r+b').close(); print('open')"
    assert as_stranger(opens, target / "shim" / "ledger") == "open"
    for name in ("limit", "libcuda.so.1", "libcuda-real.so.1"):
        assert "Error" in as_stranger(opens, target / "shim" / name)
    assert "Error" in as_stranger("open(sys.argv[1], 'w')", target / "shim" / "new")
    assert "Error" in as_stranger("os.unlink(sys.argv[1])", target / "shim" / "limit")


def test_root_in_the_pod_cannot_write_the_limit_either(target: Path) -> None:
    for name in ("limit", "libcuda.so.1", "libcuda-real.so.1"):
        with pytest.raises(OSError, match="Read-only"):
            os.open(target / "shim" / name, os.O_WRONLY)


def test_the_driver_in_the_pod_is_the_nodes_own_file(target: Path, machine: Any) -> None:
    assert mounts.is_same_file(target / "shim" / "libcuda-real.so.1", machine.driver)
    # Not by a link: the node's paths mean nothing in a pod.
    assert not (target / "shim" / "libcuda-real.so.1").is_symlink()


def test_a_pod_that_lets_its_ledger_grow_fills_only_its_own_few_mib(
    one_node: OneNode, target: Path
) -> None:
    fill = (
        "f = open(sys.argv[1], 'r+b', buffering=0)\n"
        "try:\n    [f.write(b'x' * 65536) for _ in range(4096)]\n"
        "except OSError as e: print(e.strerror)"
    )
    assert as_stranger(fill, target / "shim" / "ledger") == "No space left on device"
    size = os.statvfs(one_node.folders.path(QUARTER.slice_id))
    assert size.f_blocks * size.f_frsize <= 8 << 20
    # It spoilt its own account; the agent says so and goes on.
    with pytest.raises(LimitNotInForce, match="ledger"):
        one_node.publish(new_pod_of(one_node))
    other = GpuSlice(slice_id=SliceId("b"), shares=QUARTER.shares, memory_mib=QUARTER.memory_mib)
    AgentClient(one_node).prepare(other)


def new_pod_of(one_node: OneNode) -> str:
    """The pod that has the slice."""
    (pod,) = one_node.watch.tenants()[QUARTER.slice_id]
    return pod


def test_a_pod_whose_limit_cannot_be_set_does_not_start(
    one_node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_node.open(QUARTER)
    monkeypatch.setattr("gpucommons.gpu.shim.read_limit", lambda _folder: None)
    pod = new_pod()
    with pytest.raises(LimitNotInForce, match="reads nothing"):
        one_node.publish(pod)
    assert mounts.points(one_node.target(pod)) == []
    assert one_node.watch.tenants()[QUARTER.slice_id] == frozenset()


def test_a_slice_of_a_card_that_mps_shares_is_no_pods(one_node: OneNode) -> None:
    one_node.open(replace(QUARTER, mps=MpsDaemon(pipe="/run/mps")))
    with pytest.raises(LimitNotInForce, match="MPS"):
        one_node.publish(new_pod())


def test_taken_back_every_mount_of_the_pod_is_gone(one_node: OneNode, target: Path) -> None:
    assert len(mounts.points(target)) == 3
    one_node.volumes.unpublish(str(target))
    assert mounts.points(one_node.kubelet / "pods") == []
    assert not target.exists()


def test_asked_again_a_running_pod_keeps_what_it_holds(
    one_node: OneNode, target: Path, client_at: Callable[[Path], Any]
) -> None:
    inside = client_at(target / "shim")
    assert inside.alloc(100)
    before = mounts.points(target)
    one_node.publish(new_pod_of(one_node))
    assert mounts.points(target) == before
    seen = shim.read_ledger(target / "shim")
    assert seen is not None
    assert seen.used_bytes == 100 << 20


def test_whole_gpus_that_the_kubelet_chose_are_the_slices_from_then_on(one_node: OneNode) -> None:
    one_node.open(WHOLE)
    # Somebody who asked the kubelet knows it already; the kubelet decides all the same.
    named = replace(WHOLE, shares=(replace(WHOLE.shares[0], device_id=CARD.device_id),))
    one_node.open(named)
    one_node.given["jobs", "worker"] = (CARD.device_id,)
    pod = new_pod()
    target = one_node.publish(pod)
    assert target.is_dir()
    (known,) = one_node.watch.slices
    assert [share.device_id for share in known.shares] == [CARD.device_id]
    # The scheduler, who does not know which, says the same again; so does the kubelet.
    one_node.open(WHOLE)
    assert AgentClient(one_node).prepare(WHOLE).isolation == "hardware"
    one_node.publish(pod)

    # The next pod may be given another.
    one_node.volumes.unpublish(str(target))
    one_node.given["jobs", "worker"] = (DeviceId("GPU-of-nobody"),)
    with pytest.raises(LimitNotInForce, match="was given GPU-of-nobody"):
        one_node.publish(new_pod())


def test_a_pod_that_was_given_no_gpu_does_not_start_on_whole_ones(one_node: OneNode) -> None:
    one_node.open(WHOLE)
    with pytest.raises(LimitNotInForce, match=r"jobs/worker.*must ask for them"):
        one_node.publish(new_pod())


def test_a_fraction_is_never_chosen_later(one_node: OneNode) -> None:
    half = replace(WHOLE, shares=(replace(WHOLE.shares[0], milli_gpu=500),))
    with pytest.raises(UnknownDevice):
        one_node.open(half)


def test_an_agent_that_was_killed_still_lets_the_next_pod_have_another_gpu(
    one_node: OneNode,
) -> None:
    one_node.open(WHOLE)
    one_node.given["jobs", "worker"] = (CARD.device_id,)
    target = one_node.publish(new_pod())
    again = OneNode(one_node.kubelet)
    again.watch.restore(now_ms=0)
    again.volumes.unpublish(str(target))
    (known,) = again.watch.slices
    assert known.shares == WHOLE.shares

"""The driver's limit on a pod's control group: set before its first container, undone before it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.agent.limits.grants import Grants
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.memory_limits import FakeMemoryLimits
from gpucommons.gpu.errors import CannotShrink, LimitNotInForce
from gpucommons.gpu.linux.pod_cgroups import PodCgroups
from gpucommons.gpu.providers import NodeTraits, provider_stack
from gpucommons.gpu.providers.base import Held
from gpucommons.gpu.providers.node.exclusive import ExclusiveProvider
from gpucommons.gpu.providers.node.pod_mem import PodMemProvider
from gpucommons.gpu.providers.node.watchdog import WatchdogProvider
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

POD = "5f0c3b5e-9a1d-4c22-8b7e-0d7c4f6a1b2c"
OTHER = "11111111-9a1d-4c22-8b7e-0d7c4f6a1b2c"
A = SliceId("a")
CARD = Device(device_id=DeviceId("GPU-0"), index=0, kind="A100-40", memory_mib=40_960)
HALF = GpuSlice(
    slice_id=A,
    shares=(DeviceShare(device_id=CARD.device_id, milli_gpu=500),),
    memory_mib=share_memory_mib(CARD, 500),
)
TRAITS = NodeTraits(
    driver="615.71.09",
    cgroup_parent="/sys/fs/cgroup/gpucommons.slice",
    memory_limits=True,
    watched=True,
    devices_confined=True,
)
PLACES = (
    f"kubepods/burstable/pod{POD}",
    f"kubepods/pod{POD}",
    f"second-node/kubepods/besteffort/pod{POD}",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice",
)


class Node:
    def __init__(self, folder: Path) -> None:
        self.mount = folder / "cgroup"
        self.proc = folder / "proc"
        self.used_mib = 0
        self.limits = FakeMemoryLimits(lambda _device, _group: self.used_mib)
        self.groups = PodCgroups(self.mount, self.proc)
        self.mount.mkdir()
        self._folder = folder

    def make_pod(self, place: str = PLACES[0]) -> str:
        (self.mount / place / "container").mkdir(parents=True)
        return str(self.mount / place)

    def grants(self, *still_open: SliceId) -> Grants:
        providers = (
            ExclusiveProvider(),
            PodMemProvider(self.limits, self.groups),
            WatchdogProvider(),
        )
        grants = Grants(provider_stack(TRAITS, providers), (CARD,), self._folder / "grants.json")
        grants.restore(still_open)
        return grants

    def hard_mib(self, group: str) -> int:
        return self.limits.get(CARD.device_id, group).hard_mib


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_a_pods_group_is_found_however_it_is_named(node: Node, place: str) -> None:
    node.make_pod(f"kubepods/besteffort/pod{OTHER}")
    assert node.groups.find(POD) is None
    group = node.make_pod(place)
    assert str(node.groups.find(POD)) == group


def test_a_group_that_a_pod_made_in_its_own_is_nobodys(node: Node) -> None:
    node.make_pod(f"kubepods/besteffort/pod{OTHER}/pod{POD}")
    assert node.groups.find(POD) is None


def test_the_limit_is_in_force_when_the_pod_is_admitted(node: Node) -> None:
    group = node.make_pod()
    granted = node.grants().grant(HALF, None, POD)
    assert node.hard_mib(group) == HALF.memory_mib
    assert granted.promised == "kernel"
    # Nothing is moved: the pod's processes are born there.
    assert granted.injection.cgroup is None


def test_without_its_group_a_pod_does_not_start(node: Node) -> None:
    with pytest.raises(LimitNotInForce, match=r"control group of pod .* is not there"):
        node.grants().grant(HALF, None, POD)


def test_a_driver_that_refuses_stops_the_pod(node: Node) -> None:
    node.make_pod()
    node.limits.trouble = "Insufficient Permissions"
    with pytest.raises(LimitNotInForce):
        node.grants().grant(HALF, None, POD)


def test_before_there_is_a_pod_there_is_nothing_to_limit(node: Node) -> None:
    assert node.grants().grant(HALF, None).promised == "kernel"


def test_a_whole_card_needs_no_limit(node: Node) -> None:
    whole = replace(HALF, shares=(replace(HALF.shares[0], milli_gpu=1000),))
    assert node.grants().grant(whole, None, POD).promised == "hardware"


def test_the_reservation_is_taken_back_with_the_volume(node: Node) -> None:
    group = node.make_pod()
    grants = node.grants()
    grants.grant(HALF, None, POD)
    grants.release(A)
    assert node.limits.get(CARD.device_id, group).soft_mib == 0


def test_an_agent_that_was_killed_knows_the_pod_of_a_slice(node: Node) -> None:
    group = node.make_pod()
    node.grants().grant(HALF, None, POD)
    node.limits.set(CARD.device_id, group, soft_mib=0, hard_mib=1)
    node.grants(A)
    assert node.hard_mib(group) == HALF.memory_mib
    # Of a slice that was closed meanwhile the reservation is undone.
    node.grants()
    assert node.limits.get(CARD.device_id, group).soft_mib == 0


def test_a_limit_that_somebody_changed_is_noticed(node: Node) -> None:
    group = node.make_pod()
    grants = node.grants()
    grants.grant(HALF, None, POD)
    node.limits.set(CARD.device_id, group, soft_mib=0, hard_mib=40_000)
    grants.check({}, now_ms=1_000_000)
    isolation, why = grants.isolation(A)
    assert isolation == "watched"
    assert "40000 MiB" in why


def test_a_pod_grows_and_shrinks_only_to_what_is_in_use(node: Node) -> None:
    group = node.make_pod()
    grants = node.grants()
    grants.grant(HALF, None, POD)
    grants.resize(A, 8192)
    assert node.hard_mib(group) == 8192
    node.used_mib = 6000
    with pytest.raises(CannotShrink):
        grants.resize(A, 4096)
    assert node.hard_mib(group) == 8192


@pytest.fixture
def in_group(node: Node) -> Callable[[int, str], None]:
    def put(pid: int, group: str) -> None:
        (node.proc / str(pid)).mkdir(parents=True)
        (node.proc / str(pid) / "cgroup").write_text(f"0::{group}\n")

    return put


def test_processes_elsewhere_are_strays(node: Node, in_group: Callable[[int, str], None]) -> None:
    node.make_pod()
    provider = PodMemProvider(node.limits, node.groups)
    in_group(1, f"/{PLACES[0]}/container")
    in_group(2, f"/kubepods/burstable/pod{OTHER}/container")
    in_group(3, f"/{PLACES[0]}-other")
    held = Held(slice=HALF, devices=(CARD,), pod=POD)
    assert provider.strays(held, [1, 2, 3, 4]) == {2, 3}

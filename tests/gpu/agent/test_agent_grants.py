"""Limits that survive the agent: on disk before they are made, undone whatever happened between."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from kernel_groups import PlainCgroups

from gpucommons.gpu.agent.limits.grants import RECHECK_MS, Grants
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.memory_limits import FakeMemoryLimits
from gpucommons.gpu.errors import CannotShrink, LimitNotInForce
from gpucommons.gpu.providers import NodeTraits, provider_stack
from gpucommons.gpu.providers.node.cgroup_mem import CgroupMemProvider
from gpucommons.gpu.providers.node.exclusive import ExclusiveProvider
from gpucommons.gpu.providers.node.watchdog import WatchdogProvider
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

CARD = Device(device_id=DeviceId("GPU-0"), index=0, kind="A100-40", memory_mib=40960)
A = SliceId("a")
HALF = GpuSlice(
    slice_id=A,
    shares=(DeviceShare(device_id=CARD.device_id, milli_gpu=500),),
    memory_mib=share_memory_mib(CARD, 500),
)
TRAITS = NodeTraits(driver="615.71.09", cgroup_parent="/x", memory_limits=True, watched=True)


class Node:
    """A driver and a kernel that outlive the agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used_mib = 0
        self.limits = FakeMemoryLimits(lambda _device, _group: self.used_mib)
        self.groups = PlainCgroups(folder / "cgroup")
        self.busy = False

    def agent(self, *still_open: SliceId) -> Grants:
        groups = self.groups
        node = self

        class Provider(CgroupMemProvider):
            def release(self, held):  # type: ignore[no-untyped-def]
                if node.busy:
                    raise OSError("Device or resource busy")
                super().release(held)

        providers = (ExclusiveProvider(), Provider(self.limits, groups), WatchdogProvider())
        grants = Grants(provider_stack(TRAITS, providers), (CARD,), self.folder / "grants.json")
        grants.restore(still_open)
        return grants

    @property
    def group(self) -> str:
        return self.groups.path(A)

    def soft_and_hard(self) -> tuple[int, int]:
        found = self.limits.get(CARD.device_id, self.group)
        return found.soft_mib, found.hard_mib

    def on_disk(self) -> list[str]:
        return [one["slice_id"] for one in json.loads(self.grants_file.read_text())["grants"]]

    @property
    def grants_file(self) -> Path:
        return self.folder / "grants.json"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_grant_is_in_force_and_on_disk(node: Node) -> None:
    granted = node.agent().grant(HALF, 1001)
    assert granted.injection.cgroup == node.group
    assert granted.promised == "kernel"
    assert node.soft_and_hard() == (HALF.memory_mib, HALF.memory_mib)
    assert node.on_disk() == ["a"]


def test_what_cannot_be_set_is_refused_and_undone(node: Node) -> None:
    grants = node.agent()
    node.limits.trouble = "Insufficient Permissions"
    with pytest.raises(LimitNotInForce, match="Insufficient Permissions"):
        grants.grant(HALF, None)
    assert not Path(node.group).exists()
    assert node.on_disk() == []


def test_an_agent_that_was_killed_finds_its_grants_and_releases_those_of_closed_slices(
    node: Node,
) -> None:
    node.agent().grant(HALF, 1001)
    node.agent()
    assert not Path(node.group).exists()
    assert node.on_disk() == []
    assert node.soft_and_hard() == (0, HALF.memory_mib)


def test_an_agent_that_was_killed_before_it_made_anything_releases_nothing_and_lives(
    node: Node,
) -> None:
    node.grants_file.write_text(
        json.dumps({"version": 1, "grants": [
            {"slice_id": "a", "shares": [{"device_id": "GPU-9", "milli_gpu": 500}],
             "memory_mib": 9000, "uid": None}]})
    )  # fmt: skip
    node.agent()
    assert node.on_disk() == []


def test_a_slice_that_is_still_open_keeps_its_limit_over_a_restart(node: Node) -> None:
    node.agent().grant(HALF, 1001)
    again = node.agent(A)
    assert again.isolation(A) == ("kernel", "")
    assert again.uid(A) == 1001
    assert node.soft_and_hard() == (HALF.memory_mib, HALF.memory_mib)


def test_a_limit_that_cannot_be_made_again_after_a_restart_is_named(node: Node) -> None:
    node.agent().grant(HALF, None)
    node.limits.trouble = "GPU is lost"
    mode, why = node.agent(A).isolation(A)
    assert mode == "watched"
    assert "GPU is lost" in why or "no limit" in why


def test_a_group_that_is_still_busy_is_removed_later(node: Node) -> None:
    grants = node.agent()
    grants.grant(HALF, None)
    node.busy = True
    grants.release(A)
    assert node.on_disk() == ["a"]
    node.busy = False
    grants.retry()
    assert not Path(node.group).exists()
    assert node.on_disk() == []


def test_an_unreadable_file_is_set_aside(node: Node) -> None:
    node.grants_file.write_text('{"grants": [{"slice_id": 7}]}')
    node.agent().grant(HALF, None)
    assert node.grants_file.with_suffix(".unreadable").exists()


def test_a_limit_somebody_changed_is_seen_and_said(node: Node) -> None:
    grants = node.agent()
    grants.grant(HALF, None)
    grants.check({}, now_ms=1)
    node.limits.set(CARD.device_id, node.group, soft_mib=0, hard_mib=40_000)
    grants.check({}, now_ms=1 + RECHECK_MS)
    mode, why = grants.isolation(A)
    assert mode == "watched"
    assert "40000 MiB" in why
    node.limits.set(CARD.device_id, node.group, soft_mib=0, hard_mib=HALF.memory_mib)
    grants.check({}, now_ms=1 + 2 * RECHECK_MS)
    assert grants.isolation(A) == ("kernel", "")


def test_a_process_outside_the_group_is_named_until_it_is_gone(node: Node) -> None:
    grants = node.agent()
    grants.grant(HALF, None)
    grants.attach(A, 42)
    assert node.groups.members(A) == ["42"]
    grants.check({A: [(42, 1), (43, 1)]}, now_ms=1)
    mode, why = grants.isolation(A)
    assert mode == "watched"
    assert why == "Not bound by the limit of this slice, only watched: process 43."
    grants.check({A: [(42, 1)]}, now_ms=2)
    assert grants.isolation(A) == ("kernel", "")


def test_more_memory_comes_at_once_and_less_only_down_to_what_is_used(node: Node) -> None:
    grants = node.agent()
    grants.grant(HALF, None)
    grants.resize(A, 30_000)
    assert node.soft_and_hard() == (30_000, 30_000)
    node.used_mib = 12_000
    with pytest.raises(CannotShrink, match=r"uses 12000 MiB.*as small as 9000 MiB"):
        grants.resize(A, 9000)
    assert node.soft_and_hard() == (30_000, 30_000)
    # A restart finds the new size.
    assert node.agent(A).isolation(A) == ("kernel", "")


def test_a_slice_without_a_grant_is_only_watched(node: Node) -> None:
    grants = node.agent()
    assert grants.isolation(SliceId("other")) == ("watched", "")
    grants.resize(SliceId("other"), 9000)
    grants.release(SliceId("other"))


class Full:
    """A disk that somebody filled."""

    def __init__(self, node: Node) -> None:
        self._partial = node.grants_file.with_suffix(".partial")

    def __enter__(self) -> None:
        self._partial.mkdir()

    def __exit__(self, *_: object) -> None:
        self._partial.rmdir()


def test_a_full_disk_stops_no_look_while_a_limit_waits_to_be_undone(node: Node) -> None:
    agent = node.agent()
    agent.grant(HALF, None)
    node.busy = True
    agent.release(A)
    with Full(node):
        agent.retry()
        node.busy = False
        agent.retry()
    assert not node.groups.exists(A)
    assert node.on_disk() == [A]  # too much rather than too little
    node.agent()
    assert node.on_disk() == []


def test_an_agent_starts_on_a_full_disk_and_says_what_it_could_not_verify(node: Node) -> None:
    node.agent().grant(HALF, None)
    with Full(node):
        agent = node.agent(A)
        assert agent.isolation(A)[0] == "watched"
        assert agent.isolation(A)[1]
    agent.grant(HALF, None)
    assert agent.isolation(A) == ("kernel", "")


def test_who_holds_what_is_for_the_agent_alone(node: Node) -> None:
    node.agent().grant(HALF, None)
    assert stat.S_IMODE(node.grants_file.stat().st_mode) == 0o600

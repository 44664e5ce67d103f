"""What a node gives to containers that save their processes: no more than that takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.hibernation import containers
from gpucommons.gpu.hibernation.inside import calls

#: Ways out of a container, or into parts of the kernel that have been one.
NEVER = (
    "setns", "umount2", "pivot_root", "fsopen", "fsmount", "move_mount", "open_tree", "mount_setattr",
    "bpf", "io_uring_setup", "userfaultfd", "keyctl", "add_key", "perf_event_open", "init_module",
    "kexec_load", "open_by_handle_at", "chroot", "sethostname", "settimeofday",
)  # fmt: skip


def rules(name: str) -> list[dict[str, Any]]:
    found = containers.seccomp_filter("x86_64")
    assert found["defaultAction"] == "SCMP_ACT_ERRNO"
    return [one for one in found["syscalls"] if name in one["names"]]


def values(name: str) -> set[int]:
    """The only arguments with which a call is allowed."""
    assert all(one["args"][0]["op"] == "SCMP_CMP_EQ" for one in rules(name))
    return {one["args"][0]["value"] for one in rules(name)}


def test_namespaces_are_made_only_as_a_tree_makes_them() -> None:
    assert values("unshare") == {calls.NEWUSER, calls.NEWTIME, calls.NEWPID | calls.NEWNS}
    [clone] = rules("clone")
    kinds = calls.NEWUSER | calls.NEWPID | calls.NEWNS | 0x40000000  # and one of networks
    assert clone["args"][0] == {"index": 0, "value": 0x7E020000, "op": "SCMP_CMP_MASKED_EQ"}
    assert clone["args"][0]["value"] & kinds == kinds
    assert [one["action"] for one in rules("clone3")] == ["SCMP_ACT_ERRNO"]


def test_mounts_are_closed_ones_and_bind_nothing() -> None:
    bind, remount, move = 0x1000, 0x20, 0x2000
    for flags in values("mount"):
        assert not flags & (bind | remount | move)
        assert flags == 0x44000 or flags & (calls.NOSUID | calls.NOEXEC) == 10


@pytest.mark.parametrize("name", NEVER)
def test_other_ways_to_the_machine_stay_closed(name: str) -> None:
    assert rules(name) == []


def test_an_architecture_that_was_not_thought_of_gets_no_filter() -> None:
    assert containers.seccomp_filter("aarch64")["architectures"][0] == "SCMP_ARCH_AARCH64"
    with pytest.raises(ValueError, match="no filter of system calls for riscv64"):
        containers.seccomp_filter("riscv64")


def test_the_device_is_a_proc_and_a_criu_that_nobody_can_change() -> None:
    spec = containers.device_spec(Path("/node/criu"))
    assert f"{spec['kind']}={spec['devices'][0]['name']}" == containers.DEVICE
    proc, criu = spec["devices"][0]["containerEdits"]["mounts"]
    assert proc["type"] == "proc"
    assert {"nosuid", "nodev", "noexec"} <= set(proc["options"])
    assert criu["hostPath"] == "/node/criu"
    assert "ro" in criu["options"]
    assert spec["devices"][0]["containerEdits"]["env"] == [
        f"GPUCOMMONS_CRIU={criu['containerPath']}"
    ]

"""What a node is told that it can enforce, and how to enforce more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.doctor.diagnosis import (
    ADVICE,
    OK,
    PROBLEM,
    Facts,
    Finding,
    diagnose,
    enforced,
    weakest,
)
from gpucommons.gpu.doctor.examination import examine
from gpucommons.gpu.hibernation.self_test import Ability
from gpucommons.gpu.parking.self_test import ParkAbility
from gpucommons.gpu.providers import Capability, MigProfile, NodeTraits

CARD = Device(device_id=DeviceId("GPU-0"), index=0, kind="H200-141", memory_mib=143_771)
GIB = 1 << 30
OLD = Facts(
    traits=NodeTraits(driver="580.95.05", shim=True, watched=True),
    devices=(CARD, CARD),
    isolations={"GPU-0": "cooperative"},
    cgroup_mount="/sys/fs/cgroup",
    controllers=("cpu", "memory"),
    kernel="6.8.0",
    root=True,
    interpreter="/opt/gpucommons/bin/python",
    state="/var/lib",
    free_bytes=100 * GIB,
    total_bytes=500 * GIB,
)


def found(facts: Facts, check: str) -> Finding:
    return next(one for one in diagnose(facts) if one.check == check)


def test_a_good_node_with_an_old_driver_hears_only_of_the_driver() -> None:
    assert found(OLD, "GPUs").found == "2 x H200-141"
    assert found(OLD, "driver").level == ADVICE
    assert "615 or newer" in found(OLD, "driver").change
    assert found(OLD, "kernel limit").change == "Only the driver is missing."
    assert "6.14 has it" in found(OLD, "kernel limit").found
    assert {f.level for f in diagnose(OLD) if f.check not in ("driver", "kernel limit")} == {OK}
    assert enforced(OLD) == "cooperative"


def test_a_node_with_the_kernel_limit_has_nothing_to_change() -> None:
    facts = replace(
        OLD,
        traits=replace(OLD.traits, driver="615.71.09", memory_limits=True),
        controllers=("dmem",),
        capabilities={"cgroup_mem": Capability(usable=True, reason="")},
    )
    assert found(facts, "kernel limit").found == "in force, kept by dmem"
    assert {one.level for one in diagnose(facts)} == {OK}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cgroup_mount": None}, "systemd.unified_cgroup_hierarchy"),
        ({"root": False}, "as root"),
        ({"traits": NodeTraits(driver="615.71.09")}, "RmMemacctMode"),
    ],
)
def test_what_keeps_the_kernel_limit_away_is_named(changes: dict[str, object], words: str) -> None:
    facts = replace(OLD, **changes)  # type: ignore[arg-type] # fields by name
    assert words in found(facts, "kernel limit").change


def test_a_node_without_a_gpu_says_so_and_is_asked_for_nothing_else_of_a_gpu() -> None:
    facts = replace(OLD, devices=(), isolations={}, no_nvml="the driver is not loaded")
    assert found(facts, "GPUs").found == "no GPU: the driver is not loaded"
    assert [one.check for one in diagnose(facts)] == ["GPUs", "accounts", "interpreter", "disk"]
    assert enforced(facts) == "none"


def test_calls_of_the_driver_that_the_interposer_does_not_know_are_listed() -> None:
    calls = tuple(f"cuMemNew{number}" for number in range(6))
    finding = found(replace(OLD, unknown_calls=calls), "interposer")
    assert finding.level == ADVICE
    assert finding.found.endswith("cuMemNew0, cuMemNew1, cuMemNew2, cuMemNew3 and 2 more")


def test_a_missing_interposer_says_why() -> None:
    facts = replace(OLD, traits=NodeTraits(driver="580.95.05", shim_reason="shim not built: …"))
    assert found(facts, "interposer").found.startswith("shim not built")


def test_cards_that_could_be_cut_name_the_profile_of_a_quarter() -> None:
    profiles = (
        MigProfile(name="1g.18gb", slices=1, of_slices=7, memory_mib=16_384, count=7),
        MigProfile(name="2g.35gb", slices=2, of_slices=7, memory_mib=33_280, count=3),
    )
    facts = replace(OLD, traits=replace(OLD.traits, mig_profiles={CARD.device_id: profiles}))
    assert "¼ needs 2g.35gb (3 a card)" in found(facts, "MIG").change


def test_real_accounts_need_an_interpreter_that_they_may_read() -> None:
    facts = replace(OLD, closed_at="/root")
    assert found(facts, "interpreter").level == PROBLEM
    assert "/root is closed" in found(facts, "interpreter").found
    # Where all share one account, nobody else reads it.
    assert found(replace(facts, root=False), "interpreter").level == OK
    assert found(replace(facts, shared_account=True), "interpreter").level == OK
    assert "nothing isolates them" in found(replace(facts, shared_account=True), "accounts").found
    assert found(replace(facts, root=False), "accounts").level == ADVICE


@pytest.mark.parametrize(("free", "total"), [(4, 10), (20, 1000)])
def test_a_disk_that_fills_up_is_a_problem(free: int, total: int) -> None:
    facts = replace(OLD, free_bytes=free * GIB, total_bytes=total * GIB)
    assert found(facts, "disk").level == PROBLEM


def test_mps_is_never_advised() -> None:
    facts = replace(OLD, mps_program="/usr/bin/nvidia-cuda-mps-control")
    assert (found(facts, "MPS").level, "trust each other" in found(facts, "MPS").change) == (
        OK, True,
    )  # fmt: skip


def test_cards_that_differ_promise_what_holds_on_all_of_them() -> None:
    facts = replace(OLD, isolations={"GPU-0": "watched", "GPU-1": "kernel"})
    assert (enforced(facts), weakest(facts)) == ("kernel, watched", "watched")
    assert weakest(Facts()) == "none"


def test_a_state_folder_that_may_not_be_looked_at_ends_no_examination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_exists = Path.exists

    def exists(path: Path) -> bool:
        if path.is_relative_to("/closed"):
            raise PermissionError(13, "Permission denied")
        return true_exists(path)

    monkeypatch.setattr(Path, "exists", exists)
    assert examine(Path("/closed/state")).state == "/"


def test_what_saving_live_processes_needs_is_named() -> None:
    without = Facts(hibernation=Ability(can_hibernate=False, because="None here."))
    forbidden = replace(without, criu="4.2.1")
    able = Facts(
        criu="4.2.1",
        hibernation=Ability(can_hibernate=True, save_mib_per_s=300, wake_mib_per_s=500),
        semaphores=True,
    )

    assert "gpucommons hibernation setup" in found(without, "hibernation").change
    assert "user.max_user_namespaces" in found(forbidden, "hibernation").change
    assert (found(able, "hibernation").level, found(able, "hibernation").change) == (OK, "")
    assert "300 MiB/s saving" in found(able, "hibernation").found
    assert "pools of processes" in found(replace(able, semaphores=False), "hibernation").change


def test_which_of_the_three_ways_of_saving_holds_is_named() -> None:
    alone = Ability(can_hibernate=True, save_mib_per_s=300, wake_mib_per_s=500)
    facts = Facts(criu="4.2.1", semaphores=True, hibernation=alone)

    assert "in a user namespace" in found(facts, "hibernation").found
    by_root = found(replace(facts, hibernation=replace(alone, by_root=True)), "hibernation")
    assert "started by root as its user, in a user namespace of root's" in by_root.found
    assert "CAP_" not in by_root.found
    machine_wide = replace(alone, by_root=True, machine_wide=True)
    by_right = found(replace(facts, hibernation=machine_wide), "hibernation")
    assert "started by root as its user with one capability" in by_right.found
    assert "jobs under users' own accounts are saved" in by_right.found
    assert "`c.GpuLocalSpawner.kernels_by_root = True`" in by_right.found
    assert "may get that capability (CAP_CHECKPOINT_RESTORE)" in by_right.found
    no_group = replace(
        facts, hibernation=replace(alone, by_root=True), no_group="Read-only file system"
    )
    found_without = found(no_group, "hibernation")
    assert found_without.level == ADVICE
    assert "(Read-only file system)" in found_without.change


def test_whether_gpu_memory_can_leave_the_gpu_is_said_and_what_would_help() -> None:
    able = replace(
        OLD, parking=ParkAbility(can_park=True, park_mib_per_s=9000, unpark_mib_per_s=8000)
    )
    unable = replace(OLD, parking=ParkAbility(can_park=False, because="This driver cannot."))
    cut = replace(CARD, device_id=DeviceId("MIG-0"))

    assert found(able, "parking").found.endswith("9000 MiB/s out, 8000 MiB/s in")
    assert (found(able, "parking").level, found(unable, "parking").level) == (OK, ADVICE)
    assert "persistence mode" in found(unable, "parking").change
    assert found(replace(unable, devices=(cut,)), "parking").change.startswith("Only cards")
    older = replace(unable, traits=replace(OLD.traits, driver="550.54"))
    assert found(older, "parking").change == "Driver 570 or newer can, on x86-64."
    assert not [one for one in diagnose(OLD) if one.check in ("parking", "GPU memory")]


def test_whether_gpu_memory_can_be_saved_is_said() -> None:
    assert found(replace(OLD, gpu_not_saved=""), "GPU memory").level == OK
    unable = found(replace(OLD, gpu_not_saved="It holds a device: /dev/nvidia0."), "GPU memory")
    assert (unable.level, unable.found) == (ADVICE, "It holds a device: /dev/nvidia0.")
    assert "are not saved" in unable.change


def test_an_editor_that_lab_offers_and_cannot_start_is_said_and_how_root_gets_it() -> None:
    assert "VS Code" not in {one.check for one in diagnose(OLD)}
    offered = replace(OLD, offers_editor=True, root=True)
    assert "npm package refuses root" in found(offered, "VS Code").change
    assert "refuses root" not in found(replace(offered, root=False), "VS Code").change
    there = replace(offered, editor_program="/usr/bin/code-server")
    assert found(there, "VS Code").level == OK

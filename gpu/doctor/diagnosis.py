"""What a node can enforce, and what to change so that it can enforce more. Pure.

``ok``: as good as it gets. ``advice``: works, but more could be enforced. ``problem``: something here
stops work or fills up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.hibernation.self_test import Ability
from gpucommons.gpu.parking.driver import FIRST_BRANCH
from gpucommons.gpu.parking.self_test import ParkAbility
from gpucommons.gpu.providers.base import Capability, NodeTraits
from gpucommons.gpu.providers.node.cgroup_mem import FIRST_DRIVER
from gpucommons.gpu.providers.node.mig import smallest_profile
from gpucommons.gpu.slices.usage import ISOLATION_MODES

OK, ADVICE, PROBLEM = "ok", "advice", "problem"
#: Below this the node soon cannot write checkpoints or its own records.
LEAST_FREE_GIB = 5
LEAST_FREE_PERCENT = 5
_GIB = 1 << 30
_CALLS_NAMED = 4
_EDITOR_AS_ROOT = (
    " Where its npm package refuses root (--unsafe-perm): take a newer release, or run that as another account"
    " into a folder of its own (--prefix) and link its bin/code-server into a folder of the PATH."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A node as it was found."""

    traits: NodeTraits = field(default_factory=NodeTraits)
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    #: Isolation of a fraction of each device.
    isolations: Mapping[str, str] = field(default_factory=dict)
    #: Why NVML says nothing; empty when it answers.
    no_nvml: str = ""
    kernel: str = ""
    #: Where cgroup v2 is mounted, and its controllers; None = not mounted.
    cgroup_mount: str | None = None
    controllers: tuple[str, ...] = ()
    root: bool = False
    #: Path of the MPS control program.
    mps_program: str | None = None
    #: Calls of this driver that allocate and that the interposer does not know.
    unknown_calls: tuple[str, ...] = ()
    #: Users are to share one account, so nobody else's has to read anything.
    shared_account: bool = False
    interpreter: str = ""
    #: The first folder or file on the way that other accounts may not pass; None = they may.
    closed_at: str | None = None
    state: str = ""
    free_bytes: int = 0
    total_bytes: int = 0
    #: Version of CRIU; None = there is none that is new enough.
    criu: str | None = None
    #: What came of saving and waking a small process; None = not tried.
    hibernation: Ability | None = None
    #: Why a process that holds GPU memory cannot be saved; "" = it was saved and woken, None = not tried.
    gpu_not_saved: str | None = None
    #: What came of parking a small process on the GPU; None = there is none, so it was not tried.
    parking: ParkAbility | None = None
    #: Whether Lab offers VS Code (extra ``editors``), and whether there is a program to start for it.
    offers_editor: bool = False
    editor_program: str | None = None
    #: Whether semaphores can be saved, which takes a compiled library.
    semaphores: bool = False
    #: Why no control group can be made for a server below root's program; None = one can.
    no_group: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of the diagnosis."""

    check: str
    #: ``ok``, ``advice`` or ``problem``.
    level: str
    found: str
    #: What to do; empty when there is nothing.
    change: str = ""


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """Every check, in the order in which an admin would go through them."""
    hardware = [_gpus(facts)]
    if facts.devices:
        hardware += [_driver(facts), _cgroup(facts), _interposer(facts), _mig(facts), _mps(facts)]
    return (
        *hardware,
        _accounts(facts),
        _interpreter(facts),
        _disk(facts),
        *_hibernation(facts),
        *_parking(facts),
        *_gpu_hibernation(facts),
        *_editor(facts),
    )


def weakest(facts: Facts) -> str:
    """The isolation that every fraction on this node has at least."""
    return max(facts.isolations.values(), key=ISOLATION_MODES.index, default="none")


def enforced(facts: Facts) -> str:
    """The isolation of fractions on this node, in one word; ``none`` without a GPU."""
    modes = set(facts.isolations.values())
    return ", ".join(sorted(modes)) if modes else "none"


def _editor(facts: Facts) -> tuple[Finding, ...]:
    """Only where Lab has a tile for it: nobody has to want it."""
    if not facts.offers_editor:
        return ()
    if facts.editor_program is not None:
        return (Finding(check="VS Code", level=OK, found=facts.editor_program),)
    as_root = _EDITOR_AS_ROOT if facts.root else ""
    return (
        Finding(
            check="VS Code",
            level=ADVICE,
            found="Lab's tile finds no code-server on this PATH",
            change=f"npm install --global code-server, with Node 24 and a C++ compiler.{as_root}",
        ),
    )


def _gpus(facts: Facts) -> Finding:
    if facts.devices:
        kinds = sorted(device.kind for device in facts.devices)
        listed = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
        return Finding(check="GPUs", level=OK, found=listed)
    return Finding(
        check="GPUs",
        level=ADVICE,
        found=f"no GPU: {facts.no_nvml or 'NVML finds none'}",
        change="Install NVIDIA's driver, or go on with simulated GPUs (`gpucommons up --demo`).",
    )


def _driver(facts: Facts) -> Finding:
    version = facts.traits.driver or "of unknown version"
    if facts.traits.driver_branch >= FIRST_DRIVER:
        return Finding(check="driver", level=OK, found=version)
    return Finding(
        check="driver",
        level=ADVICE,
        found=version,
        change=f"Driver {FIRST_DRIVER} or newer limits memory in the kernel (mode kernel).",
    )


def _cgroup(facts: Facts) -> Finding:
    check = "kernel limit"
    capability = facts.capabilities.get("cgroup_mem")
    if capability is not None and capability.usable:
        backend = "dmem" if "dmem" in facts.controllers else "misc"
        return Finding(check=check, level=OK, found=f"in force, kept by {backend}")
    if facts.cgroup_mount is None:
        found, change = "cgroup v2 is not mounted", "Boot with systemd.unified_cgroup_hierarchy=1."
    elif not facts.root:
        found = f"cgroup v2 at {facts.cgroup_mount}"
        change = "Run `gpucommons up` as root: only root sets limits."
    elif facts.traits.driver_branch < FIRST_DRIVER:
        found = f"cgroup v2 at {facts.cgroup_mount}"
        change = "Only the driver is missing."
    else:
        found = "the driver refused a limit on a test group"
        change = "Look at `nvidia-smi memory-limits` and RmMemacctMode (0 = off) of the driver."
    if "dmem" not in facts.controllers and facts.cgroup_mount is not None:
        found += f", no dmem controller (kernel {facts.kernel}; 6.14 has it)"
    return Finding(check=check, level=ADVICE, found=found, change=change)


def _interposer(facts: Facts) -> Finding:
    check = "interposer"
    if not facts.traits.shim:
        return Finding(
            check=check,
            level=ADVICE,
            found=facts.traits.shim_reason,
            change="With it slices keep their memory on any driver (mode cooperative).",
        )
    if facts.unknown_calls:
        named = ", ".join(facts.unknown_calls[:_CALLS_NAMED])
        more = len(facts.unknown_calls) - _CALLS_NAMED
        rest = f" and {more} more" if more > 0 else ""
        return Finding(
            check=check,
            level=ADVICE,
            found=f"built; this driver has calls it does not know: {named}{rest}",
            change="What they allocate is only watched: update GPU Commons.",
        )
    return Finding(check=check, level=OK, found="built, knows every call of this driver")


def _mig(facts: Facts) -> Finding:
    instances = [d for d in facts.devices if d.device_id.startswith("MIG-")]
    if instances:
        if facts.traits.devices_confined:
            return Finding(check="MIG", level=OK, found=f"{len(instances)} instances")
        return Finding(
            check="MIG",
            level=ADVICE,
            found=f"{len(instances)} instances; a program may open its neighbours'",
            change="Only containers that hold no other device file make them mode hardware.",
        )
    for device in facts.devices:
        profiles = facts.traits.mig_profiles.get(device.device_id, ())
        quarter = smallest_profile(profiles, device, 250)
        if quarter is not None:
            return Finding(
                check="MIG",
                level=ADVICE,
                found=f"{device.kind} can be cut, and is not",
                change="Cut empty cards, and each slice has compute of its own; ¼ needs "
                f"{quarter.name} ({quarter.count} a card).",
            )
    return Finding(check="MIG", level=OK, found="no card here can be cut")


def _mps(facts: Facts) -> Finding:
    if facts.mps_program is None:
        return Finding(check="MPS", level=OK, found="not installed, not needed")
    return Finding(
        check="MPS",
        level=OK,
        found=f"{facts.mps_program}, used by pools with the setting mps",
        change="Only for teams that trust each other: one fault ends every program on the card.",
    )


def _accounts(facts: Facts) -> Finding:
    if facts.shared_account:
        return Finding(
            check="accounts",
            level=ADVICE,
            found="all users share one account, as asked: nothing isolates them",
            change="Run `gpucommons up` as root without --demo or --trusted-users for real accounts.",
        )
    if facts.root:
        return Finding(
            check="accounts", level=OK, found="root: every user is an account of their own"
        )
    return Finding(
        check="accounts",
        level=ADVICE,
        found="all users would share one account, which isolates nobody",
        change="Run `gpucommons up` as root for real accounts.",
    )


def _interpreter(facts: Facts) -> Finding:
    check = "interpreter"
    if facts.closed_at is None or not facts.root or facts.shared_account:
        return Finding(check=check, level=OK, found=facts.interpreter)
    return Finding(
        check=check,
        level=PROBLEM,
        found=f"{facts.interpreter} cannot be run by other accounts: {facts.closed_at} is closed",
        change="Install GPU Commons where every account may read it, for example in /opt.",
    )


_BY_USERS = "in a user namespace, without any right of the machine's"
_BY_ROOT = (
    "started by root as its user, in a user namespace of root's, as users may make none here; so jobs and "
    "notebooks under users' own accounts are saved where scheduler and hub are root too"
)
_BY_RIGHT_OF_MACHINE = (
    "started by root as its user with one capability, as not even root may make user namespaces here; so "
    "jobs under users' own accounts are saved where the scheduler is root too, and notebooks where the hub "
    "is, and has `c.GpuLocalSpawner.kernels_by_root = True`. A user with a saved job or notebook may get "
    "that capability (CAP_CHECKPOINT_RESTORE) by its wake: choose process numbers, rename a program"
)


def _way(ability: Ability) -> str:
    if not ability.by_root:
        return _BY_USERS
    return _BY_RIGHT_OF_MACHINE if ability.machine_wide else _BY_ROOT


def _hibernation(facts: Facts) -> tuple[Finding, ...]:
    check, ability = "hibernation", facts.hibernation
    if ability is None:
        return ()
    if not ability.can_hibernate:
        change = (
            "Users need namespaces of their own (sysctl user.max_user_namespaces, AppArmor's "
            "kernel.apparmor_restrict_unprivileged_userns, a container's filter of system calls)."
            if facts.criu
            else "Run `gpucommons hibernation setup`, or install CRIU 4.2 or newer."
        )
        return (Finding(check=check, level=ADVICE, found=ability.because, change=change),)
    found = (
        f"CRIU {facts.criu} saved and woke a small process: {ability.save_mib_per_s} MiB/s "
        f"saving, {ability.wake_mib_per_s} MiB/s waking, {_way(ability)}"
    )
    if ability.by_root and facts.no_group is not None:
        change = (
            f"No control group can be made here ({facts.no_group}), so where root's program above a notebook"
            " server is killed, a server that ignores signals goes on. It takes cgroup v2 that root may write."
        )
        return (Finding(check=check, level=ADVICE, found=found, change=change),)
    if not facts.semaphores:
        change = (
            "With a C compiler, or a wheel that has the library, pools of processes and workers of"
            " data loaders can be saved."
        )
        return (Finding(check=check, level=ADVICE, found=found, change=change),)
    return (Finding(check=check, level=OK, found=found),)


def _parking(facts: Facts) -> tuple[Finding, ...]:
    check, ability = "parking", facts.parking
    if ability is None:
        return ()
    if ability.can_park:
        found = (
            "the GPU memory of a small process was moved to the host and back: "
            f"{ability.park_mib_per_s} MiB/s out, {ability.unpark_mib_per_s} MiB/s in"
        )
        return (Finding(check=check, level=OK, found=found),)
    if facts.traits.driver_branch < FIRST_BRANCH:
        change = f"Driver {FIRST_BRANCH} or newer can, on x86-64."
    elif any(device.device_id.startswith("MIG-") for device in facts.devices):
        change = "Only cards that are not cut can be parked."
    else:
        change = (
            "It takes a GPU that is free for it, no MPS, and on some drivers the persistence mode."
        )
    return (Finding(check=check, level=ADVICE, found=ability.because, change=change),)


def _gpu_hibernation(facts: Facts) -> tuple[Finding, ...]:
    check, because = "GPU memory", facts.gpu_not_saved
    if because is None:
        return ()
    if not because:
        found = "a small process that held some was saved and woken with it"
        return (Finding(check=check, level=OK, found=found),)
    return (
        Finding(
            check=check,
            level=ADVICE,
            found=because,
            change="Kernels that hold GPU memory are not saved when their server stops.",
        ),
    )


def _disk(facts: Facts) -> Finding:
    free_gib, total = facts.free_bytes / _GIB, max(1, facts.total_bytes)
    found = f"{free_gib:.1f} GiB free at {facts.state}"
    if free_gib >= LEAST_FREE_GIB and facts.free_bytes * 100 >= total * LEAST_FREE_PERCENT:
        return Finding(check="disk", level=OK, found=found)
    return Finding(
        check="disk",
        level=PROBLEM,
        found=found,
        change=f"Free at least {LEAST_FREE_GIB} GiB and {LEAST_FREE_PERCENT} %: a full disk stops "
        "checkpoints and the scheduler's records.",
    )

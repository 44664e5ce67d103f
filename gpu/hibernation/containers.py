"""What a container needs of its node so that processes in it can be saved and woken. Pure.

Two things are in the way of a container that an admin has confined: the runtime's filter of system
calls, and the parts of ``/proc`` that are covered: the kernel mounts a fresh one, which each tree
needs, only where an uncovered one can be seen. So a node has a filter that allows a little more, and
a device that is nothing but such a ``/proc`` with CRIU beside it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: A pod that asks for one of these gets both.
RESOURCE = "gpucommons.io/hibernate"
#: The filter's file, below the kubelet's folder of them: a pod names it so.
PROFILE = "gpucommons/hibernate.json"
#: The device as the runtime knows it, and the file that describes it.
DEVICE, DEVICE_FILE = f"{RESOURCE}=proc", "gpucommons-hibernate.json"
#: How a container runtime says that a node lacks the filter, or the device and no other one: what is
#: others', nobody here brings back.
PROFILE_LACKING = re.compile(
    rf'cannot load seccomp profile \\?"[^"\\]*/seccomp/{re.escape(PROFILE)}\\?"'
)
DEVICE_LACKING = re.compile(rf"unresolvable CDI devices {re.escape(DEVICE)}(?![\w,])")
_INSIDE = "/run/gpucommons/hibernation"
#: Where a container finds CRIU.
CRIU = f"{_INSIDE}/criu"

_ALLOWED = Path(__file__).with_name("allowed_calls.txt")
_ARCHITECTURES = {
    "x86_64": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "aarch64": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
}
_NO_SUCH_CALL = 38
#: Kinds of namespaces that `clone` makes without rights of its own.
_NAMESPACES = 0x7E020000
#: Of `socket`, the kinds that the runtime allows: all but AF_ALG (38) and AF_VSOCK (40).
_SOCKETS_BELOW, _SOCKETS = 38, (39, 41, 42, 43, 44, 45)
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
#: `unshare`: a user namespace; then in it one of processes and mounts, and one of clocks.
_UNSHARED = (0x10000000, 0x20020000, 0x80)
#: `mount`: its third argument from the end. Mounts made private; /proc and /dev/shm (no setuid, no
#: devices, no programs); terminals (no setuid, no programs). No bind mount, no remount, no move.
_MOUNTED = (0x44000, 0xE, 0xA)


def seccomp_filter(machine: str) -> dict[str, Any]:
    """The filter in the form that container runtimes read, for this architecture.

    Raises
    ------
    ValueError
        For an architecture of which we do not know what is right.
    """
    if machine not in _ARCHITECTURES:
        message = f"There is no filter of system calls for {machine}."
        raise ValueError(message)
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": _ARCHITECTURES[machine],
        "syscalls": [
            _allow(_names()),
            *(_allow(["socket"], 0, kind) for kind in _SOCKETS),
            _allow(["socket"], 0, _SOCKETS_BELOW, "LT"),
            *(_allow(["personality"], 0, one) for one in _PERSONALITIES),
            _allow(["clone"], 0, _NAMESPACES, "MASKED_EQ"),
            # Its arguments cannot be judged; programs then use `clone`.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _NO_SUCH_CALL},
            # From here on what the runtime does not allow.
            _allow(["kcmp"]),
            *(_allow(["unshare"], 0, kinds) for kinds in _UNSHARED),
            *(_allow(["mount"], 3, flags) for flags in _MOUNTED),
        ],
    }


def device_spec(criu: Path) -> dict[str, Any]:
    """The device for the runtime (Container Device Interface), with the node's CRIU in this folder."""
    proc = {
        "hostPath": "proc",
        "containerPath": f"{_INSIDE}/proc",
        "type": "proc",
        "options": ["nosuid", "nodev", "noexec"],
    }
    tools = {
        "hostPath": str(criu),
        "containerPath": CRIU,
        "type": "bind",
        "options": ["rbind", "ro", "nosuid", "nodev"],
    }
    edits = {"env": [f"GPUCOMMONS_CRIU={CRIU}"], "mounts": [proc, tools]}
    device = {"name": DEVICE.partition("=")[2], "containerEdits": edits}
    return {"cdiVersion": "0.6.0", "kind": RESOURCE, "devices": [device]}


def _names() -> list[str]:
    lines = _ALLOWED.read_text(encoding="ascii").splitlines()
    return " ".join(line for line in lines if not line.startswith("#")).split()


def _allow(
    names: list[str], argument: int | None = None, value: int = 0, compare: str = "EQ"
) -> dict[str, Any]:
    rule: dict[str, Any] = {"names": names, "action": "SCMP_ACT_ALLOW"}
    if argument is not None:
        rule["args"] = [{"index": argument, "value": value, "op": f"SCMP_CMP_{compare}"}]
    return rule

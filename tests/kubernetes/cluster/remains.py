"""What a cluster leaves on a machine besides processes and its folder, and how it goes."""

import contextlib
import subprocess
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def remove_remains(folder: Path) -> None:
    """Unmount what lies under the folder; remove its bridge and its control groups."""
    unmount_below(folder)
    if (Path("/sys/class/net") / bridge_name(folder)).exists():
        subprocess.run(["ip", "link", "delete", bridge_name(folder)], check=False)
    for group in [*CGROUPS.glob(f"{folder.name}*"), *CGROUPS.glob(f"*/{folder.name}*")]:
        remove_cgroup(group)


def remove_lost_bridges(prefix: str, place: Path) -> None:
    """Remove bridges whose cluster's folder is gone: their routes lead a new cluster's packets nowhere."""
    for bridge in Path("/sys/class/net").glob(f"{prefix}*"):
        if not any(bridge_name(folder) == bridge.name for folder in place.glob(f"{prefix}*")):
            subprocess.run(["ip", "link", "delete", bridge.name], check=False)


def bridge_name(folder: Path) -> str:
    """The network bridge of a cluster; the kernel allows 15 letters."""
    return folder.name[:15]


def unmount_below(folder: Path) -> None:
    """Unmount everything below a folder, the innermost first."""
    inside = [point for point in _mount_points() if point.is_relative_to(folder)]
    for point in sorted(inside, key=lambda one: len(one.parts), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)


def remove_cgroup(group: Path) -> None:
    """Remove a control group and those inside, once their processes are gone."""
    for _ in range(50):
        for inner in sorted(group.rglob("*/"), key=lambda one: len(one.parts), reverse=True):
            with contextlib.suppress(OSError):
                inner.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        if not group.exists():
            return
        _kill_members(group)
        time.sleep(0.1)


def _kill_members(group: Path) -> None:
    for members in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            for pid in members.read_text().split():
                subprocess.run(["kill", "-KILL", pid], check=False, capture_output=True)


def _mount_points() -> list[Path]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [Path(line.split()[1].replace("\\040", " ")) for line in lines]

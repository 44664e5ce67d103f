"""Where the kubelet put a pod's control group: a limit there binds all that the pod will ever run.

Only cgroup v2. The kubelet makes the group before it mounts the pod's volumes and removes it after
they are taken back, so who sets a limit while a volume is mounted is never too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

#: root, kubepods, class of service, pod; a node of a test may have one more above.
_MAX_DEPTH = 4


class PodCgroups:
    """The pods' groups below the mount of cgroup v2."""

    def __init__(self, mount: Path, proc: Path = Path("/proc")) -> None:
        self._mount = mount
        self._proc = proc

    def find(self, pod: str) -> Path | None:
        """The folder of a pod's group, by the pod's uid; None where there is none (yet)."""
        names = (f"pod{pod}", f"-pod{pod.replace('-', '_')}.slice")
        for folder in _folders(self._mount, _MAX_DEPTH):
            # cgroupfs names it so; systemd puts the names of its parents before it.
            if folder.name == names[0] or folder.name.endswith(names[1]):
                return folder
        return None

    def holds(self, group: str, pid: int) -> bool:
        """Whether a process is in the group or below, or is not to be seen any more."""
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return True
        wanted = "/" + str(Path(group).relative_to(self._mount))
        paths = (line[3:] for line in lines if line.startswith("0::"))
        return any(path == wanted or path.startswith(f"{wanted}/") for path in paths)


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders below, as deep as a pod's can be; not into the pods themselves."""
    try:
        inner = [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]
    except OSError:
        return
    for one in inner:
        yield one
        if depth > 1 and not one.name.startswith("pod"):
            yield from _folders(one, depth - 1)

"""Control groups of slices: ``<cgroup v2>/gpucommons.slice/<slice>``, one leaf each.

Limits on a leaf are what its processes see as the card; a limit on a parent is enforced but not
seen. So every slice has a leaf of its own, made by root below one folder that is ours.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gpucommons.gpu.linux.control_groups import enter
from gpucommons.gpu.slices.slices import SliceId

#: Our folder below the mount of cgroup v2.
FOLDER = "gpucommons.slice"
#: Controllers that the driver may keep its accounts in; whichever the kernel has.
_CONTROLLERS = ("dmem", "misc")


class Cgroups:
    """The groups of one node's slices."""

    def __init__(self, mount: Path, proc: Path = Path("/proc")) -> None:
        self._mount = mount
        self._parent = mount / FOLDER
        self._proc = proc

    @property
    def parent(self) -> Path:
        """The folder of all slices."""
        return self._parent

    def path(self, slice_id: SliceId) -> str:
        """Folder of a slice's group."""
        return str(self._parent / slice_id)

    def exists(self, slice_id: SliceId) -> bool:
        """Whether the group is there."""
        return (self._parent / slice_id).is_dir()

    def make(self, slice_id: SliceId) -> str:
        """Make the group; again is harmless.

        Raises
        ------
        OSError
            When the kernel refuses.
        """
        self._parent.mkdir(mode=0o755, exist_ok=True)
        for folder in (self._mount, self._parent):
            _pass_on_controllers(folder)
        (self._parent / slice_id).mkdir(mode=0o755, exist_ok=True)
        return self.path(slice_id)

    def move(self, slice_id: SliceId, pid: int) -> None:
        """Move one process; its children to come are born in the group.

        Raises
        ------
        OSError
            When the kernel refuses, or the process is gone.
        """
        enter(self.path(slice_id), pid)

    def holds(self, slice_id: SliceId, pid: int) -> bool:
        """Whether a process is in the group or one below it, or was never to be seen."""
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return True  # gone: it uses nothing
        wanted = f"/{FOLDER}/{slice_id}/"
        return any(line.startswith("0::") and wanted in f"{line[3:]}/" for line in lines)

    def remove(self, slice_id: SliceId) -> None:
        """Remove the group; one that is not there is removed already.

        Raises
        ------
        OSError
            While processes are in it.
        """
        with suppress(FileNotFoundError):
            for below in (self._parent / slice_id).iterdir():
                if below.is_dir():
                    below.rmdir()
            (self._parent / slice_id).rmdir()


def _pass_on_controllers(folder: Path) -> None:
    """Let groups below use the controllers that this one has."""
    with suppress(OSError):
        available = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        passed_on = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
        for name in _CONTROLLERS:
            if name in available and name not in passed_on:
                (folder / "cgroup.subtree_control").write_text(f"+{name}", encoding="ascii")

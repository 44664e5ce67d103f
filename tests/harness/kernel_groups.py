"""cgroup v2 without a kernel: the same files in a plain folder, for machines that mount none."""

from __future__ import annotations

from pathlib import Path

from gpucommons.gpu.slices.cgroups import FOLDER, Cgroups
from gpucommons.gpu.slices.slices import SliceId


class PlainCgroups(Cgroups):
    """What the kernel does with its files, done by hand."""

    def __init__(self, mount: Path) -> None:
        mount.mkdir(exist_ok=True)
        (mount / "cgroup.controllers").write_text("cpu dmem memory\n")
        (mount / "cgroup.subtree_control").write_text("")
        super().__init__(mount)

    def make(self, slice_id: SliceId) -> str:
        group = super().make(slice_id)
        (Path(group) / "cgroup.procs").touch()
        return group

    def holds(self, slice_id: SliceId, pid: int) -> bool:
        return str(pid) in self.members(slice_id)

    def members(self, slice_id: SliceId) -> list[str]:
        return (self.parent / slice_id / "cgroup.procs").read_text().split()

    def remove(self, slice_id: SliceId) -> None:
        (self.parent / slice_id / "cgroup.procs").unlink(missing_ok=True)
        super().remove(slice_id)


__all__ = ["FOLDER", "PlainCgroups"]

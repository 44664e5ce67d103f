"""Where a slice's files lie: a plain folder, or on Kubernetes a small file system of its own.

A pod is shown the whole folder and may write into its ledger. On a file system of its own whoever
makes the ledger grow fills nobody's disk, and the folder is told from every other by its device
number.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from gpucommons.gpu.linux import mounts
from gpucommons.gpu.slices.slices import SliceId

logger = logging.getLogger(__name__)

SOCKET = "usage.sock"
#: The interposer's libraries, limit, ledger and socket, twice over.
_POD_BYTES = 4 << 20
_POD_FILES = 64


def mount_name(slice_id: SliceId) -> str:
    """What a slice's file system is called in the table of mounts."""
    return f"gpucommons:{slice_id}"


def _shown() -> Iterator[tuple[str, str]]:
    """Names of file systems that are mounted as a pod's volume, and the pod's uid."""
    for name, place in mounts.named():
        match place.parts[-6:]:
            case ("pods", pod, "volumes", "kubernetes.io~csi", _, "mount"):
                yield name, pod
            case _:
                continue


class SliceFolders:
    """Folders of the slices of one machine, each its user's to enter and the agent's to write."""

    #: Of the socket in it: the agent's own until it knows whose slice it is.
    socket_mode = 0o600
    #: They are shown to pods.
    in_pods = False

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.chmod(self._root_mode())

    def path(self, slice_id: SliceId) -> Path:
        """A slice's folder."""
        return self.root / slice_id

    def socket_of(self, slice_id: SliceId) -> Path:
        """Where a slice's samples are served."""
        return self.path(slice_id) / SOCKET

    def make(self, slice_id: SliceId) -> None:
        """Make the folder; again is harmless.

        Raises
        ------
        OSError
            When it cannot be made.
        """
        self.path(slice_id).mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self, slice_id: SliceId) -> None:
        """Remove the folder, when nothing but the socket is left in it."""
        self.socket_of(slice_id).unlink(missing_ok=True)
        with suppress(OSError):
            self.path(slice_id).rmdir()

    def keep_only(self, wanted: Iterable[SliceId]) -> None:
        """Remove what an agent that was killed left of other slices."""
        names = frozenset(map(str, wanted))
        for folder in self.root.iterdir():
            if folder.name not in names:
                self.remove(SliceId(folder.name))

    def _root_mode(self) -> int:
        # Root's agent serves other users' slices below; the folders carry their own modes.
        return 0o711 if os.geteuid() == 0 else 0o700


class PodFolders(SliceFolders):
    """Folders that are mounted into pods: only their own pod sees one, whatever account it has."""

    socket_mode = 0o666
    in_pods = True

    def make(self, slice_id: SliceId) -> None:
        """Make the folder and its file system; again is harmless.

        Raises
        ------
        OSError
            When the agent may not mount.
        """
        folder = self.path(slice_id)
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not mounts.points(folder):
            mounts.tmpfs(folder, name=mount_name(slice_id), size_bytes=_POD_BYTES, files=_POD_FILES)

    def remove(self, slice_id: SliceId) -> None:
        """Take the folder away; a pod that still has it keeps what it sees."""
        folder = self.path(slice_id)
        try:
            mounts.unmount(folder)
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("%s cannot be removed: %s", folder, error)

    def shown_to(self, slice_id: SliceId) -> frozenset[str]:
        """The pods (by uid) that are shown a slice, by the kernel's table of mounts.

        The kubelet takes a volume back only after the pod's containers are gone: so whoever could be
        in a slice is in one of these, whatever the agent itself remembers.
        """
        return frozenset(pod for name, pod in _shown() if name == mount_name(slice_id))

    def keep_only(self, wanted: Iterable[SliceId]) -> None:
        """Remove what an agent that was killed left of other slices, but for what pods still see."""
        seen = {name for name, _ in _shown()}
        super().keep_only([
            *wanted,
            *(SliceId(one.name) for one in self.root.iterdir()
              if mount_name(SliceId(one.name)) in seen),
        ])  # fmt: skip

    def _root_mode(self) -> int:
        # Pods reach theirs through a mount: nobody has to pass here.
        return 0o700

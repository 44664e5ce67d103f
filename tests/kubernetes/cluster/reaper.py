"""Ends a test cluster when whoever started it is gone, even by SIGKILL.

The reaper holds the reading end of a pipe whose writing end only its starter has: when the kernel
closes that, it ends the cluster's processes, unmounts and removes what they left. It also holds a
lock on the folder, so that the next start can tell a cluster that somebody watches over from one
whose reaper was killed too, and sweeps the latter up.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes.cluster.network import NUMBER, choose
from tests.kubernetes.cluster.processes import end_recorded
from tests.kubernetes.cluster.remains import remove_lost_bridges, remove_remains
from tests.kubernetes.toolchain.toolchain import cache_folder

PREFIX = "gck-"
ROOT = Path(__file__).parents[3]


class Reaper:
    """A new folder for a cluster, cleaned up when this process is gone."""

    def __init__(self) -> None:
        with _one_at_a_time():
            _sweep()
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # short: sockets lie in it
            lock = (self.folder / "watched").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            others = Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{NUMBER}")
            self.network = choose(self.folder, list(others))
        reading, self._writing = os.pipe()
        with lock, (self.folder / "reaper.log").open("ab") as log:
            # The lock stays taken for as long as the reaper has the file open.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.kubernetes.cluster.reaper", self.folder],
                stdin=reading,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
        os.close(reading)

    def finish(self) -> None:
        """Let it do its work now and wait for it."""
        os.close(self._writing)
        self.process.wait()


def sweep() -> list[Path]:
    """Clean up every cluster of ours that nobody watches over; the folders removed."""
    with _one_at_a_time():
        return _sweep()


def clean(folder: Path) -> None:
    """End what runs in a cluster's folder and remove what it left on this machine."""
    end_recorded(folder)
    remove_remains(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> list[Path]:
    swept = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if folder.stat().st_uid == os.getuid() and not _is_watched(folder):
            clean(folder)
            swept.append(folder)
    remove_lost_bridges(PREFIX, Path(tempfile.gettempdir()))
    return swept


def _is_watched(folder: Path) -> bool:
    with (folder / "watched").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """A folder is made and locked before another start looks for folders without a lock."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "starting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Wait until the pipe ends, then clean."""
    sys.stdin.buffer.read()
    clean(Path(sys.argv[1]))


if __name__ == "__main__":
    main()

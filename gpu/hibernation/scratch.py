"""A self-test's own folder; what a killed one left, its small tree and files, goes with the next.

A tester holds a lock on its folder, which the kernel lets go of with it. A tree whose caller was killed
in the first moment sees another parent, and would wait for ever.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpucommons.gpu.hibernation import unused_account
from gpucommons.gpu.hibernation.tree import INIT
from gpucommons.gpu.linux.held_folders import new_held_folder, remove_unheld
from gpucommons.gpu.linux.pidfd import signal_process
from gpucommons.gpu.linux.processes import node_processes

log = logging.getLogger(__name__)

_PREFIX = "gpucommons-self-test-"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder below this one, removed at the end; before it, those of testers that were killed.

    Raises
    ------
    OSError
        When none can be made there.
    """
    remove_left(folder)
    with new_held_folder(_PREFIX, below=folder) as made:
        yield Path(made)


def remove_left(folder: Path) -> None:
    """Remove what killed testers left below this folder, their processes first."""
    trials_of_root: Collection[int] = unused_account.ACCOUNTS if os.geteuid() == 0 else ()
    remove_unheld(_PREFIX, below=folder, owners=trials_of_root, first=_end_trees)


def _end_trees(folder: Path) -> None:
    log.warning("a self-test that was killed left %s: it is removed", folder)
    _kill_trees(folder)


def _kill_trees(folder: Path) -> None:
    """Who stands for a tree in this folder; the tree ends with it."""
    processes = node_processes()
    for pid in processes.pids():
        stat, words = processes.stat(pid), processes.command(pid)
        if stat is None or str(INIT) not in words:
            continue
        if any(word.startswith(f"{folder}{os.sep}") for word in words):
            with suppress(PermissionError):
                signal_process(pid, stat.start, signal.SIGKILL, processes.stat)

"""A self-test's own folder; what a killed one left, its small tree and files, goes with the next.

A tester holds a lock on its folder, which the kernel lets go of with it. A tree whose caller was killed
in the first moment sees another parent, and would wait for ever.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpucommons.gpu.hibernation import unused_account
from gpucommons.gpu.hibernation.tree import INIT
from gpucommons.gpu.linux.held_folders import locked
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
    with tempfile.TemporaryDirectory(dir=folder, prefix=_PREFIX) as made:
        held = locked(Path(made))
        try:
            yield Path(made)
        finally:
            if held is not None:
                os.close(held)


def remove_left(folder: Path) -> None:
    """Remove what killed testers left below this folder, their processes first."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove(left)


def _remove(folder: Path) -> None:
    owner = folder.lstat().st_uid
    is_trial_of_root = os.geteuid() == 0 and owner in unused_account.ACCOUNTS
    # Whoever has just made one has nothing in it before it is locked.
    if not (owner == os.geteuid() or is_trial_of_root) or not any(folder.iterdir()):
        return
    held = locked(folder)
    if held is None:
        return
    try:
        log.warning("a self-test that was killed left %s: it is removed", folder)
        _kill_trees(folder)
        shutil.rmtree(folder)
    finally:
        os.close(held)


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

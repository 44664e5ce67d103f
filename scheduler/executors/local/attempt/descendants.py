"""The processes below a supervisor: who lives, who must go, whose exit codes are to be collected.

A supervisor adopts the orphans of its job (it is their subreaper), so nobody of the job gets away from
it by forking.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from gpucommons.gpu.hibernation.inside import processes


def descendants() -> list[psutil.Process]:
    """All that live below this process."""
    found = psutil.Process().children(recursive=True)
    return [process for process in found if _status(process) != psutil.STATUS_ZOMBIE]


def memory_bytes(pid: int) -> int:
    """What saving all below a worker writes: shared pages count once for each, so it is not too little."""
    with suppress(psutil.Error):
        return processes.memory_bytes(
            one.pid for one in psutil.Process(pid).children(recursive=True)
        )
    return 0


def kill_children() -> bool:
    """Kill and collect our own children once; True while there are any.

    Orphans become ours, so that is everybody in the end, and a pid that we have not collected yet
    cannot belong to somebody else. It takes microseconds, because processes that each fork and leave
    at once would outrun a look at all processes of the machine.
    """
    for pid in _children():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return [process.pid for process in psutil.Process().children()]
    return [int(pid) for pid in listed.split()]


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return psutil.STATUS_ZOMBIE


def quietly(action: Callable[[], None]) -> None:
    """Do this to a process that may be gone."""
    with suppress(psutil.Error):
        action()


def reap_adopted(workers: set[int]) -> None:
    """Collect exit codes of orphans that we adopted, but leave workers to their Popen."""
    for pid in set(_children()) - workers:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

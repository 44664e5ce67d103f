"""Signals that cannot hit the wrong process: a pid may be reused, a pidfd may not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from gpucommons.gpu.linux.processes import ProcessStat


def signal_process(
    pid: int, start: int, number: signal.Signals, stat: Callable[[int], ProcessStat | None]
) -> bool:
    """Send a signal to the process that has this pid *and* start; False when it is gone.

    Raises
    ------
    PermissionError
        When it is somebody else's.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        # Looked at after it was opened: whatever this pid names now, the descriptor is of it.
        found = stat(pid)
        if found is None or found.start != start:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)

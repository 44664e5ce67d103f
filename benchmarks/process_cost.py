"""What other processes have used of the processor: where several programs share two cores, that is what
limits them, and a figure without it says little about any one of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Processor time of each process so far, all its threads together."""
    return {name: _of_one(pid) for name, pid in pids.items()}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Processor time between two readings, the greatest first."""
    used = {name: round(after[name] - before[name], 1) for name in before}
    return dict(sorted(used.items(), key=lambda one: -one[1]))


def _of_one(pid: int) -> float:
    # The name may hold anything, also brackets and blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / _TICKS

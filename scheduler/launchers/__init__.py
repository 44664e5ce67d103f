"""How the workers of a job find each other: pure functions from a gang to commands and variables.

One file for each way. They know roles, places and ports, and neither executors nor clusters; executors
know none of them by name. Read `gang` first, then `table`.
"""

from __future__ import annotations

from gpucommons.scheduler.launchers.gang import Gang, Start, Worker
from gpucommons.scheduler.launchers.table import (
    AUTO,
    LAUNCHERS,
    PLAIN,
    refusal,
    starts,
    told_of_each,
)

__all__ = [
    "AUTO",
    "LAUNCHERS",
    "PLAIN",
    "Gang",
    "Start",
    "Worker",
    "refusal",
    "starts",
    "told_of_each",
]

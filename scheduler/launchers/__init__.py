"""How the workers of a job find each other: pure functions from a gang to commands and variables.

One file for each way. They know roles, places and ports, and neither executors nor clusters; executors
know none of them by name. Read `gang` first, then `table`.
"""

from __future__ import annotations

from gpucommons.scheduler.launchers.gang import Gang, Start, Worker
from gpucommons.scheduler.launchers.table import (
    AUTO,
    BUILT_IN,
    LAUNCHERS,
    PLAIN,
    add,
    refusal,
    starts,
    told_of_each,
)

__all__ = [
    "AUTO",
    "BUILT_IN",
    "LAUNCHERS",
    "PLAIN",
    "Gang",
    "Start",
    "Worker",
    "add",
    "refusal",
    "starts",
    "told_of_each",
]

"""How the workers of a job find each other: pure functions from a gang to commands and variables.

One file for each way. They know roles, places and ports, and neither executors nor clusters; executors
know none of them by name. Read `launcher` first, then `worker_addresses` and `table`.
"""

from __future__ import annotations

from gpucommons.scheduler.launchers.launcher import Asked, Launcher, Start
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
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

__all__ = [
    "AUTO",
    "BUILT_IN",
    "LAUNCHERS",
    "PLAIN",
    "Asked",
    "Gang",
    "Launcher",
    "Start",
    "Worker",
    "add",
    "refusal",
    "starts",
    "told_of_each",
]

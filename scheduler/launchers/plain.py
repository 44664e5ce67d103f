"""Workers as they are: what they need stands in the variables that every job has."""

from __future__ import annotations

from gpucommons.scheduler.launchers.launcher import Launcher, Start
from gpucommons.scheduler.launchers.worker_addresses import Gang


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(Start(command=worker.command) for worker in gang.workers)


PLAIN = Launcher(name="plain", starts=_starts)

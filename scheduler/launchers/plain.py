"""Workers as they are: what they need stands in the variables that every job has."""

from __future__ import annotations

from gpucommons.scheduler.launchers.gang import Gang, Launcher, Start


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(Start(command=worker.command) for worker in gang.workers)


PLAIN = Launcher(name="plain", starts=_starts)

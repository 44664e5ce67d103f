"""Ports of this machine for the workers of an attempt to meet at."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice

from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local.attempt.ports import hold
from gpucommons.scheduler.launchers import PLAIN
from gpucommons.scheduler.launchers.worker_addresses import PORTS, ports_from


def ports_for(launch: Launch) -> tuple[int, ...]:
    """Of each worker in a row; free ones where workers meet.

    A worker alone meets nobody: whoever listens on all ports of the machine must not hold up its job.

    Raises
    ------
    Unavailable, OSError
        As :func:`free_ports`.
    """
    attempt = launch.attempt
    if len(attempt.placements) <= 1 and launch.workload.spec.launcher == PLAIN:
        return tuple(islice(ports_from(attempt.attempt_id), PORTS))
    return free_ports(attempt.attempt_id, workers=len(attempt.placements))


def free_ports(attempt_id: str, *, workers: int) -> tuple[int, ...]:
    """Some that nobody listens on now, for each worker in a row; all are held until the last is found.

    Raises
    ------
    Unavailable
        When there are not so many: the loop tries again.
    OSError
        When it cannot be found out, which says nothing of a port.
    """
    wanted = PORTS * max(1, workers)
    found: list[int] = []
    with ExitStack() as held:
        for port in ports_from(attempt_id):
            if (one := hold(port)) is None:
                continue
            held.enter_context(one)
            found.append(port)
            if len(found) == wanted:
                return tuple(found)
    message = (
        f"The workers need {wanted} free ports of this machine, and only {len(found)} are free now:"
        " it is tried again."
    )
    raise Unavailable(message)

"""Ports of this machine for the workers of an attempt to meet at."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from gpucommons.scheduler.core.model.types import Attempt
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.launchers.gang import PORTS, ports_from


def free_ports(attempt: Attempt) -> tuple[int, ...]:
    """Some that nobody listens on now, for each worker in a row; all are held until the last is found.

    Raises
    ------
    BadRequest
        When there are not so many.
    """
    wanted = PORTS * max(1, len(attempt.placements))
    found: list[int] = []
    with ExitStack() as held:
        for port in ports_from(attempt.attempt_id):
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            found.append(port)
            if len(found) == wanted:
                return tuple(found)
    message = f"It needs {wanted} free ports of this machine, and only {len(found)} are free."
    raise BadRequest(message)

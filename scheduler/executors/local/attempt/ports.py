"""A port that somebody took between its choice and its use: the machine's doing, not the job's.

Ports are chosen when an attempt is planned and used once its framework is loaded, seconds or minutes
later. None can be held for a framework meanwhile: it would find it taken. So a worker that failed for
want of a port is told from one that failed by itself, and the next attempt has others.
"""

from __future__ import annotations

import errno
import re
import socket
from typing import Any

from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder
from gpucommons.scheduler.executors.local.attempt.plan import Plan
from gpucommons.scheduler.failures import TAIL_BYTES
from gpucommons.scheduler.files.log_reader import read_tail

#: What programs say of it: Python, C libraries by name and number, and our own launchers.
_SAYS_SO = re.compile(r"address (?:is )?already in use|EADDRINUSE|errno:? ?98\b", re.IGNORECASE)


def hold(port: int) -> socket.socket | None:
    """Hold a port until the socket is closed; None where somebody has it, at whichever address.

    Raises
    ------
    OSError
        When it cannot be found out, which says nothing of the port.
    """
    # Frameworks listen at all addresses, of IPv6 too, so one that is taken at any will not do.
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            # A machine may know IPv6 and have no address of it.
    try:
        return socket.create_server(("", port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    return None


def end_for_want_of_a_port(plan: Plan, folder: AttemptFolder) -> dict[str, Any]:
    """What is said instead of a failure, once nothing of the attempt runs; empty where no port was missing.

    A worker must have said that an address is in use, and somebody must have one of the ports still: a
    script that starts a server of its own at a port that it has used already fails by itself.
    """
    if not any(_SAYS_SO.search(read_tail(folder.log(w.rank), TAIL_BYTES)) for w in plan.workers):
        return {}
    port = _taken(plan.ports)
    if port is None:
        return {}
    text = f"Port {port}, meant for its workers, was taken by another program before they used it"
    return {"exit_code": None, "codes": {}, "text": text}


def _taken(ports: tuple[int, ...]) -> int | None:
    for port in ports:
        try:
            held = hold(port)
        except OSError:
            return None
        if held is None:
            return port
        held.close()
    return None

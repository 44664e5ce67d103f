"""Work that takes seconds, in a process of its own: the scheduler's loop must never wait for it.

A thread would not do: the interpreter's lock would slow every cycle. The child is nice, may be
given up on, and leaves nothing behind.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from gpucommons.scheduler.errors import SchedulerError, Unavailable

T = TypeVar("T")

_NICENESS = 10


def apart(work: Callable[..., T], *arguments: Any, timeout_s: float) -> T:
    """Call a module's function in a new process; its refusals are raised here.

    Raises
    ------
    Unavailable
        It took too long, or its process died.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, work, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            message = f"It was not done within {timeout_s:.0f} s. Ask for fewer days."
            raise Unavailable(message)
        answer = ours.recv()
    except EOFError:
        raise Unavailable("Its process ended before it was done. Try again.") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if isinstance(answer, SchedulerError):
        raise answer
    found: T = answer
    return found


def _child(channel: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    with suppress(OSError):
        os.nice(_NICENESS)
    try:
        channel.send(work(*arguments))
    except SchedulerError as error:
        channel.send(error)
    finally:
        channel.close()

"""In which order the driver is asked, and the way back where it refuses. Pure but for the driver.

Whoever did it before may have been killed at any place: each step begins with the state that is
there. All processes are locked before the first is moved, as one may wait for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpucommons.gpu.parking.driver import Code, Driver, DriverRefused, State


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """What became of a park that went well."""

    #: Those whose memory is on the host.
    parked: tuple[int, ...]
    #: Those of them whose memory was not there before.
    now: tuple[int, ...]


def known(driver: Driver, pids: Iterable[int]) -> dict[int, State]:
    """Those of which the driver knows: others use no GPU, as what was forked from one that does."""
    found = {}
    for pid in pids:
        try:
            found[pid] = driver.state(pid)
        except DriverRefused as refused:
            if refused.code != Code.INVALID_VALUE:
                raise
    return found


def park(driver: Driver, pids: Iterable[int], timeout_ms: int) -> Moved:
    """Move the memory of all of them to the host, of those that have some.

    Raises
    ------
    DriverRefused
        When one cannot be parked. Those that ran run again then, as far as the driver lets them.
    """
    before = known(driver, pids)
    moved = tuple(pid for pid, state in before.items() if state != State.CHECKPOINTED)
    try:
        for pid in moved:
            if before[pid] != State.LOCKED:
                driver.lock(pid, timeout_ms)
        for pid in moved:
            driver.checkpoint(pid)
            _expect(driver, pid, State.CHECKPOINTED, "checkpoint")
    except DriverRefused:
        undo(driver, moved)
        raise
    return Moved(parked=tuple(before), now=moved)


def unpark(driver: Driver, pids: Iterable[int]) -> tuple[int, ...]:
    """Give all of them their memory back; answers which of them the driver knows.

    Raises
    ------
    DriverRefused
        The first refusal; the others have their memory by then.
    """
    found = known(driver, pids)
    refused: list[DriverRefused] = []
    for pid, state in found.items():
        try:
            if state == State.CHECKPOINTED:
                driver.restore(pid)
            if state in (State.CHECKPOINTED, State.LOCKED):
                driver.unlock(pid)
            _expect(driver, pid, State.RUNNING, "restore")
        except DriverRefused as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return tuple(found)


def undo(driver: Driver, pids: Sequence[int]) -> None:
    """Let them run again, whatever they are in the middle of."""
    for pid in pids:
        with suppress(DriverRefused):
            state = driver.state(pid)
            if state == State.CHECKPOINTED:
                driver.restore(pid)
            if state in (State.CHECKPOINTED, State.LOCKED):
                driver.unlock(pid)


def _expect(driver: Driver, pid: int, state: State, call: str) -> None:
    if driver.state(pid) != state:
        raise DriverRefused(call, Code.ILLEGAL_STATE)

"""Asks the driver, in a process of its own: ``errand.py park|unpark DRIVER MS GPUS PID…``.

GPUS (by commas, may be empty) are those that an unpark needs to see: a driver that finds one missing
may leave what it restores unusable.

It prints one line of JSON and waits for one byte that says that it was heard; else it takes back
what it did. Nobody kills it: a process whose memory is half moved may be lost.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

#: Of the machine's memory, left to everybody else.
_SPARE_MEMORY_BYTES = 256 << 20


def main(arguments: list[str]) -> int:
    """Do it and say it."""
    # The packages are not on the path of an isolated interpreter.
    sys.path.insert(0, str(Path(__file__).absolute().parents[3]))
    from gpucommons.gpu.parking import sequence  # noqa: PLC0415 - see above
    from gpucommons.gpu.parking.driver import Driver  # noqa: PLC0415 - see above

    what, library, timeout_ms, gpus, *numbers = arguments
    pids = [int(number) for number in numbers]
    driver: Driver | None = None
    undone: tuple[int, ...] = ()
    try:
        driver = Driver(Path(library))
        if what == "park":
            _check_room(driver)
            # Before anything is moved: a driver that refuses it leaves nothing to take back.
            seen = driver.gpus()
            moved = sequence.park(driver, pids, int(timeout_ms))
            undone = moved.now
            told: dict[str, Any] = {"pids": moved.parked, "gpus": seen}
        else:
            _check_gpus(driver, [each for each in gpus.split(",") if each])
            told = {"pids": sequence.unpark(driver, pids)}
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is told
        told = _refusal(error, driver, pids)
    if _was_heard(told):
        return 0
    if driver is not None:
        sequence.undo(driver, undone)
    return 1


def _check_gpus(driver: Any, wanted: list[str]) -> None:
    from gpucommons.gpu.parking import refusals  # noqa: PLC0415 - see above
    from gpucommons.gpu.parking.driver import CannotPark  # noqa: PLC0415 - see above

    here = driver.gpus() if wanted else ()
    if not set(wanted) <= set(here):
        raise CannotPark(refusals.another_gpu(wanted, here))


def _check_room(driver: Any) -> None:
    """Whoever runs out of memory in the middle is killed, with all that it holds."""
    from gpucommons.gpu.parking import processes, refusals  # noqa: PLC0415 - see above
    from gpucommons.gpu.parking.driver import CannotPark  # noqa: PLC0415 - see above

    free = processes.free_bytes()
    needed = driver.held_bytes_at_most() + _SPARE_MEMORY_BYTES
    if free is not None and free < needed:
        raise CannotPark(refusals.no_room(needed, free))


def _refusal(error: Exception, driver: Any, pids: list[int]) -> dict[str, Any]:
    call = getattr(error, "call", "")
    told = {"call": call, "code": getattr(error, "code", 0), "text": "" if call else str(error)}
    return told | {"states": {} if driver is None else _states(driver, pids)}


def _states(driver: Any, pids: list[int]) -> dict[str, int]:
    found = {}
    for pid in pids:
        try:
            found[str(pid)] = int(driver.state(pid))
        except Exception:  # noqa: BLE001, S112 - nothing is known of it, and that is no news
            continue
    return found


def _was_heard(told: dict[str, Any]) -> bool:
    try:
        os.write(1, json.dumps(told).encode() + b"\n")
        return bool(os.read(0, 1))
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

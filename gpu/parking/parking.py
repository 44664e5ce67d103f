"""Parks and unparks processes, seen from outside: an answer or a sentence, within a time.

A parked process goes back to the device that it came from. Drivers from r580 on can move it to
another card of the same kind, but only where it sees every card of the machine; a slice sees its own.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.gpu.parking import processes, refusals
from gpucommons.gpu.parking.driver import Code, State

ERRAND = Path(__file__).absolute().with_name("errand.py")
#: What it was given to do on the GPU has so long to end.
LOCK_S = 10.0
#: Far above any copy: a driver that is interrupted may cost the process.
PATIENCE_S = 600.0
#: What leads to the slice's interposer or to other people's code: the errand wants the driver itself.
_NOT_HANDED_ON = ("LD_LIBRARY_PATH", "LD_PRELOAD")


#: Errands that nobody waits for, until they have ended.
_left: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, kw_only=True, slots=True)
class Parked:
    """Their memory is on the host, and they hold no GPU."""

    pids: tuple[int, ...]
    #: Those that could be seen: it comes back where all of them can.
    gpus: tuple[str, ...]
    seconds: float
    #: What the machine's own memory grew by.
    host_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Unparked:
    """They have their GPU memory again, and go on."""

    pids: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NotParked:
    """It could not be done."""

    because: str
    #: They hold no GPU memory, so nothing had to be done.
    holds_nothing: bool = False
    #: Nothing of it is lost: what was not parked goes on, what stays parked can be unparked later.
    usable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long may be waited for whom."""

    lock_s: float = LOCK_S
    answer_s: float = PATIENCE_S


def park(
    driver: Path | None, pids: Sequence[int], *, patience: Patience | None = None
) -> Parked | NotParked:
    """Move the GPU memory of these processes to the host.

    Where it cannot be done they go on as before, unless the answer says that they are not usable. The
    driver is not interrupted: when ``patience`` is over it finishes, and lets them run again.
    """
    patience = patience or Patience()
    with_driver = processes.with_driver(pids)
    if not with_driver:
        return NotParked(because=refusals.NO_GPU_MEMORY, holds_nothing=True)
    problem = _in_the_way(driver, with_driver)
    if problem is not None:
        return problem
    before = processes.resident_bytes(with_driver)
    told = _ask(["park", str(driver)], with_driver, patience)
    if isinstance(told, NotParked):
        return told
    answer, seconds = told
    done = tuple(answer["pids"])
    if not done:
        return NotParked(because=refusals.NO_GPU_MEMORY, holds_nothing=True)
    grown = max(0, processes.resident_bytes(with_driver) - before)
    return Parked(pids=done, gpus=tuple(answer["gpus"]), seconds=seconds, host_bytes=grown)


def unpark(
    driver: Path | None,
    pids: Sequence[int],
    *,
    gpus: Sequence[str] = (),
    patience: Patience | None = None,
) -> Unparked | NotParked:
    """Give parked processes their GPU memory back, on the device where it was.

    Where one of ``gpus`` cannot be seen it is not begun, and they stay parked. The device must have room for it: the driver gives a process that found none no second try.
    """
    patience = patience or Patience()
    problem = _in_the_way(driver, pids)
    if problem is not None:
        return problem
    told = _ask(["unpark", str(driver)], pids, patience, gpus)
    if isinstance(told, NotParked):
        return told
    return Unparked(pids=tuple(told[0]["pids"]), seconds=told[1])


def _in_the_way(driver: Path | None, pids: Sequence[int]) -> NotParked | None:
    if driver is None:
        return NotParked(because=refusals.NO_DRIVER)
    if processes.of_others(pids):
        return NotParked(because=refusals.OF_ANOTHER_USER)
    return None


def _ask(
    order: Sequence[str], pids: Sequence[int], patience: Patience, gpus: Sequence[str] = ()
) -> tuple[dict[str, Any], float] | NotParked:
    started = time.monotonic()
    _left[:] = [process for process in _left if process.poll() is None]
    seen = processes.circumstances(pids)
    lock_ms = max(1, int(patience.lock_s * 1000))
    # Isolated and without site: nothing of the user's is loaded beside the driver.
    own = [sys.executable, "-I", "-S", str(ERRAND)]
    process = subprocess.Popen(
        [*own, *order, str(lock_ms), ",".join(gpus), *map(str, pids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name not in _NOT_HANDED_ON},
        start_new_session=True,  # what is sent to our group must not interrupt the driver
    )
    told = _heard(process, patience.answer_s)
    if told is None:
        return NotParked(because=refusals.of_patience(patience.answer_s))
    if not told:
        return NotParked(because=refusals.of_crash(-process.returncode), usable=False)
    answer: dict[str, Any] = json.loads(told)
    if "pids" in answer:
        return answer, time.monotonic() - started
    return _refused(order[0], answer, seen, patience.lock_s)


def _heard(process: subprocess.Popen[bytes], patience_s: float) -> bytes | None:
    """What it says; empty when it ended without a word, None when it takes too long.

    It is told that it was heard: else it takes back what it did, also when this process was killed.
    """
    wishes, answers = process.stdin, process.stdout
    assert wishes is not None and answers is not None  # noqa: S101, PT018 - for the type checker
    said = None
    with answers, wishes, selectors.DefaultSelector() as selector:
        selector.register(answers, selectors.EVENT_READ)
        if selector.select(patience_s):
            said = answers.readline()
            if said:
                wishes.write(b".")
                wishes.flush()
    if said is None:
        _left.append(process)
    else:
        process.wait()
    return said


def _refused(
    what: str, answer: dict[str, Any], seen: processes.Circumstances, lock_s: float
) -> NotParked:
    call, code = answer["call"], answer["code"]
    left = set(answer["states"].values())
    if what == "park":
        usable = not left & {State.FAILED, State.LOCKED, State.CHECKPOINTED}
    else:
        had_no_room = call == "restore" and code in (Code.OUT_OF_MEMORY, Code.OPERATING_SYSTEM)
        usable = State.FAILED not in left and not had_no_room
    if not call:
        return NotParked(because=answer["text"], usable=usable)
    because = refusals.of_code(call, code, seen, lock_s=lock_s)
    return NotParked(because=because, usable=usable, holds_nothing=code == Code.INVALID_VALUE)

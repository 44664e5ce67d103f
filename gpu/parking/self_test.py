"""Whether this machine can park a process, found out by doing it.

Drivers of the same number differ by card, architecture and setting. So a small process takes a
little memory of the GPU, is parked and unparked, and must find there what it left.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from gpucommons.gpu.parking.parking import NotParked, Patience, park, unpark

_MIB = 1 << 20
_BALLAST_MIB = 64
PROGRAM = Path(__file__).absolute().with_name("small_program.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParkAbility:
    """What a machine can do with the GPU memory of live processes."""

    can_park: bool
    #: Why not; empty when it can.
    because: str = ""
    #: Measured with a small process; 0 when it cannot.
    park_mib_per_s: int = 0
    unpark_mib_per_s: int = 0


def self_test(
    driver: Path | None, timeout_s: float = 60, *, loaded: Path | None = None
) -> ParkAbility:
    """Park and unpark a small process on the GPU that is visible here.

    ``loaded`` is what programs load here in the driver's place: a slice's interposer.
    """
    if driver is None:
        return ParkAbility(can_park=False, because="There is no driver of NVIDIA here.")
    try:
        with small_program(loaded or driver, timeout_s) as program:
            return _try(program, driver, timeout_s)
    except OSError as error:
        because = f"The self-test could not run ({error.strerror})."
        return ParkAbility(can_park=False, because=because)


def _try(program: subprocess.Popen[str], driver: Path, timeout_s: float) -> ParkAbility:
    ready = line(program)
    if ready != "ready":
        return ParkAbility(can_park=False, because=ready or "The small process did not start.")
    patience = Patience(answer_s=timeout_s)
    parked = park(driver, [program.pid], patience=patience)
    if isinstance(parked, NotParked):
        return ParkAbility(can_park=False, because=parked.because)
    # It asks for its memory before it has it again: it must wait, and not fail.
    _ask_for_memory(program)
    unparked = unpark(driver, [program.pid], patience=patience)
    if isinstance(unparked, NotParked):
        return ParkAbility(can_park=False, because=unparked.because)
    if line(program) != "same":
        return ParkAbility(can_park=False, because="Its GPU memory came back with another content.")
    return ParkAbility(
        can_park=True,
        park_mib_per_s=_rate(parked.seconds),
        unpark_mib_per_s=_rate(unparked.seconds),
    )


def command(driver: Path, fifo: Path | None = None) -> list[str]:
    """What starts the small process."""
    more = [] if fifo is None else [str(fifo)]
    return [sys.executable, "-I", "-S", str(PROGRAM), str(driver), str(_BALLAST_MIB), *more]


def small_program(driver: Path, timeout_s: float) -> AbstractContextManager[subprocess.Popen[str]]:
    """A process that holds a little GPU memory, but not for longer than this."""
    return started(command(driver), timeout_s, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


@contextmanager
def started(
    words: list[str], timeout_s: float, *, stdin: int, stderr: int, handed: Collection[int] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run it, but not for longer: a process that hangs is an answer too. It gets ``handed``, too."""
    with subprocess.Popen(
        words, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True, pass_fds=handed
    ) as program:
        watchdog = Timer(timeout_s, program.kill)
        watchdog.start()
        try:
            yield program
        finally:
            watchdog.cancel()
            program.kill()


def line(program: subprocess.Popen[str]) -> str:
    """What it says next; empty when it has ended."""
    assert program.stdout is not None  # noqa: S101 - for the type checker
    return program.stdout.readline().strip()


def _ask_for_memory(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None  # noqa: S101 - for the type checker
    program.stdin.write("\n")
    program.stdin.flush()


def _rate(seconds: float) -> int:
    return max(1, int(_BALLAST_MIB / max(seconds, 0.001)))

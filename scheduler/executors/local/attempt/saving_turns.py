"""Who may save processes when, and how much: those who are stopped at once share one disk.

Each says how long its saving takes, by its memory and the disk's measured rate, and until when it
must be over. It gets the time behind those who came before it, or none: then it asks again, as others
need less than they said, until it could not be done in time any more. What each save has taught of the
disk's speed lies beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucommons.scheduler.executors.local import saving_speed
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, read_json
from gpucommons.scheduler.executors.local.saving_speed import SavingSpeed
from gpucommons.scheduler.working_folder.own_image import NAME
from gpucommons.scheduler.working_folder.reported_image import image_facts

#: Beside the attempts' folders, and beside that what saves have taught.
TURNS, _SPEED = "saving-turns", "saving-speed.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A stretch of time in which one may write."""

    from_ms: int
    to_ms: int


def turn_for(busy_until_ms: int, *, now_ms: int, need_ms: int, by_ms: int) -> Turn | None:
    """The next turn of so long; None where it would not be over in time."""
    start = max(now_ms, busy_until_ms)
    return Turn(from_ms=start, to_ms=start + need_ms) if start + need_ms <= by_ms else None


def take_turn(path: Path, *, now_ms: int, need_ms: int, by_ms: int) -> Turn | None:
    """Have a turn on the disk whose bookkeeping lies in this file; None where there is none in time."""
    with _held(path) as descriptor:
        found = turn_for(
            _busy_until_ms(descriptor, by_ms), now_ms=now_ms, need_ms=need_ms, by_ms=by_ms
        )
        if found is not None:
            _write(descriptor, found.to_ms)
    return found


def give_back(path: Path, turn: Turn, *, now_ms: int) -> None:
    """It took less: whoever comes next need not wait, unless somebody stands behind it already."""
    with _held(path) as descriptor:
        if _busy_until_ms(descriptor, turn.to_ms) == turn.to_ms:
            _write(descriptor, min(turn.to_ms, now_ms))


def speed_of(path: Path, trial_mib_per_s: int) -> SavingSpeed:
    """How fast the disk of these turns is; a record that makes no sense has taught nothing."""
    with suppress(OSError, TypeError, ValueError):
        told = SavingSpeed(**(read_json(path.with_name(_SPEED)) or {}))
        if all(type(one) is int and one >= 0 for one in asdict(told).values()):
            return told
    return saving_speed.of_trial(trial_mib_per_s)


def note_save(  # noqa: PLR0913 - a save is these
    path: Path, trial_mib_per_s: int, *, memory_mib: int, took_ms: int, in_time: bool, now_ms: int
) -> None:
    """Learn from a save; without a known speed there is nothing to compare it with."""
    if trial_mib_per_s <= 0:
        return
    with alone(path):
        speed = saving_speed.after_save(
            speed_of(path, trial_mib_per_s),
            memory_mib=memory_mib,
            took_ms=took_ms,
            in_time=in_time,
            now_ms=now_ms,
        )
        _write_speed(path, speed)


def note_trial(path: Path, trial_mib_per_s: int) -> None:
    """A new trial is over; where no save has taught anything, nothing is written."""
    if trial_mib_per_s > 0 and path.with_name(_SPEED).exists():
        with alone(path):
            speed = saving_speed.after_trial(speed_of(path, trial_mib_per_s), trial_mib_per_s)
            _write_speed(path, speed)


def _write_speed(path: Path, speed: SavingSpeed) -> None:
    # Not waited for on a busy disk: what is lost with the machine is learnt again.
    beside = path.with_name(f"{_SPEED}.new")
    beside.write_text(json.dumps(asdict(speed)), encoding="utf-8")
    beside.replace(path.with_name(_SPEED))


def kept_bytes(root: Path, user: str) -> int:
    """How large the images are that a user's jobs have here, as their supervisors wrote it down."""
    found = 0
    for path in root.iterdir():
        folder = AttemptFolder(path)
        if os.path.lexists(folder.run / NAME):
            image = (read_json(folder.exit) or {}).get("image") or {}
            facts = image_facts(image) if image.get("user") == user else None
            found += 0 if facts is None else facts["size_bytes"]
    return found


def reserved_bytes(root: Path, user: str) -> int:
    """How large the images may become that a user's jobs save here now; asked by who is alone at it."""
    found = 0
    for path in root.iterdir():
        folder = AttemptFolder(path)
        with suppress(OSError, ValueError, KeyError):
            told = read_json(folder.saving) or {}
            if told.get("user") == user and not folder.exit.exists():
                found += int(told["bytes"])
    return found


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Nobody else looks meanwhile how much may be saved, or has a turn."""
    with _held(path):
        yield


@contextmanager
def _held(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _busy_until_ms(descriptor: int, usual: int) -> int:
    """As it is written there; what cannot be read counts as busy, so that nobody waits in vain."""
    text = os.pread(descriptor, 64, 0)
    if not text:
        return 0
    try:
        return int(json.loads(text))
    except (TypeError, ValueError):
        os.ftruncate(descriptor, 0)
        return usual


def _write(descriptor: int, until_ms: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(until_ms).encode(), 0)

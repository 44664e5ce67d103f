"""An image as CRIU is let read it where its capability counts on the whole machine.

CRIU gives a process the rights that the image names, as far as it has them itself, and the image lies
where its user can change it. So the files that name rights are copied to where the user cannot, and
looked at there. All others are read from where they lie: memory, files and numbers give no rights.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.files_image import (
    BYTES,
    MAGIC_BYTES,
    NUMBER,
    Field,
    encoded,
    fields,
    records,
)

#: One for each thread, of a few KB.
_WITH_RIGHTS = "core-"
#: How they begin, all of it compared: CRIU still reads its first format, which has the second half
#: alone, so what it reads would begin elsewhere than what was looked at.
_BEGINNING = struct.pack("<II", 0x54564319, 0x55053847)
_MOST_BYTES = 1 << 20
_MOST_FILES = 1 << 16
#: Numbers of fields: of a thread, of its credentials; in those its capabilities: what it hands on,
#: may use, has in use and is bound to, each in two halves, and what it hands on without being asked.
_THREAD, _CREDENTIALS = 5, 10
#: Of what tells of a process, and in that its state; this one has ended, and waits to be asked how.
_PROCESS, _STATE = 3, 1
_ENDED = 2
_HALVES = (9, 10, 11, 12)
_AMBIENT = 19
_LARGEST_KEY = 1 << 29


def fill(place: Path, image: Path) -> str | None:
    """Put the image in this folder; a sentence where it names a right.

    Raises
    ------
    OSError
        When it cannot be read, or does not fit.
    """
    names = sorted(entry.name for entry in os.scandir(image) if entry.name.endswith(".img"))
    if len(names) > _MOST_FILES:
        return refusals.WANTS_RIGHTS
    for name in names:
        if not name.startswith(_WITH_RIGHTS):
            (place / name).symlink_to(image.absolute() / name)
            continue
        content = _read(image / name)
        if content is None or not is_without_rights(content):
            return refusals.WANTS_RIGHTS
        (place / name).write_bytes(content)
    return None


def is_without_rights(content: bytes) -> bool:
    """Whether what is woken from this file has no capability; not of what is not understood.

    What CRIU would read otherwise than we do is no file that CRIU wrote.
    """
    try:
        # CRIU reads one record, and does not mind what follows.
        (record,) = records(content[MAGIC_BYTES:])
        return content == _BEGINNING + struct.pack("<I", len(record)) + record and (
            _is_record_without(record) or _has_ended(record)
        )
    except (IndexError, KeyError, ValueError, AssertionError, ArithmeticError, struct.error):
        return False


def _is_record_without(record: bytes) -> bool:
    found = [
        credentials
        for thread in _messages(record, _THREAD)
        for credentials in _messages(thread, _CREDENTIALS)
    ]
    return bool(found) and all(_are_without(credentials) for credentials in found)


def _has_ended(record: bytes) -> bool:
    """Whether it is of a process that has ended: it has no thread, and CRIU has it end at once.

    What ends so has CRIU's right until then, and runs nothing but CRIU.
    """
    told = _messages(record, _PROCESS)
    states = [each for one in told for each in _strictly(one) if each.number == _STATE]
    return (
        len(told) == len(states) == 1
        and (states[0].kind, states[0].value) == (NUMBER, _ENDED)
        and not _messages(record, _THREAD)
    )


def _are_without(credentials: bytes) -> bool:
    named = [each for each in _strictly(credentials) if each.number in (*_HALVES, _AMBIENT)]
    counts = [sum(each.number == number for each in named) for number in _HALVES]
    return counts == [2] * len(_HALVES) and all(
        each.kind == NUMBER and each.value == 0 for each in named
    )


def _messages(message: bytes, number: int) -> list[bytes]:
    found = [each for each in _strictly(message) if each.number == number]
    if any(each.kind != BYTES for each in found):
        raise ValueError(number)
    return [each.value for each in found if isinstance(each.value, bytes)]


def _strictly(message: bytes) -> list[Field]:
    """Its fields; whatever two readers could understand differently is none.

    So a length that leads beyond the message is none, which readers of 32 bits take for a short one.
    """
    found = list(fields(message))
    is_as_written = b"".join(map(encoded, found)) == message
    if not is_as_written or any(not 0 < each.number < _LARGEST_KEY for each in found):
        raise ValueError(message)
    return found


def _read(path: Path) -> bytes | None:
    """A file of the user's; None for what is no such file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as stream:  # noqa: PTH123 - a descriptor
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        content = stream.read(_MOST_BYTES + 1)
    return content if len(content) <= _MOST_BYTES else None

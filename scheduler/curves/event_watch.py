"""Reads TensorBoard's event files below a working folder and hands their scalars to the scheduler.

It runs beside a job's command, as the job's own user, on the machine where the files are; in a pod it
lies beside the worker's parent. So this file is one for any Python: only the standard library is
imported. It also leaves the attempt's token where trainers look for it that report by themselves. It follows no link, opens no pipe, and looks at a bounded number of entries and bytes at a
time, whatever a job puts there. SIGTERM makes it look once more and leave.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping

LOOK_S = 2.0
#: The name of the file with the token.
TOKEN_FILE = ".gpucommons-trainer-token"  # noqa: S105 - a name
#: The process without which this one has nothing to do.
PARENT = "GPUCOMMONS_PARENT"
#: When the attempt began, in seconds; left out: now.
SINCE = "GPUCOMMONS_WATCH_SINCE"
#: Of one look at the folder.
MAX_ENTRIES, MAX_DEPTH, MAX_FILES = 5_000, 6, 32
#: Read of all files per look; a record beyond the longest is no scalar and passed over.
MAX_BYTES, MAX_RECORD_BYTES = 1 << 20, 64 << 10
MAX_NAMES, MAX_POINTS = 16, 400
_MARK = "events.out.tfevents."
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages"})
#: Folders that name a data set: Keras writes the same tags below ``train`` and ``validation``.
_SETS = frozenset({"train", "validation", "val", "test", "eval"})
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_MOST = 2**53
_UNSAFE = str.maketrans(dict.fromkeys("()[]{}<>=,;'\"\\|@#%&*?!~^$+\t\r\n", " "))


# --- records and events ----------------------------------------------------------------------


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC = _crc_table()


def masked_crc(content: bytes) -> int:
    """CRC-32C as the record format has it: rotated, with a constant added."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class Damaged(Exception):
    """This is not, or no longer, a file of whole records."""


def records(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Whole records at the start of some bytes, each with where the next one begins.

    A record that is too long to hold scalars comes as an empty one.
    """
    at = 0
    while len(content) - at >= _HEADER.size:
        length, crc = _HEADER.unpack_from(content, at)
        if masked_crc(content[at : at + 8]) != crc:
            raise Damaged
        start = at + _HEADER.size
        end = start + length
        if length > _MOST:
            raise Damaged
        if length > MAX_RECORD_BYTES:
            at = end + _FOOTER.size
            yield b"", at
            continue
        if end + _FOOTER.size > len(content):
            return
        body = content[start:end]
        if masked_crc(body) != _FOOTER.unpack_from(content, end)[0]:
            raise Damaged
        at = end + _FOOTER.size
        yield body, at


def fields(message: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """The fields of a protobuf message: number, wire type, value."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == 2:  # noqa: PLR2004 - length-delimited
            length, at = _varint(message, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise Damaged
        if length > len(message) - at:
            raise Damaged
        yield number, wire, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return value, at
    raise Damaged


def scalars_of(event: bytes) -> tuple[float, int, dict[str, float]]:
    """When an event was written, its step, and its scalars that are numbers."""
    wall_s, step = 0.0, 0
    found: dict[str, float] = {}
    for number, _, value in fields(event):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:  # noqa: PLR2004 - a double
            wall_s = struct.unpack("<d", value)[0]
        elif number == 2 and isinstance(value, int):  # noqa: PLR2004 - Event.step
            step = value
        elif number == 5 and isinstance(value, bytes):  # noqa: PLR2004 - Event.summary
            for _, _, one in fields(value):
                if isinstance(one, bytes):
                    _add_scalar(one, found)
    return wall_s, step, found


def _add_scalar(message: bytes, found: dict[str, float]) -> None:
    tag, scalar = "", None
    for number, wire, value in fields(message):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode(errors="replace")
        elif number == 2 and wire == 5 and isinstance(value, bytes):  # noqa: PLR2004 - simple_value
            scalar = struct.unpack("<f", value)[0]
        elif number == 8 and isinstance(value, bytes):  # noqa: PLR2004 - tensor
            scalar = _tensor(value)
    if tag and scalar is not None and math.isfinite(scalar):
        found[tag] = scalar


def _tensor(message: bytes) -> float | None:
    """A tensor of one float or double; None for anything else."""
    kind, raw = 0, b""
    for number, wire, value in fields(message):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 6) and wire in (1, 2, 5) and isinstance(value, bytes):
            raw = value
    width = {1: ("<f", 4), 2: ("<d", 8)}.get(kind)
    if width is None or len(raw) != width[1]:
        return None
    return float(struct.unpack(width[0], raw)[0])


# --- files below a folder --------------------------------------------------------------------


def event_files(root: str) -> list[str]:
    """Event files below a folder, the ones that lie highest first; no link is followed."""
    found: list[str] = []
    looked_at, level = 0, [root]
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        looked_at += 1
                        if looked_at > MAX_ENTRIES or len(found) >= MAX_FILES:
                            return found
                        if _MARK in entry.name and entry.is_file(follow_symlinks=False):
                            found.append(entry.path)
                        elif _is_searched(entry):
                            below.append(entry.path)
            except OSError:
                continue
        level = sorted(below)
    return found


def _is_searched(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _PASSED_OVER:
        return False
    return entry.is_dir(follow_symlinks=False)


def read_from(path: str, offset: int, limit_bytes: int) -> bytes:
    """Some bytes of a regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged
        return os.pread(descriptor, limit_bytes, offset)
    finally:
        os.close(descriptor)


class Watch:
    """Knows up to where each file was read."""

    def __init__(self, root: str, *, since_s: float) -> None:
        self._root = root
        #: What was written before is of an earlier attempt, which told it itself.
        self._since_s = since_s
        self._offsets: dict[str, int | None] = {}
        self._names: set[str] = set()

    def look(self) -> list[dict[str, object]]:
        """Points of what was written since the last look, evenly thinned if there are many."""
        by_step: dict[int, dict[str, float]] = {}
        paths = event_files(self._root)
        limit_bytes = max(2 * MAX_RECORD_BYTES, MAX_BYTES // max(1, len(paths)))
        for path in paths:
            offset = self._offsets.setdefault(path, 0)
            if offset is not None:
                content = _content(path, offset, limit_bytes)
                self._offsets[path] = self._read(path, offset, content, by_step)
        steps = sorted(step for step, metrics in by_step.items() if metrics)
        stride = max(1, -(-len(steps) // MAX_POINTS))
        kept = dict.fromkeys([*steps[::stride], *steps[-1:]])
        return [{"step": step, "metrics": by_step[step]} for step in kept]

    def _read(
        self, path: str, offset: int, content: bytes | None, by_step: dict[int, dict[str, float]]
    ) -> int | None:
        """Where the next look at a file goes on; None where none will."""
        if content is None:
            return None
        prefix, read_to = _set_of(path), 0
        try:
            for body, read_to in records(content):  # noqa: B007 - where it ended counts
                self._take(body, prefix, by_step)
        except (Damaged, struct.error):
            return None
        return offset + read_to

    def _take(self, event: bytes, prefix: str, by_step: dict[int, dict[str, float]]) -> None:
        wall_s, step, found = scalars_of(event)
        if wall_s < self._since_s or not 0 <= step <= _MOST:
            return
        for tag, value in found.items():
            name = _name(prefix + tag)
            if name and (name in self._names or len(self._names) < MAX_NAMES):
                self._names.add(name)
                by_step.setdefault(step, {})[name] = value


def _content(path: str, offset: int, limit_bytes: int) -> bytes | None:
    """What follows in a file; None where it is no file to read."""
    try:
        return read_from(path, offset, limit_bytes)
    except Damaged:
        return None
    except (OSError, OverflowError):
        return b""


def _set_of(path: str) -> str:
    folder = path.split("/")[-2] if "/" in path else ""
    return f"{folder}/" if folder in _SETS else ""


def _name(tag: str) -> str:
    """What the scheduler takes as a metric's name."""
    text = "".join(c for c in tag.translate(_UNSAFE) if c.isalnum() or c in "_ .:/-")
    return " ".join(text.split())[:64].strip()


# --- telling the scheduler -------------------------------------------------------------------


def post(url: str, token: str, points: list[dict[str, object]]) -> bool:
    """Hand points over; False where nobody took them."""
    # Most jobs write no such file, and these take as much memory as all the rest.
    import urllib.error  # noqa: PLC0415 - see above
    import urllib.request  # noqa: PLC0415 - see above

    request = urllib.request.Request(  # noqa: S310 - the scheduler's own address
        f"{url.rstrip('/')}/v1/attempt/curve",
        data=json.dumps({"source": "tensorboard", "points": points}).encode(),
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        # Refused is refused: the same points would be again.
        return error.code < 500 and error.code != 429  # noqa: PLR2004
    except OSError:
        return False


def watch(environ: Mapping[str, str], wait: Callable[[float], bool]) -> None:
    """Watch the job's working folder; ``wait`` waits and says whether this look is the last."""
    url, token = environ["GPUCOMMONS_URL"], environ["GPUCOMMONS_TOKEN"]
    leave_token(environ.get("KUBEFLOW_TRAINER_SERVER_TOKEN", ""), token)
    folder = Watch(
        environ["GPUCOMMONS_WORK_DIR"], since_s=float(environ.get(SINCE) or time.time()) - 1
    )
    waiting: list[dict[str, object]] = []
    is_last = False
    while not is_last:
        is_last = wait(LOOK_S)
        waiting = [*waiting, *folder.look()][-MAX_POINTS:]
        if waiting and post(url, token, waiting):
            waiting = []


def leave_token(path: str, token: str) -> None:
    """Trainers that report by themselves read the attempt's token from a file."""
    if os.path.basename(path) != TOKEN_FILE:  # noqa: PTH119 - text alone
        return  # The job's own variable, and so its own affair.
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(token)


def main() -> int:
    """Watch until SIGTERM, or until whoever started this is gone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # Told, not looked up: whoever started this may be gone by now.
    parent = int(os.environ[PARENT])

    def wait(seconds: float) -> bool:
        told = signal.sigtimedwait({signal.SIGTERM}, seconds)
        return told is not None or os.getppid() != parent

    watch(os.environ, wait)
    return 0


if __name__ == "__main__":
    sys.exit(main())

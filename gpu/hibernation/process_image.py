"""An image on disk: what it is, and why it cannot be woken here.

CRIU waits a minute for a file that was cut, and wakes damaged memory without a word. So sizes and
checksums are compared before it runs, and so is whatever the processes had open.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import stat
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

from gpucommons.gpu.hibernation import folder as layout

#: Raised whenever an older reader would misunderstand what is written: it would wake what is parked
#: and leave it so.
_FORMAT, _FORMAT_PARKED = 1, 2
_CHUNK = 1 << 20
#: Read between two looks at whoever writes.
_AT_ONCE = 8 << 20
#: CRIU adds memory at the end of these, and changes nothing in them any more.
_GROWING = "pages-*.img"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFile:
    """A file of the image as it was written."""

    name: str
    bytes: int
    crc32: int
    #: Of the content that replaces it just now, as long as either may be there: both are right.
    next_bytes: int | None = None
    next_crc32: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenFile:
    """A file that the processes had open or mapped, as they left it."""

    path: str
    bytes: int
    #: None where the kernel may set it later: written through a shared mapping.
    changed_ns: int | None
    #: It may have grown: whoever has it open only appends.
    grows: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """What programs find out about a processor when they start, and rely on from then on."""

    architecture: str
    model: str
    features: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A saved process tree."""

    folder: Path
    #: On disk.
    bytes: int
    made_ms: int
    #: How long writing it took.
    seconds: float
    processes: tuple[int, ...]
    #: The first process of the tree, by the number it gets again.
    root_pid: int
    uid: int
    kernel_release: str
    cpu: Cpu
    #: Clocks of the saved machine, in nanoseconds, by their name in a time namespace.
    clocks_ns: Mapping[str, int]
    #: Pipes to the caller, by the descriptor of PID 1 they were inherited from.
    pipes: Mapping[int, str]
    files: tuple[ImageFile, ...]
    open_files: tuple[OpenFile, ...]
    #: Processes whose GPU memory is in the image, and the GPUs that it comes back to.
    parked: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()


def this_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> Cpu:
    """The processor of this machine."""
    text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    features = re.search(r"^(?:flags|Features)\s*: (.*)$", text, re.MULTILINE)
    return Cpu(
        architecture=platform.machine(),
        model=model[1].strip() if model else "an unnamed processor",
        features=tuple(sorted(features[1].split())) if features else (),
    )


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when a save may go on, by the monotonic clock."""

    at_s: float = math.inf

    def check(self) -> None:
        """Go on only as long as there is time.

        Raises
        ------
        TimeoutError
            When it is over.
        """
        if time.monotonic() > self.at_s:
            raise TimeoutError


NO_DEADLINE = Deadline()


def describe_files(folder: Path, deadline: Deadline = NO_DEADLINE) -> tuple[ImageFile, ...]:
    """Every file of an image, as it lies there.

    Raises
    ------
    TimeoutError
        When the time is over.
    """
    return Checksums(folder, deadline).describe()


class Checksums:
    """Of an image's files; of those that only grow, begun while they are written.

    Memory is written and read by two processors at once then, and a save takes little longer than
    writing does.
    """

    def __init__(self, folder: Path, deadline: Deadline = NO_DEADLINE) -> None:
        self._folder, self._deadline = folder, deadline
        #: By name: how much was read, and its checksum.
        self._known: dict[str, tuple[int, int]] = {}

    def advance(self) -> bool:
        """Go on with what was written of the memory since; whether there was anything."""
        found = [self._read(path, _AT_ONCE) for path in self._folder.glob(_GROWING)]
        return any(found)

    def describe(self) -> tuple[ImageFile, ...]:
        """Every file of the image, as it lies there.

        Raises
        ------
        TimeoutError
            When the time is over.
        """
        found = sorted(path for path in self._folder.iterdir() if path.suffix in (".img", ".tar"))
        for path in found:
            while self._read(path, _AT_ONCE):
                self._deadline.check()
        told = ((path.name, *self._known.get(path.name, (0, 0))) for path in found)
        return tuple(ImageFile(name=name, bytes=size, crc32=crc) for name, size, crc in told)

    def _read(self, path: Path, most: int) -> bool:
        at, crc = self._known.get(path.name, (0, 0))
        with path.open("rb", buffering=0) as stream:
            stream.seek(at)
            size, crc = _checksum(stream, crc, most)
        self._known[path.name] = (at + size, crc)
        return size > 0


def write(image: Image) -> None:
    """Write the description beside the files; with it the image is complete.

    Raises
    ------
    OSError
        When the disk refuses.
    """
    told = {**asdict(image), "format": _FORMAT_PARKED if image.parked else _FORMAT}
    del told["folder"]
    _write_whole(image.folder / layout.DESCRIPTION, json.dumps(told).encode())


def read(folder: Path) -> Image | None:
    """The image in this folder; None when there is none that could be understood."""
    try:
        told = json.loads((folder / layout.DESCRIPTION).read_text(encoding="utf-8"))
        return _parsed(folder, told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def hindrance(image: Image) -> str | None:
    """Why this image cannot be woken on this machine, now; None when nothing is known against it."""
    return (
        _foreign(image, os.geteuid())
        or lacking_here(image)
        or _damaged(image)
        or _changed(image.open_files)
    )


def lacking_here(image: Image) -> str | None:
    """What this machine lacks to wake the image, and the one that saved it had; None = nothing."""
    return _lacking(image, this_cpu(), platform.release())


def replace_file(image: Image, name: str, content: bytes) -> Image:
    """Replace one of its files on purpose: whoever is killed meanwhile leaves the old or the new image.

    Raises
    ------
    OSError
        When the disk refuses.
    """
    old = (image.folder / name).read_bytes()
    new = ImageFile(name=name, bytes=len(content), crc32=zlib.crc32(content))
    either = replace(
        new, bytes=len(old), crc32=zlib.crc32(old), next_bytes=new.bytes, next_crc32=new.crc32
    )
    write(_with_file(image, either))
    _write_whole(image.folder / name, content)
    fresh = _with_file(image, new)
    fresh = replace(fresh, bytes=sum(file.bytes for file in fresh.files))
    write(fresh)
    return fresh


def _with_file(image: Image, changed: ImageFile) -> Image:
    files = tuple(changed if file.name == changed.name else file for file in image.files)
    return replace(image, files=files)


def _write_whole(path: Path, content: bytes) -> None:
    """The old content or the new, also after the machine lost its power."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def _foreign(image: Image, uid: int) -> str | None:
    owner = image.folder.stat(follow_symlinks=False).st_uid
    if image.folder.is_symlink() or owner != uid or image.uid != uid:
        return "The image was saved by another user."
    return None


def _lacking(image: Image, cpu: Cpu, kernel_release: str) -> str | None:
    if image.cpu.architecture != cpu.architecture:
        return f"It was saved on {image.cpu.architecture}, and this machine is {cpu.architecture}."
    lacking = sorted(set(image.cpu.features) - set(cpu.features))
    if lacking:
        return (
            f"It was saved on another processor ({image.cpu.model}), which has "
            f"{', '.join(lacking[:3])}; this one ({cpu.model}) has not."
        )
    if _release(kernel_release) < _release(image.kernel_release):
        return (
            f"It was saved on a newer kernel ({image.kernel_release}) than this machine's "
            f"({kernel_release})."
        )
    return None


def _damaged(image: Image) -> str | None:
    for file in image.files:
        path = image.folder / file.name
        try:
            found = path.stat(follow_symlinks=False)
        except OSError:
            return f"The image is damaged: {file.name} is missing."
        if not stat.S_ISREG(found.st_mode):
            return f"The image is damaged: {file.name} is no file."
        size = found.st_size
        if size not in (file.bytes, file.next_bytes):
            return f"The image is damaged: {file.name} has {size} of {file.bytes} bytes."
    for file in image.files:
        # A pipe that is put there meanwhile is not waited for.
        path = image.folder / file.name
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as stream:  # noqa: PTH123 - a descriptor
            _, crc = _checksum(stream)
        if crc not in (file.crc32, file.next_crc32):
            return f"The image is damaged: the content of {file.name} changed."
    return None


def _changed(open_files: Iterable[OpenFile]) -> str | None:
    for file in open_files:
        try:
            found = Path(file.path).stat()
        except OSError:
            return f"{file.path} was open, and it is gone."
        if file.grows and found.st_size >= file.bytes:
            continue
        if found.st_size != file.bytes or file.changed_ns not in (None, found.st_mtime_ns):
            return f"{file.path} was open, and it changed since."
    return None


def _release(text: str) -> tuple[int, ...]:
    """The first two numbers of a kernel's release: within them its interfaces stay."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def _checksum(stream: FileIO, total: int = 0, most: float = math.inf) -> tuple[int, int]:
    """How much was read, and a checksum against damage.

    Whoever may write here can only harm themselves.
    """
    # One buffer: a new one for each piece costs as much as the checksum.
    buffer = memoryview(bytearray(_CHUNK))
    size = 0
    while size < most and (count := stream.readinto(buffer)):
        total = zlib.crc32(buffer[:count], total)
        size += count
    return size, total


def _parsed(folder: Path, told: dict[str, Any]) -> Image:
    if told.pop("format") not in (_FORMAT, _FORMAT_PARKED):
        message = "of another format"
        raise ValueError(message)
    cpu = told.pop("cpu")
    return Image(
        folder=folder,
        bytes=int(told["bytes"]),
        made_ms=int(told["made_ms"]),
        seconds=float(told["seconds"]),
        processes=tuple(int(pid) for pid in told["processes"]),
        root_pid=int(told["root_pid"]),
        uid=int(told["uid"]),
        kernel_release=str(told["kernel_release"]),
        cpu=Cpu(
            architecture=cpu["architecture"], model=cpu["model"], features=tuple(cpu["features"])
        ),
        clocks_ns={name: int(value) for name, value in told["clocks_ns"].items()},
        pipes={int(number): _pipe(number, pipe) for number, pipe in told["pipes"].items()},
        files=tuple(ImageFile(**file) for file in told["files"]),
        open_files=tuple(OpenFile(**file) for file in told["open_files"]),
        parked=tuple(int(pid) for pid in told.get("parked", ())),
        gpus=tuple(str(gpu) for gpu in told.get("gpus", ())),
    )


def _pipe(number: str, name: str) -> str:
    """A pipe of the caller's: what wakes is handed no other descriptor of PID 1's than its outputs.

    Raises
    ------
    ValueError
        For anything else.
    """
    if number not in ("1", "2") or not re.fullmatch(r"pipe:\[\d{1,20}\]", name):
        message = "no output of the caller's"
        raise ValueError(message)
    return name

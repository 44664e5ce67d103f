"""Where stored variables lie: a folder for each kernel, below the user's own state folder.

Folders and files are this account's alone and no link is followed, for loading them runs code. What
another user of the hub stored under the same account is not shown either.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpucommons.labextension.variables.inside import INDEX, NotKept, open_own, opened

ABOUT = "about.json"
#: No index is larger: it names variables and says why some could not be stored.
_MOST_INDEX_BYTES = 4 << 20
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: A stop takes seconds: what is not whole after so long never will be.
_HALF_AFTER_MS = 3600_000
_BELOW = ("gpucommons", "variables")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A variable that could not be stored, or loaded, and why."""

    name: str
    because: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredVariables:
    """What is stored of one kernel."""

    #: Of the kernel; its folder has this name.
    kernel_id: str
    #: Whose server it was, and which.
    owner: str
    server_name: str
    #: The notebook that it belonged to; empty where there was none.
    path: str
    kept: tuple[str, ...]
    lost: tuple[Lost, ...]
    size_bytes: int
    made_ms: int
    until_ms: int
    #: When it was loaded last.
    loaded_ms: int | None = None


class Folders:
    """The stored variables of one user of the hub."""

    def __init__(self, state: Path, *, owner: str) -> None:
        """Nothing is made yet."""
        self._state, self._owner = state, owner
        self.root = state.joinpath(*_BELOW)

    def make(self, kernel_id: str) -> Path:
        """An empty folder for a kernel, of this account alone.

        Raises
        ------
        NotKept
            Where the folders above it are somebody else's, or links.
        """
        try:
            self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
            above = os.open(self._state, os.O_RDONLY | os.O_DIRECTORY)
            for part in _BELOW:
                above = _step(above, part)
            try:
                self.remove(kernel_id)
                os.mkdir(kernel_id, 0o700, dir_fd=above)
            finally:
                os.close(above)
        except OSError as error:
            message = f"no folder for them could be made ({error.strerror})"
            raise NotKept(message) from error
        return self.root / kernel_id

    def finish(self, about: StoredVariables) -> None:
        """Put on record what a folder holds; what was stored of the same notebook before goes."""
        _write(self.root / about.kernel_id, about)
        for old in self.listed():
            same = (old.server_name, old.path) == (about.server_name, about.path)
            if about.path and same and old.kernel_id != about.kernel_id:
                self.remove(old.kernel_id)

    def listed(self) -> list[StoredVariables]:
        """This user's, newest first; what is none of theirs, or not whole, is passed over."""
        found = (self._about(name) for name in self._names())
        mine = (one for one in found if one is not None and one.owner == self._owner)
        return sorted(mine, key=lambda one: one.made_ms, reverse=True)

    def count(self, kernel_id: str) -> int:
        """How many variables are stored of a kernel."""
        stored = self.one(kernel_id)
        return 0 if stored is None else len(stored.kept)

    def one(self, kernel_id: str) -> StoredVariables | None:
        """One of this user's."""
        return next((one for one in self.listed() if one.kernel_id == kernel_id), None)

    def mark_loaded(self, about: StoredVariables, now_ms: int) -> None:
        """It need not be offered again."""
        _write(self.root / about.kernel_id, replace(about, loaded_ms=now_ms))

    def remove(self, kernel_id: str) -> None:
        """Remove what is stored of a kernel."""
        if _ID.fullmatch(kernel_id):
            shutil.rmtree(self.root / kernel_id, ignore_errors=True)

    def remove_old(self, now_ms: int) -> None:
        """Remove what was promised until a time that has come, and what a killed server left half."""
        known = {one.kernel_id: one for one in self.listed()}
        for name in self._names():
            over = name in known and known[name].until_ms <= now_ms
            if over or self._is_left_half(name, now_ms):
                self.remove(name)

    def size_bytes(self) -> int:
        """How much is stored."""
        return sum(one.size_bytes for one in self.listed())

    def _names(self) -> list[str]:
        with suppress(OSError):
            return [one.name for one in self.root.iterdir() if _ID.fullmatch(one.name)]
        return []

    def _is_left_half(self, name: str, now_ms: int) -> bool:
        """Another server of the same user may be writing it just now."""
        folder = self.root / name
        with suppress(OSError):
            return (
                not (folder / ABOUT).exists()
                and folder.stat().st_mtime * 1000 < now_ms - _HALF_AFTER_MS
            )
        return False

    def _about(self, kernel_id: str) -> StoredVariables | None:
        try:
            about = _ABOUT.validate_python(read_json(self.root / kernel_id, ABOUT))
        except (OSError, NotKept, ValueError, ValidationError, RecursionError):
            return None
        return about if about.kernel_id == kernel_id else None


_ABOUT = TypeAdapter(StoredVariables)


def read_json(folder: Path, name: str) -> Any:
    """A small file of a folder that is this account's alone."""
    return json.loads(_read(folder, name))


def read_index(folder: Path) -> list[dict[str, Any]]:
    """The lines that a kernel wrote; one that is cut off was not written."""
    lines = []
    for line in _read(folder, INDEX).splitlines():
        with suppress(ValueError):
            lines.append(json.loads(line))
    return [line for line in lines if isinstance(line, dict)]


def _read(folder: Path, name: str) -> bytes:
    place = open_own(str(folder))
    try:
        with opened(place, name) as file:
            content: bytes = file.read(_MOST_INDEX_BYTES)
            return content
    finally:
        os.close(place)


def _write(folder: Path, about: StoredVariables) -> None:
    """Written beside it and renamed: it is there as a whole or not at all."""
    place = open_own(str(folder))
    try:
        part = f"{ABOUT}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o600, dir_fd=place), "w") as file:
            json.dump(asdict(about), file)
        os.rename(part, ABOUT, src_dir_fd=place, dst_dir_fd=place)
    finally:
        os.close(place)


def _step(above: int, part: str) -> int:
    """Open (and make) the folder below, and close the one above."""
    try:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=above)
        below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)
    found = os.fstat(below)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        os.close(below)
        message = f"the folder {part} is not this account's alone"
        raise NotKept(message)
    return below

"""What runs inside a kernel: store its variables, or load what was stored.

The text of this file is sent to the kernel, whose Python may be another environment's: only the
standard library is imported, and dill, of which the server lends its own copy where the kernel has none.
Each variable is a file of its own, so that one which cannot be stored or loaded costs no other. Classes
and functions that were written in the notebook come first: dill binds them to the notebook's own
names, and plain pickle, which is fast, then finds them there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import pickle
import stat
import sys
import time
import types
from pathlib import Path
from typing import Any

INDEX, LOADED = "index.jsonl", "loaded.json"
#: Of an error's own words.
_MOST_WORDS = 200
_PROTOCOL = 5


class NotKept(Exception):
    """Why a variable cannot be stored or loaded."""


class Late(NotKept):
    """The time is over: nothing more is tried."""


class Bounded:
    """A file that takes so many bytes, until then."""

    def __init__(self, file: Any, left: int, deadline_s: float) -> None:
        """``deadline_s`` is a time of :func:`time.monotonic`."""
        self._file, self._left, self._deadline_s = file, left, deadline_s
        self.written = 0

    def write(self, data: Any) -> int:
        """Refuse what is too much or too late."""
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        if time.monotonic() > self._deadline_s:
            raise Late("there was no time left")
        if self.written + length > self._left:
            raise NotKept("it is larger than the room that is left")
        self._file.write(data)
        self.written += length
        return length


def lend_dill(folder: str) -> Any:
    """Import dill, the kernel's own or the server's."""
    try:
        import dill  # noqa: PLC0415 - only where there is one
    except ImportError:
        spec = importlib.util.spec_from_file_location(
            "dill", Path(folder) / "__init__.py", submodule_search_locations=[folder]
        )
        if spec is None or spec.loader is None:
            raise
        dill = importlib.util.module_from_spec(spec)
        sys.modules["dill"] = dill
        spec.loader.exec_module(dill)
    return dill


# --- what there is ---------------------------------------------------------------------------


def variables_of(shell: Any) -> dict[str, Any]:
    """What ``%who`` would list."""
    hidden, nothing = shell.user_ns_hidden, object()
    return {
        name: value
        for name, value in shell.user_ns.items()
        if isinstance(name, str)
        and not name.startswith("_")
        and hidden.get(name, nothing) is not value
    }


def kind_of(value: Any) -> str:
    """``import`` (lies elsewhere), ``definition`` (was written in the notebook) or ``data``."""
    # By its type: isinstance also asks the value's own __class__, which may raise.
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return "import"
    if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType)):
        own = getattr(value, "__module__", None) == "__main__"
        return "definition" if own else "import"
    return "data"


def in_order(variables: dict[str, Any]) -> list[tuple[str, list[str], Any]]:
    """Definitions, imports, then data from small to large; two names of one object are one."""
    by_object: dict[int, tuple[str, list[str], Any]] = {}
    for name, value in variables.items():
        by_object.setdefault(id(value), (kind_of(value), [], value))[1].append(name)
    ranks = {"import": 0, "definition": 1, "data": 2}
    return sorted(by_object.values(), key=lambda one: (ranks[one[0]], _roughly(one[2])))


def _roughly(value: Any) -> int:
    try:
        return sys.getsizeof(value)
    except BaseException:  # noqa: BLE001 - whatever a user's class does
        return 0


# --- storing ---------------------------------------------------------------------------------


def keep(shell: Any, folder: str, *, dill_at: str, most_bytes: int, seconds: float) -> None:
    """Store all that can be, and write down at once what was, and what was not and why."""
    deadline_s = time.monotonic() + seconds
    place = open_own(folder)
    try:
        with _created(place, INDEX) as index:
            found = in_order(variables_of(shell))
            named = [(kind, names) for kind, names, _ in found]
            _say(index, {"python": list(sys.version_info[:2]), "found": named})
            dill = lend_dill(dill_at)
            left = most_bytes
            for number, (kind, names, value) in enumerate(found):
                file = f"{number:05d}"
                try:
                    size, how = _store(place, file, value, kind, dill, left, deadline_s)
                except Late:
                    break
                except BaseException as error:  # noqa: BLE001 - whatever a user's class does
                    if isinstance(error, KeyboardInterrupt):
                        break
                    _say(index, {"names": names, "kind": kind, "because": in_words(error)})
                else:
                    left -= size
                    line = {"names": names, "kind": kind, "file": file, "bytes": size, "how": how}
                    _say(index, line)
    finally:
        os.close(place)


def _store(  # noqa: PLR0913, PLR0917 - what, where, with what and within which bounds
    place: int, file: str, value: Any, kind: str, dill: Any, left: int, deadline_s: float
) -> tuple[int, str]:
    ways = ("dill",) if kind == "definition" else ("pickle", "dill")
    for how in ways:
        try:
            with _created(place, file) as stored:
                bounded = Bounded(stored, left, deadline_s)
                _dump(value, bounded, how, dill, by_value=kind == "definition")
        except BaseException as error:
            os.unlink(file, dir_fd=place)
            if how == ways[-1] or isinstance(error, (NotKept, MemoryError, KeyboardInterrupt)):
                raise
        else:
            return bounded.written, how
    raise AssertionError


def _dump(value: Any, file: Any, how: str, dill: Any, *, by_value: bool) -> None:
    if how == "pickle":
        pickle.dump(value, file, protocol=_PROTOCOL)
        return

    class Pickler(dill.Pickler):  # type: ignore[misc] # dill has no types
        def save(self, obj: Any, *args: Any, **kwargs: Any) -> None:
            # dill would open it again when it is loaded, and might empty it.
            if isinstance(obj, io.IOBase) and not isinstance(obj, (io.BytesIO, io.StringIO)):
                raise NotKept("it holds an open file")
            super().save(obj, *args, **kwargs)

    Pickler(file, protocol=_PROTOCOL, byref=not by_value, recurse=False).dump(value)


def _say(index: Any, line: dict[str, Any]) -> None:
    """Each line reaches the file at once: the next variable may never end."""
    index.write((json.dumps(line) + "\n").encode())
    index.flush()


# --- loading ---------------------------------------------------------------------------------


def load(shell: Any, folder: str, *, dill_at: str) -> None:
    """Load what the kernel has no name for yet, and write down what became of each."""
    place = open_own(folder)
    loaded: list[str] = []
    failed: list[dict[str, str]] = []
    try:
        with opened(place, INDEX) as index:
            lines = [json.loads(line) for line in index.read().splitlines()]
        made = tuple(lines[0]["python"])
        _check_python(made, sys.version_info[:2])
        dill = lend_dill(dill_at)
        for line in lines[1:]:
            if "file" in line:
                _load_one(shell, place, line, dill, loaded, failed)
        answer: dict[str, Any] = {"loaded": loaded, "failed": failed}
    except Exception as error:  # noqa: BLE001 - told to who pressed the button
        answer = {"loaded": loaded, "failed": failed, "because": in_words(error)}
    try:
        _leave(place, LOADED)
        with _created(place, LOADED) as told:
            told.write(json.dumps(answer).encode())
    finally:
        os.close(place)


def _check_python(made: tuple[int, ...], here: tuple[int, ...]) -> None:
    """The code of functions is another in each version: a wrong one may end the kernel."""
    if made != here:
        versions = [".".join(str(part) for part in one) for one in (made, here)]
        message = (
            f"they were stored by Python {versions[0]}, and this kernel is Python {versions[1]}"
        )
        raise NotKept(message)


def _load_one(  # noqa: PLR0913, PLR0917 - what, from where, and both lists of what became of it
    shell: Any,
    place: int,
    line: dict[str, Any],
    dill: Any,
    loaded: list[str],
    failed: list[dict[str, str]],
) -> None:
    known = variables_of(shell)
    wanted = [name for name in line["names"] if name not in known]
    counted = line["kind"] != "import"
    if counted:
        why = "this kernel has a variable of that name"
        failed.extend({"name": n, "because": why} for n in line["names"] if n in known)
    if not wanted:
        return
    try:
        with opened(place, line["file"], size=line["bytes"]) as file:
            value = (dill if line["how"] == "dill" else pickle).load(file)
    except BaseException as error:  # noqa: BLE001 - whatever a user's class does
        if isinstance(error, KeyboardInterrupt):
            raise NotKept("it was interrupted") from None
        if counted:
            failed.extend({"name": name, "because": in_words(error)} for name in wanted)
        return
    shell.user_ns.update(dict.fromkeys(wanted, value))
    loaded.extend(wanted if counted else ())


# --- files -----------------------------------------------------------------------------------


def open_own(folder: str) -> int:
    """Open a folder that nobody but this account may look into."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    found = os.fstat(place)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(place)
        raise NotKept("the folder for them is not this account's alone")
    return place


def opened(place: int, name: str, *, size: int | None = None) -> Any:
    """Open a file of this account's own for reading: no link, nobody else's, nothing others may write."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    found = os.fstat(descriptor)
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if not own or found.st_mode & 0o077:
        os.close(descriptor)
        raise NotKept("its file is not this account's alone")
    if size is not None and found.st_size != size:
        os.close(descriptor)
        raise NotKept("its file is damaged")
    return os.fdopen(descriptor, "rb")


def _created(place: int, name: str) -> Any:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb")


def _leave(place: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)


def in_words(error: BaseException) -> str:
    """The error in one line that can be shown anywhere."""
    if isinstance(error, FileNotFoundError):
        return "its file is gone"
    if isinstance(error, OSError) and error.errno in (28, 122):
        return "the disk is full"
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - whatever a user's class does
        words = ""
    words = "".join(c for c in words if c.isprintable())[:_MOST_WORDS]
    if isinstance(error, NotKept):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__

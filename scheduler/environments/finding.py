"""The environments that a user has: kernels, conda's list, and virtual environments of the home."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucommons.scheduler.environments.reading import (
    Environment,
    NoEnvironment,
    read_environment,
    read_small,
)

#: Virtual environments lie at most so many folders below the home…
MAX_DEPTH = 4
#: …and are looked for in so many folders.
MAX_FOLDERS = 4_000
#: A form offers no more.
MAX_FOUND = 100
_PYTHON = re.compile(r"^python[0-9.]*$")
#: Hidden folders in which tools keep environments.
_LOOKED_INTO = frozenset({".venv", ".env", ".virtualenvs", ".pyenv", ".local"})
_PASSED_BY = frozenset({"node_modules", "__pycache__", "site-packages"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Grounds:
    """Where environments are looked for."""

    home: Path
    #: Folders with kernels; each kernel in a folder of its own.
    kernels: Sequence[Path] = ()
    #: The environment that jobs have without one: it is named by "".
    own: str = ""


def grounds_of(home: Path) -> Grounds:
    """The usual places."""
    kernels = ("share", "jupyter", "kernels")
    return Grounds(
        home=home,
        kernels=(
            home.joinpath(".local", *kernels),
            Path(sys.prefix, *kernels),
            Path("/usr/local", *kernels),
            Path("/usr", *kernels),
        ),
        own=os.path.realpath(sys.prefix),
    )


def find(grounds: Grounds) -> list[Environment]:
    """All of them, each once: kernels first, under the names that notebooks show."""
    found: dict[str, Environment] = {}
    for path, name in _places(grounds):
        try:
            environment = read_environment(path, name=name)
        except NoEnvironment:
            continue
        if environment.path != grounds.own and len(found) < MAX_FOUND:
            found.setdefault(environment.path, environment)
    return list(found.values())


def resolve(asked: str, grounds: Grounds) -> Environment | None:
    """The environment that a name or path means; None for the one that jobs have without.

    Raises
    ------
    NoEnvironment
        When there is none, or several have this name.
    """
    if asked.startswith("~/"):
        asked = str(grounds.home / asked[2:])
    if asked == "":
        return None
    if "/" in asked:
        if not asked.startswith("/"):
            message = f"{asked} is a path from an unknown folder: begin it with / or ~/."
            raise NoEnvironment(message)
        chosen = read_environment(asked)
    else:
        chosen = _named(asked, grounds)
    return None if chosen.path == grounds.own else chosen


def _named(name: str, grounds: Grounds) -> Environment:
    known = find(grounds)
    kernels = {key: path for key, path in _kernel_names(grounds) if key == name}
    if kernels:
        return read_environment(kernels[name])
    meant = [one for one in known if name in (one.name, Path(one.path).name)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        message = f"{name} may be {' or '.join(one.path for one in meant)}: name one by its path."
        raise NoEnvironment(message)
    names = ", ".join(sorted({one.name for one in known})[:10]) or "none was found"
    message = f"There is no environment called {name}. Known: {names}. Others are named by path."
    raise NoEnvironment(message)


def _places(grounds: Grounds) -> Iterator[tuple[str, str]]:
    for kernel in _kernels(grounds):
        yield kernel.python, kernel.label
    for line in (
        read_small(grounds.home / ".conda" / "environments.txt")
        .decode(errors="replace")
        .splitlines()
    ):
        if line.startswith("/"):
            yield line.strip(), ""
    for path in _virtual(grounds.home):
        yield path, ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kernel:
    key: str
    label: str
    python: str


def _kernels(grounds: Grounds) -> Iterator[_Kernel]:
    for folder in grounds.kernels:
        try:
            names = sorted(kernel.name for kernel in folder.iterdir())
        except OSError:
            continue
        for key in names[:MAX_FOUND]:
            try:
                spec = json.loads(read_small(folder / key / "kernel.json"))
                python, label = str(spec["argv"][0]), str(spec.get("display_name") or key)
            except (RecursionError, ValueError, KeyError, IndexError, TypeError, AttributeError):
                continue
            if python.startswith("/") and _PYTHON.match(Path(python).name):
                yield _Kernel(key=key, label=label[:60], python=python)


def _kernel_names(grounds: Grounds) -> Iterator[tuple[str, str]]:
    for kernel in reversed(list(_kernels(grounds))):
        yield kernel.label, kernel.python
        yield kernel.key, kernel.python


def _virtual(home: Path) -> Iterator[str]:
    """Folders with a ``pyvenv.cfg``, the nearest first; no link is followed."""
    level, left = [str(home)], MAX_FOLDERS
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        for folder in level:
            left -= 1
            if left < 0:
                return
            for path in _folders(folder):
                if os.path.lexists(f"{path}/pyvenv.cfg"):
                    yield path
                else:
                    below.append(path)
        level = below


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and _is_looked_into(entry.name)
            )
    except OSError:
        return []


def _is_looked_into(name: str) -> bool:
    return name in _LOOKED_INTO or not (name.startswith(".") or name in _PASSED_BY)

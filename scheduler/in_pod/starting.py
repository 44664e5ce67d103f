"""How the workers of a gang differ, in one variable that all of them get: each takes its own part.

A Job has one pod template and an attempt one Secret, so what a launcher says of each worker is told to
all. What most of it has in common stands there once. Like :mod:`.worker` this runs in any image that
has Python.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

VARIABLE = "GPUCOMMONS_LAUNCH"


def written(commands: Sequence[Sequence[str]], env: Sequence[Mapping[str, str]]) -> str:
    """What :func:`read` reads, of the workers' commands and variables by rank."""
    names = sorted({name for one in env for name in one})
    columns = {name: _column([one.get(name) for one in env]) for name in names}
    commanded = _column([json.dumps(list(one)) for one in commands])
    return json.dumps({"env": columns, "command": commanded}, separators=(",", ":"))


def read(environ: MutableMapping[str, str], command: list[str]) -> list[str]:
    """Set this worker's variables; returns its command, which is ``command`` where nothing is told."""
    text = environ.pop(VARIABLE, None)
    if text is None:
        return command
    told, rank = json.loads(text), int(environ.get("GPUCOMMONS_RANK", "0"))
    for name, column in told["env"].items():
        value = _cell(column, rank)
        if value is not None:
            environ[name] = value
    return _with_ours(json.loads(_cell(told["command"], rank) or "[]")) or command


def _with_ours(command: list[str]) -> list[str]:
    """What joins workers lies beside this folder: the image need have nothing of ours."""
    if command[1:3] != ["-m", "gpucommons.scheduler.in_worker"]:
        return command
    folder = Path(__file__).resolve().parents[3].with_name("in_worker")
    return [sys.executable, str(folder), *command[3:]] if folder.is_dir() else command


def _column(values: Sequence[str | None]) -> Any:
    """Values by rank, with what they all begin with only once."""
    there = [value for value in values if value is not None]
    begin = os.path.commonprefix(there)  # noqa: RUF071 - of any texts, no paths
    rest = [None if value is None else value[len(begin) :] for value in values]
    return [begin, rest[0] if len(set(rest)) == 1 else rest]


def _cell(column: Any, rank: int) -> str | None:
    begin, rest = column
    own = rest[rank] if isinstance(rest, list) else rest
    return None if own is None else f"{begin}{own}"

"""A module that a script does not find although it is among the job's own files: run as a module, it does.

Python looks for modules in the folder of the script that it is given, not in the one above: so
``python examples/train.py`` does not find ``examples``, and ``python -m examples.train`` does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import PurePath

_MISSING = re.compile(r"No module named '(?P<name>\w+)[.\w]*'")
#: Where a job's files are, here and in a pod.
_WORK = "work"


def run_as_module(
    text: str, script: str, *, files: Collection[str] = (), taken_from: str = ""
) -> str | None:
    """Say how a missing module that is the job's own is found; None where it is not the job's own.

    A package that is missing is to be installed, one of the job's own files is not.

    Parameters
    ----------
    text
        What the script ended with, such as ``ModuleNotFoundError: No module named 'x'``.
    script
        Path of the script that ran, as its traceback has it.
    files
        Names of files and folders at the top of the job's files, as far as they are known.
    taken_from
        Name of the folder whose files the job has; "" = not known.
    """
    match = _MISSING.search(text)
    path = PurePath(script)
    if match is None or path.suffix != ".py" or _WORK not in path.parts:
        return None
    last = len(path.parts) - 1 - path.parts[::-1].index(_WORK)
    below = path.with_suffix("").parts[last + 1 :]
    missing = match["name"]
    parts = _from(missing, (taken_from, *below) if taken_from else below)
    own = {missing, f"{missing}.py"} & set(files)
    if parts is None and own and len(below) > 1:
        parts = below
    if parts is None or not all(part.isidentifier() for part in parts):
        return None
    module = ".".join(parts)
    return (
        f"{missing} is {'the script’s own folder' if missing in parts[:-1] else 'among the job’s own files'}:"
        f" run it as a module from the folder above {parts[0]} (gpucommons submit -m {module}; in a YAML"
        f" file there module: {module})"
    )


def _from(missing: str, parts: Sequence[str]) -> tuple[str, ...] | None:
    """The module's name from this folder on, the innermost of that name."""
    above = parts[:-1]
    if missing not in above:
        return None
    return tuple(parts[len(above) - 1 - list(above[::-1]).index(missing) :])

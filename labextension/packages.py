"""Which Python a notebook's kernel is, and how the packages of another one differ."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.scheduler.environments.reading import NoEnvironment, read_environment

MAX_DIFFERENCES = 200
_PYTHON = re.compile(r"^python[0-9.]*(\.exe)?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A package that is not the same on both sides; None = not there."""

    name: str
    here: str | None
    job: str | None


def environment_of(kernel_argv: list[str]) -> str | None:
    """The folder of a kernel's Python; None for other languages, or where it is none."""
    if not kernel_argv or not _PYTHON.match(Path(kernel_argv[0]).name):
        return None
    program = kernel_argv[0]
    # A bare name means the server's own, as for the kernel itself.
    folder = str(Path(program).parent.parent) if Path(program).is_absolute() else sys.prefix
    try:
        return read_environment(folder).path
    except NoEnvironment:
        return None


def differences(here: Mapping[str, str], job: Mapping[str, str]) -> list[Difference]:
    """What the notebook has and the job has not, or in another version; by name."""
    found = [
        Difference(name=name, here=version, job=job.get(name))
        for name, version in sorted(here.items())
        if job.get(name) != version
    ]
    return found[:MAX_DIFFERENCES]


def kernel_name_of(notebook: Path) -> str | None:
    """The kernel that a notebook names; None where it names none."""
    try:
        content: Any = json.loads(notebook.read_bytes())
        name = content["metadata"]["kernelspec"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None

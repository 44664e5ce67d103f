"""Which packages a notebook's kernel has, and how the job's environment differs.

Jobs run with the interpreter of GPU Commons unless told otherwise, which on one machine is the one
this server runs with. The kernel may be another one: then it is asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

#: Name of the lock file inside a snapshot.
LOCK_FILE = "gpucommons-packages.txt"
ASK_TIMEOUT_S = 20.0
MAX_DIFFERENCES = 200
_PYTHON = re.compile(r"^python[0-9.]*(\.exe)?$")
_ASK = """\
import json
from importlib import metadata
print(json.dumps({d.metadata["Name"]: d.version for d in metadata.distributions()}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A package that is not the same on both sides; None = not there."""

    name: str
    here: str | None
    job: str | None


def own_packages() -> dict[str, str]:
    """Packages of the interpreter that runs this."""
    return {d.metadata["Name"]: d.version for d in metadata.distributions() if d.metadata["Name"]}


async def packages_of(interpreter: str) -> dict[str, str] | None:
    """Packages of another interpreter; None where it does not say."""
    if interpreter == sys.executable:
        return await asyncio.to_thread(own_packages)
    process = None
    try:
        # Isolated: a module of the current folder must not run because somebody looked.
        process = await asyncio.create_subprocess_exec(
            interpreter, "-I", "-c", _ASK, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(ASK_TIMEOUT_S):
            output, _ = await process.communicate()
        answer = json.loads(output)
    except (OSError, TimeoutError, ValueError):
        return None
    finally:
        if process is not None and process.returncode is None:
            process.kill()
    return {str(name): str(version) for name, version in answer.items() if name}


def interpreter_of(kernel_argv: list[str]) -> str | None:
    """The Python of a kernel; None for kernels of other languages."""
    if not kernel_argv or not _PYTHON.match(Path(kernel_argv[0]).name):
        return None
    program = kernel_argv[0]
    # A bare name means the server's own, as for the kernel itself.
    return program if Path(program).is_absolute() else sys.executable


def differences(here: Mapping[str, str], job: Mapping[str, str]) -> list[Difference]:
    """What the notebook has and the job has not, or in another version; by name."""
    theirs = {_normal(name): version for name, version in job.items()}
    found = [
        Difference(name=name, here=version, job=theirs.get(_normal(name)))
        for name, version in sorted(here.items(), key=lambda item: item[0].lower())
        if theirs.get(_normal(name)) != version
    ]
    return found[:MAX_DIFFERENCES]


def lock_file(here: Mapping[str, str]) -> bytes:
    """The kernel's packages in the form that pip reads."""
    lines = sorted(f"{_normal(name)}=={version}" for name, version in here.items())
    return ("\n".join(lines) + "\n").encode()


def kernel_name_of(notebook: Path) -> str | None:
    """The kernel that a notebook names; None where it names none."""
    try:
        content: Any = json.loads(notebook.read_bytes())
        name = content["metadata"]["kernelspec"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None


def _normal(name: str) -> str:
    """Names are equal whatever their case and dashes (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()

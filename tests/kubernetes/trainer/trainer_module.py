"""Kubeflow Trainer's own sources, by name, version and hash: its CRDs, its runtimes, its words.

Read from Go's module cache, into which the ordinary client brings them; nothing of it is kept here.
"""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.fixtures import unavailable
from tests.kubernetes.toolchain.toolchain import ToolMissing, go_program

MODULE, HASH = (
    "github.com/kubeflow/trainer/v2@v2.0.0",
    "h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=",
)


def trainer() -> Path:
    """The folder of the module; a test that needs it is left out, in words, where it can't be had."""
    found = _downloaded()
    if isinstance(found, str):
        unavailable(found)
    assert isinstance(found, Path)
    return found


@cache
def _downloaded() -> Path | str:
    try:
        go = go_program()
        answer = subprocess.run(
            [go, "mod", "download", "-json", MODULE],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd="/",
        )
        told = json.loads(answer.stdout or "{}")
    except (ToolMissing, OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"{MODULE} cannot be had: {error}"
    if told.get("Sum") != HASH:
        return f"{MODULE} cannot be had: {told.get('Error') or 'it has another hash'}"
    return Path(told["Dir"])


def crds() -> Path:
    """Its CRDs."""
    return trainer() / "manifests/base/crds"


def runtime(name: str) -> dict[str, Any]:
    """One of its own runtimes, as it is shipped."""
    file = trainer() / f"manifests/base/runtimes/{name.replace('-', '_')}.yaml"
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found

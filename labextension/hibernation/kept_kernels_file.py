"""What is kept of a server's kernels, as a small file that others may read without Jupyter.

``kept.json`` lies in the server's folder below the user's state folder
(``$XDG_STATE_HOME/gpucommons/kernels/SERVER/``, else ``~/.local/state/…``)::

    {"kernels": [{"id": "…", "name": "python3", "path": "train.ipynb",
                  "bytes": 123456, "kept_until_ms": 1800000000000}]}

It is written when the server has saved its kernels, and again when it has woken them. A server that
was killed could not write: then it says what was kept before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucommons.gpu.linux.state_home import state_home
from gpucommons.labextension.private_files import write_private

FILE = "kept.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptKernel:
    """A kernel whose memory lies on the disk."""

    id: str
    #: Of its kernelspec.
    name: str
    #: The notebook or console it belongs to, below the server's folder; "" = none.
    path: str
    bytes: int
    kept_until_ms: int


def kernels_folder(environ: Mapping[str, str]) -> Path:
    """The folder of all servers' kernels of this user."""
    return state_home(environ) / "gpucommons" / "kernels"


def read_kept(folder: Path) -> tuple[KeptKernel, ...]:
    """What is kept of the server that this folder belongs to; nothing where nobody can tell."""
    try:
        found = json.loads((folder / FILE).read_bytes())
        return tuple(_kernel(each) for each in found["kernels"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def write_kept(folder: Path, kernels: Iterable[KeptKernel]) -> None:
    """Say what is kept from now on."""
    content = {"kernels": [asdict(kernel) for kernel in kernels]}
    write_private(folder / FILE, json.dumps(content))


def _kernel(found: Mapping[str, object]) -> KeptKernel:
    size, until = found["bytes"], found["kept_until_ms"]
    if not isinstance(size, int) or not isinstance(until, int):
        message = "a kept kernel without size or date"
        raise TypeError(message)
    return KeptKernel(
        id=str(found["id"]),
        name=str(found["name"]),
        path=str(found["path"]),
        bytes=size,
        kept_until_ms=until,
    )

"""What a *Train* form runs: a script, the notebook, or a function of it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpucommons.labextension.widgets.surroundings import notebook_path
from gpucommons.scheduler.client.submission import FileJob
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.scripts import frameworks
from gpucommons.scheduler.scripts.proposed_launcher import Proposal, of_script

Target = str | os.PathLike[str] | Callable[..., Any] | None


def file_job(
    target: Target, notebook: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> FileJob:
    """What to run.

    Raises
    ------
    Misconfigured
        When it is neither a function of this notebook nor a file.
    """
    if isinstance(target, str | os.PathLike):
        path = Path(target).resolve()
        if not path.is_file():
            message = f"There is no file {os.fspath(target)!r} in {Path.cwd()}."
            raise Misconfigured(message)
        return FileJob(root=path.parent, path=path.name)
    path = Path(notebook).resolve() if notebook is not None else notebook_path(environ)
    if not path.is_file():
        message = f"There is no notebook {os.fspath(path)!r}. Save it first?"
        raise Misconfigured(message)
    return FileJob(root=path.parent, path=path.name, function=_name_of(target))


def _name_of(function: Callable[..., Any] | None) -> str | None:
    if function is None:
        return None
    name = getattr(function, "__name__", "")
    if not name.isidentifier() or getattr(function, "__module__", "") != "__main__":
        message = (
            f"{name or 'This'} is not a function of this notebook. Define it in a cell with"
            " def, or pass the path of a script."
        )
        raise Misconfigured(message)
    try:
        inspect.signature(function).bind("a folder")
    except (TypeError, ValueError):
        message = (
            f"{name} must take one argument, the folder to resume from: def {name}(resume_dir)."
        )
        raise Misconfigured(message) from None
    return str(name)


def proposal_of(file: FileJob) -> Proposal:
    """The launcher that the file proposes for several workers."""
    with (file.root / file.path).open("rb") as opened:
        content = opened.read(frameworks.MAX_BYTES + 1)
    return of_script(file.path, frameworks.read_script(file.path, content))

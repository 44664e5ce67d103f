"""Where a kernel stands: which notebook runs it, which scheduler and slice it may use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpucommons.gpu.connections import unix_sockets
from gpucommons.labextension.server_context import ServerContext
from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import Misconfigured, Unavailable

_CONNECT_TIMEOUT_S = 1.0
_MAX_LINE_BYTES = 1 << 20


def is_in_job(environ: Mapping[str, str]) -> bool:
    """Whether this kernel runs a notebook as a job: nobody sees its widgets there."""
    return bool(environ.get("GPUCOMMONS_JOB_ID"))


def connect(environ: Mapping[str, str] | None = None) -> SchedulerClient:
    """A client with this notebook server's token.

    Raises
    ------
    Unavailable
        Outside GPU Commons.
    """
    context = ServerContext.from_environment(os.environ if environ is None else environ)
    if not context.url:
        raise Unavailable(
            "There is no GPU Commons scheduler here: open the notebook from your hub's start page."
        )
    return SchedulerClient(context.url, token=context.token)


def notebook_path(environ: Mapping[str, str]) -> Path:
    """The notebook that this kernel runs, as saved.

    Raises
    ------
    Misconfigured
        When no server says so.
    """
    name = environ.get("JPY_SESSION_NAME", "")
    if not name.endswith(".ipynb") or not Path(name).is_file():
        raise Misconfigured(
            "It cannot be told which notebook this is. Pass its path:"
            " TrainPanel(train, notebook='train.ipynb')."
        )
    return Path(name).resolve()


def newest_sample(socket_path: str) -> dict[str, Any] | None:
    """The slice's newest sample, asked once; None where there is no data."""
    if not socket_path:
        return None
    try:
        with unix_sockets.connect(Path(socket_path), timeout_s=_CONNECT_TIMEOUT_S) as connection:
            line = connection.makefile("rb").readline(_MAX_LINE_BYTES)
        history = json.loads(line)["history"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(history[-1]) if history else None

"""How the command line finds its scheduler, and who it is there.

In a notebook's terminal the hub's token and our URL are in the environment. On the workstation that
runs ``gpucommons up`` the unix socket in its state folder says who is calling, without a token.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import Unavailable


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Where ``gpucommons up`` keeps its state unless told otherwise."""
    if environ.get("GPUCOMMONS_STATE"):
        return Path(environ["GPUCOMMONS_STATE"])
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gpucommons"


def find(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """The URL and token to use.

    Raises
    ------
    Unavailable
        When no scheduler is named and none runs on this machine.
    """
    token = environ.get("GPUCOMMONS_API_TOKEN") or environ.get("JUPYTERHUB_API_TOKEN")
    url = arguments.url or environ.get("GPUCOMMONS_URL")
    if url:
        return url, token
    state = Path(arguments.state) if arguments.state else default_state_dir(environ)
    socket = state / "api.sock"
    if socket.is_socket():
        return f"unix:{socket}", None
    message = (
        f"No scheduler runs on this machine ({socket} is missing). Start one with"
        " `gpucommons up`, or name one with --url."
    )
    raise Unavailable(message)


def connect(arguments: argparse.Namespace) -> SchedulerClient:
    """Open a client for a command."""
    url, token = find(arguments, os.environ)
    return SchedulerClient(url, token=token)

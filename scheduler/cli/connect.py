"""How the command line finds its scheduler, and who it is there.

In a notebook's terminal the hub's token and our URL are in the environment. On the workstation that
runs ``gpucommons up`` the unix socket in its state folder says who is calling, without a token.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import httpx

from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.up.settings import SYSTEM_STATE, default_state_dir

_SCHEMES = ("http://", "https://", "unix:/")


def find(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """The URL and token to use: what was named, else the environment's, else this machine's.

    Raises
    ------
    BadRequest
        When the URL is none of a kind we speak.
    Unavailable
        When no scheduler is named and none is where one is looked for, or that is another account's.
    """
    token = environ.get("GPUCOMMONS_API_TOKEN") or environ.get("JUPYTERHUB_API_TOKEN")
    url = arguments.url or (None if arguments.state else environ.get("GPUCOMMONS_URL"))
    if url:
        return _checked(url), token
    sockets = [state / "api.sock" for state in _states(arguments, environ)]
    for socket in sockets:
        if socket.is_socket():
            _check_mine(socket)
            return f"unix:{socket}", None
    looked = " and ".join(str(socket) for socket in sockets)
    message = (
        f"No scheduler found: looked for {looked}. If one runs with another state folder, name it"
        " with --state FOLDER; one elsewhere with --url URL. `gpucommons up` starts one."
    )
    raise Unavailable(message)


def here() -> tuple[str, str | None]:
    """The URL and token that this process finds by itself. Raises as :func:`find` does."""
    return find(argparse.Namespace(url=None, state=None), os.environ)


def _states(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Path, ...]:
    if arguments.state:
        return (Path(arguments.state).expanduser(),)
    # The caller's own scheduler, else the one that root runs, which answers root alone here.
    own = default_state_dir(environ)
    return (own,) if environ.get("GPUCOMMONS_STATE") else (own, SYSTEM_STATE)


def _check_mine(socket: Path) -> None:
    """Refuse a scheduler that runs but belongs to another account: "is it running?" would mislead."""
    if not os.access(socket, os.W_OK):
        message = (
            f"The scheduler of this machine is another account's, which alone may use {socket}. In a terminal of"
            " your notebook `gpucommons` finds it by itself, as you."
        )
        raise Unavailable(message)


def _checked(url: str) -> str:
    if url.startswith(_SCHEMES):
        return url
    message = f"{url!r} is no scheduler's URL: write http://HOST:PORT or unix:/PATH."
    raise BadRequest(message)


def connect(arguments: argparse.Namespace) -> SchedulerClient:
    """Open a client for a command."""
    url, token = find(arguments, os.environ)
    try:
        return SchedulerClient(url, token=token)
    except httpx.InvalidURL as error:
        message = f"{url!r} is no scheduler's URL: {error}."
        raise BadRequest(message) from None

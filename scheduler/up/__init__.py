"""``gpucommons up``: everything on one machine, started in order and kept alive.

Hub, scheduler, node agent, culler and proxy are children of one supervisor. The hub sees the
others as external services, so any of them may die and come back alone: a service that the hub
itself starts would be missed for 20 s. This module is only the command line; it stays light: its
options are looked at before anything is started.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpucommons.gpu.account_names import ACCOUNTS_HELP, USERNAME, account_template
from gpucommons.gpu.clouds.notice_source import LINK_LOCAL, NAMES
from gpucommons.gpu.devices.topology import SimulatedTopology
from gpucommons.gpu.extras import MissingExtra, check_installed

DEFAULT_PORT = 8000
#: What its children load, one of each of the extra's parts: without it they would end one by one.
_OF_SERVICE = ("fastapi", "numpy", "sqlalchemy", "uvicorn", "jupyterhub")
_OF_ALL = (*_OF_SERVICE, "kubespawner", "jupyterlab", "nbclient")


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _shared: argparse.ArgumentParser
) -> None:
    """Add ``up`` to the commands of ``gpucommons``."""
    command = commands.add_parser("up", help="start everything on this machine")
    add_arguments(command)
    command.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of ``gpucommons up``."""
    parser.add_argument("--state", type=Path, help="folder for everything that must last")
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="of the hub's pages")
    parser.add_argument("--config", type=Path, help="pools, teams and quotas (YAML)")
    parser.add_argument(
        "--notifications",
        type=Path,
        metavar="FILE",
        help="mail server and rules of webhooks (YAML): users then choose what they are told",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="four simulated GPUs (where there are no real ones), two teams, trusted users",
    )
    parser.add_argument(
        "--stop-jobs", action="store_true", help="end training jobs too when stopped with Ctrl-C"
    )
    parser.add_argument(
        "--executor",
        action="append",
        default=[],
        metavar="NAME[=FILE]",
        help="an executor that another package brings, with its settings; pools choose it by name",
    )
    _add_hub_and_users(parser)
    _add_gpus(parser)
    _add_notebook_limits(parser)


def _add_hub_and_users(parser: argparse.ArgumentParser) -> None:
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--no-hub", action="store_true", help="scheduler and agent only")
    about = "no hub of its own: scheduler, pages, agent and culler for the hub whose API is there"
    alone.add_argument("--beside-hub", default="", metavar="URL", help=about)
    parser.add_argument(
        "--account-template",
        type=account_template,
        default=USERNAME,
        metavar="NAME",
        help=ACCOUNTS_HELP,
    )
    parser.add_argument(
        "--trusted-users",
        action="store_true",
        help="admit several users although all of them share this operating-system account",
    )
    parser.add_argument("--admin", action="append", default=[], metavar="USER", help="GPU admin")


def _add_gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--simulate",
        type=_simulate,
        default="auto",
        metavar="N|auto",
        help="simulated GPUs where NVML finds no real one: a number, or auto = 4 (default)",
    )
    parser.add_argument(
        "--simulated-topology",
        choices=[one.value for one in SimulatedTopology],
        default=None,
        help="what simulated GPUs say of their links: pairs = by NVLink in pairs, on two sockets "
        "(in the demo); all = by NVLink; unknown = nothing (else)",
    )
    parser.add_argument(
        "--agent-metrics-port",
        type=_port,
        metavar="PORT",
        help="serve the node agent's Prometheus metrics on this port of 127.0.0.1, to whoever has the"
        " token in STATE/agent/metrics-token",
    )
    parser.add_argument(
        "--cloud",
        choices=NAMES,
        help="ask this cloud's metadata service whether it takes the machine back",
    )
    parser.add_argument(
        "--cloud-metadata",
        default=LINK_LOCAL,
        metavar="URL",
        help="where that service answers: a link-local address (default: %(default)s)",
    )


def _add_notebook_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idle-after-s", type=_seconds, default=3600, help="a notebook is idle after this long"
    )
    parser.add_argument("--warn-after-s", type=_seconds, default=3000, help="its user is warned")
    parser.add_argument(
        "--only-watch",
        action="store_true",
        help="warn nobody and stop nobody who uses more GPU memory than their slice has",
    )


def run(arguments: argparse.Namespace) -> int:
    """Start everything and stay until stopped; returns the exit code.

    What cannot be started is said in a sentence: a port in use, another ``up`` on the folder.
    """
    # Here, not above: what follows needs the whole client, and `gpucommons jobs` should not.
    from gpucommons.scheduler.up.machine import run_machine  # noqa: PLC0415
    from gpucommons.scheduler.up.settings import read_settings  # noqa: PLC0415

    try:
        check_installed(
            _OF_SERVICE if arguments.no_hub or arguments.beside_hub else _OF_ALL, "workstation"
        )
        return run_machine(read_settings(arguments, os.environ))
    except (ValueError, OSError, RuntimeError, MissingExtra) as error:
        sys.stderr.write(f"gpucommons up: {error}\n")
        return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``python -m gpucommons.scheduler.up``."""
    parser = argparse.ArgumentParser(prog="gpucommons up", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args(argv))


def _simulate(text: str) -> str:
    if text != "auto" and not (text.isdecimal() and int(text) <= 64):  # noqa: PLR2004
        message = f"{text!r} is not a number of simulated GPUs: write auto, or 0 to 64."
        raise argparse.ArgumentTypeError(message)
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:  # noqa: PLR2004
        message = f"{text!r} is not a port: write a number from 1 to 65535."
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        message = f"{text!r} is not a number of seconds: write 1 or more."
        raise argparse.ArgumentTypeError(message)
    return int(text)

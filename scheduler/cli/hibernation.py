"""``gpucommons hibernation setup|check``: what saves live processes, without root.

It changes nothing of the system, and exits with 1 where processes cannot be saved and woken.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from gpucommons.gpu.hibernation import criu, setup
from gpucommons.gpu.hibernation.self_test import Ability, gpu_self_test, self_test
from gpucommons.gpu.shim import find_drivers

#: What runs already was started without it.
_WHO_USES_IT = (
    "Notebook servers and jobs use it from their next start on. Kernels of servers that run now are not"
    " kept: save what they hold before you stop them."
)


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _shared: argparse.ArgumentParser
) -> None:
    """Add ``hibernation``."""
    about = "save and wake live processes on this machine"
    own = commands.add_parser("hibernation", help=about).add_subparsers(
        required=True, metavar="COMMAND"
    )
    got = own.add_parser("setup", help="get CRIU into your own folder, without root")
    got.add_argument("--folder", help="instead of the state folder")
    got.set_defaults(run=set_up_hibernation)
    tried = own.add_parser("check", help="save and wake a small process")
    tried.set_defaults(run=check_hibernation)


def set_up_hibernation(arguments: argparse.Namespace) -> int:
    """Get CRIU into the user's state folder, then try it."""
    folder = Path(arguments.folder) if arguments.folder else criu.state_folder(os.environ)
    try:
        found = setup.set_up(folder.expanduser().absolute(), _say)
    except setup.CannotSetUp as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"CRIU {found.version} is in {folder}.")
    _say(_WHO_USES_IT)
    return _try_out(found)


def check_hibernation(_arguments: argparse.Namespace) -> int:
    """Save and wake a small process with the CRIU that would be used."""
    return _try_out(criu.find_criu(os.environ))


def _try_out(found: criu.Criu | None) -> int:
    ability = self_test(found, Path(tempfile.gettempdir()))
    _say(can_hibernate(ability))
    driver = find_drivers().cuda
    if found is not None and ability.can_hibernate and driver is not None:
        _say(can_hibernate_gpu(gpu_self_test(found, Path(tempfile.gettempdir()), driver)))
    return 0 if ability.can_hibernate else 1


def can_hibernate(ability: Ability) -> str:
    """The outcome of the self-test."""
    if not ability.can_hibernate:
        return f"Processes cannot be saved here. {ability.because}"
    return (
        "A small process was saved and woken: "
        f"{ability.save_mib_per_s} MiB/s saving, {ability.wake_mib_per_s} MiB/s waking."
    )


def can_hibernate_gpu(because: str | None) -> str:
    """The outcome of the self-test with a GPU."""
    if because is None:
        return "So was one that held GPU memory."
    return f"Processes that hold GPU memory cannot be saved here. {because}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")

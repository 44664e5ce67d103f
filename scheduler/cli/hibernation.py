"""``gpucommons hibernation setup|check``: what saves live processes, without root.

It changes nothing of the system. Exit codes: 0 processes can be saved and woken here · 1 they cannot
(a sentence says why) · 2 wrong command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from gpucommons.gpu.hibernation import criu, setup
from gpucommons.gpu.hibernation.self_test import Ability, self_test


def set_up(arguments: argparse.Namespace) -> int:
    """Get CRIU into the user's state folder, then try it."""
    folder = Path(arguments.folder) if arguments.folder else criu.state_folder(os.environ)
    try:
        found = setup.set_up(folder.expanduser().absolute(), _say)
    except setup.CannotSetUp as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"CRIU {found.version} is in {folder}.")
    return _tell(found)


def check(_arguments: argparse.Namespace) -> int:
    """Save and wake a small process with the CRIU that would be used."""
    return _tell(criu.find_criu(os.environ))


def _tell(found: criu.Criu | None) -> int:
    ability = self_test(found, Path(tempfile.gettempdir()))
    _say(sentence(ability))
    return 0 if ability.can_hibernate else 1


def sentence(ability: Ability) -> str:
    """The outcome of the self-test."""
    if not ability.can_hibernate:
        return f"Processes cannot be saved here. {ability.because}"
    return (
        "A small process was saved and woken: "
        f"{ability.save_mib_per_s} MiB/s saving, {ability.wake_mib_per_s} MiB/s waking."
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")

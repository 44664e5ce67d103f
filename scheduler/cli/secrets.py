"""``gpucommons secret``: a value that jobs refer to by name, kept in the caller's own home."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path

from pydantic import TypeAdapter

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.options import output
from gpucommons.scheduler.cli.present import show
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.local.attempt.secret_files import MAX_SECRET_BYTES, PLACE


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _shared: argparse.ArgumentParser
) -> None:
    """Add ``secret``."""
    about = "keep a secret (read from standard input)"
    command = commands.add_parser("secret", parents=[output()], help=about)
    command.add_argument("name")
    command.set_defaults(run=put_secret)


def put_secret(arguments: argparse.Namespace) -> int:
    """Read a value from standard input and keep it, readable by its owner alone."""
    name = TypeAdapter(models.Name).validate_python(arguments.name)
    if sys.stdin.isatty():
        value = getpass.getpass(f"{name}: ")
    else:
        # Whole: keys have many lines. The last line's end is the file's, not the secret's.
        value = sys.stdin.read(MAX_SECRET_BYTES + 2).removesuffix("\n").removesuffix("\r")
    if not value:
        message = f"Give the value of {name} on standard input."
        raise BadRequest(message)
    if len(value.encode()) > MAX_SECRET_BYTES:
        message = f"A secret has at most {MAX_SECRET_BYTES >> 10} KiB: keep files elsewhere."
        raise BadRequest(message)
    folder = Path.home().joinpath(*PLACE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Under another name first: a job that starts meanwhile reads the old value or the new one.
    partial = folder / f".{name}.partial"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(partial, flags, 0o600), "w") as file:
        file.write(value)
    partial.replace(folder / name)
    show({"name": name}, f"secret {name} kept in {folder}", output=arguments.output)
    return 0

"""``gpucommons backup`` and ``gpucommons restore``: they open the database itself, no scheduler."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO

from gpucommons.gpu.extras import coming_with
from gpucommons.scheduler.cli.present import show
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.files.durable_files import appearing_whole
from gpucommons.scheduler.up.settings import default_state_dir

_STANDARD = "-"
#: What no backup holds, said each time.
NOT_IN_IT = (
    "The files of jobs are not in it: snapshots, working folders, checkpoints and results lie in the"
    " state folder, on the volume or in the bucket, as do the keys that jobs' tokens are made with."
    " Copy those by their own means."
)


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _shared: argparse.ArgumentParser
) -> None:
    """Add ``backup`` and ``restore``."""
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument("--output", choices=("text", "json"), default="text")
    database.add_argument("--state", help="state folder of `gpucommons up` on this machine")
    database.add_argument(
        "--store-url", help="default: GPUCOMMONS_STORE_URL, else the database in the state folder"
    )
    saved = commands.add_parser(
        "backup",
        parents=[database],
        help="write all that the scheduler knows to one file, while it works",
        description="Teams, quotas, jobs, leases, history: everything but the files of jobs.",
    )
    saved.add_argument(
        "file", metavar="FILE", help="replaced when all is written; - = standard output"
    )
    saved.set_defaults(run=back_up)
    restored = commands.add_parser(
        "restore",
        parents=[database],
        help="fill a new, empty database from a backup",
        description="Stop the scheduler first. Its next start finds again what runs.",
    )
    restored.add_argument("file", metavar="FILE", help="- = standard input")
    restored.add_argument("--check", action="store_true", help="only look whether FILE is whole")
    restored.set_defaults(run=restore)


def back_up(arguments: argparse.Namespace) -> int:
    """Write a backup."""
    with coming_with("service"):
        from gpucommons.scheduler.store.backup import file, tables  # noqa: PLC0415 - see above
    url = _database(arguments, os.environ)
    _must_be_there(url)
    origin = file.Origin(version=version("gpucommons"), head="", made_ms=time.time_ns() // 10**6)
    if arguments.file == _STANDARD:
        rows = tables.back_up(url, sys.stdout.buffer, origin)
        sys.stdout.buffer.flush()
        sys.stderr.write(f"{rows:,} rows were backed up. {NOT_IN_IT}\n")
        return 0
    path = Path(arguments.file)
    with appearing_whole(path) as whole:
        rows = tables.back_up(url, whole, origin)
    document = {"file": str(path), "rows": rows, "bytes": path.stat().st_size}
    text = f"{rows:,} rows were backed up to {path} ({path.stat().st_size:,} bytes). {NOT_IN_IT}"
    show(document, text, output=arguments.output)
    return 0


def restore(arguments: argparse.Namespace) -> int:
    """Fill a new database, or only look at the file."""
    with coming_with("service"):
        from gpucommons.scheduler.store.backup import file, tables  # noqa: PLC0415 - see above
    with _opened(arguments.file) as (opened, name):
        reader = file.Reader(opened, name)
        if arguments.check:
            origin, rows = reader.check()
            done = f"{name} is whole"
        else:
            now_ms = time.time_ns() // 10**6
            origin, rows = tables.restore(_database(arguments, os.environ), reader, now_ms=now_ms)
            done = f"{name} was restored"
    made = datetime.fromtimestamp(origin.made_ms / 1000, UTC)
    document = {
        "version": origin.version,
        "head": origin.head,
        "made_ms": origin.made_ms,
        "rows": rows,
        "restored": not arguments.check,
    }
    text = (
        f"{done}: {rows:,} rows of {made:%Y-%m-%d %H:%M:%S} UTC, by GPU Commons {origin.version}"
        f" (tables {origin.head})."
    )
    if not arguments.check:
        text += (
            " Start the scheduler now: it looks for what runs, and GPU admin says what it found."
            f" {NOT_IN_IT}"
        )
    show(document, text, output=arguments.output)
    return 0


@contextmanager
def _opened(name: str) -> Iterator[tuple[IO[bytes], str]]:
    """The file, to be read more than once."""
    if name != _STANDARD:
        with Path(name).open("rb") as file:
            yield file, name
        return
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        yield file, "standard input"


def _database(arguments: argparse.Namespace, environ: Mapping[str, str]) -> str:
    if arguments.store_url:
        return str(arguments.store_url)
    if environ.get("GPUCOMMONS_STORE_URL") and not arguments.state:
        return environ["GPUCOMMONS_STORE_URL"]
    state = Path(arguments.state) if arguments.state else default_state_dir(environ)
    return f"sqlite:///{state.expanduser().absolute() / 'scheduler.db'}"


def _must_be_there(url: str) -> None:
    """A file of SQLite would else be made by the look at it."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.is_file():
        message = (
            f"There is no database {path}. Name the state folder with --state FOLDER, or the database"
            " with --store-url URL."
        )
        raise BadRequest(message)

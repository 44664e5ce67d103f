"""``gpucommons support-bundle``: what somebody who helps from outside needs, in one archive.

What cannot be had is named in it: a scheduler that does not answer is a reason to make one.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distributions, version
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel

from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.operating.redaction import Redaction, secret_values
from gpucommons.scheduler.cli.present import say, show
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.call import Call
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.files.durable_files import appearing_whole
from gpucommons.scheduler.idempotency import PARTS
from gpucommons.scheduler.up.settings import default_state_dir

#: Of each log, and of the list of events.
_LOG_BYTES, _EVENTS = 256 << 10, 1000
#: More no secret has.
_SECRET_BYTES = 64 << 10
#: Files of the state folder that are secrets, or folders of such.
_SECRETS = ("attempt-key", "cookie-secret", "metrics-token", "password", "tokens")
#: Fields of the API's answers that name a user, and those that name several.
_NAMING = frozenset({"by", "owner", "submitted_by", "user"})
_LISTING = frozenset({"leads", "members", "users"})

_STANDARD = Path("-")

T = TypeVar("T")


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``support-bundle``."""
    command = commands.add_parser(
        "support-bundle",
        parents=[shared],
        help="one archive for who helps from outside, without secrets",
        description="Versions, settings, logs, health, queue, events and metrics. Passwords, tokens and"
        " what users wrote are left out; names of users are replaced.",
    )
    command.add_argument("file", metavar="FILE.tar.gz", help="- = standard output")
    command.add_argument("--with-names", action="store_true", help="keep the names of users")
    command.set_defaults(run=support_bundle)


def _answer(call: Callable[[], Call[Any]]) -> Callable[[SchedulerClient], Any]:
    def ask(scheduler: SchedulerClient) -> Any:
        answer: BaseModel = scheduler.send(call())
        return answer.model_dump(mode="json")

    return ask


def _metrics(scheduler: SchedulerClient) -> list[str]:
    with scheduler.stream("/metrics") as pieces:
        return b"".join(pieces).decode().splitlines()


#: By the name of its file.
_ASKED: dict[str, Callable[[SchedulerClient], Any]] = {
    "health/nodes": _answer(calls.nodes),
    "health/pools": _answer(calls.pools),
    "health/metrics": _metrics,
    "settings": _answer(calls.get_config),
    "queue/teams": _answer(calls.teams),
    "queue/jobs": _answer(lambda: calls.jobs(live=True)),
    "queue/leases": _answer(calls.leases),
    "queue/activities": _answer(calls.activities),
    "events": _answer(lambda: calls.events(newest=_EVENTS)),
}


def support_bundle(arguments: argparse.Namespace) -> int:
    """Write the archive."""
    state = Path(arguments.state) if arguments.state else default_state_dir(os.environ)
    state = state.expanduser()
    answers, missing = _answers(arguments)
    place = _Place(state, missing)
    names = () if arguments.with_names else _names(answers, place)
    hide = Redaction([*_secrets(place), *secret_values(os.environ)], names)
    parts = {"versions.json": _json(_versions())}
    parts |= {f"{name}.json": _json(hide.document(found)) for name, found in answers.items()}
    parts |= {f"logs/{name}": hide.text(text) for name, text in _logs(place)}
    if not any(name.startswith("logs/") for name in parts):
        missing.append(f"No logs in {state}: on a cluster add `kubectl logs` of each pod by hand.")
    parts["missing.txt"] = hide.text("\n".join(missing)) or "Nothing is missing."
    path = Path(arguments.file)
    who = "with the names of users" if arguments.with_names else "names of users replaced"
    said = f"{path}: {len(parts)} files, {who}. Look through it before you send it."
    if path == _STANDARD:
        _pack(parts, sys.stdout.buffer)
        say(said)
        return 0
    with appearing_whole(path) as file:
        _pack(parts, file)
    show(
        {"file": str(path), "files": sorted(parts), "missing": missing},
        said,
        output=arguments.output,
    )
    return 0


def _pack(parts: Mapping[str, str], file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in sorted(parts.items()):
            _add(archive, name, text)


def _answers(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """What the API says, and why it does not say the rest."""
    found: dict[str, Any] = {}
    missing: list[str] = []
    try:
        with connect(arguments) as scheduler:
            for name, ask in _ASKED.items():
                try:
                    found[name] = ask(scheduler)
                except SchedulerError as error:
                    missing.append(f"{name}: {error}")
    except SchedulerError as error:
        missing.append(str(error))
    return found, missing


class _Place:
    """The state folder, as far as it can be read; what cannot be is named among what is missing."""

    def __init__(self, state: Path, missing: list[str]) -> None:
        self._state, self._missing = state, missing

    def names(self, folder: str) -> list[str]:
        """What lies in a folder; nothing where there is none."""
        place = self._state / folder
        return self._read(lambda: sorted(path.name for path in place.iterdir())) or []

    def end_of(self, name: str, length: int) -> bytes | None:
        """The last so many bytes of a file; None where there is none."""

        def read() -> bytes:
            with (self._state / name).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - length))
                return file.read(length)

        return self._read(read)

    def _read(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            self._missing.append(f"{error.strerror}: {error.filename}")
            return None


def _names(answers: object, place: _Place) -> set[str]:
    """Users, wherever an answer names one, and those with a home here."""
    return {*place.names("homes"), *_named(answers)} - PARTS


def _named(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _named(one)
    if not isinstance(value, dict):
        return
    for key, one in value.items():
        if key in _NAMING and isinstance(one, str):
            yield one
        elif key in _LISTING and isinstance(one, list):
            yield from (name for name in one if isinstance(name, str))
        else:
            yield from _named(one)


def _secrets(place: _Place) -> Iterator[str]:
    """Secrets of this machine, so that they are found wherever they were written to."""
    for name in _SECRETS:
        for path in (name, *(f"{name}/{one}" for one in place.names(name))):
            raw = (place.end_of(path, _SECRET_BYTES) or b"").strip()
            yield raw.hex()
            yield raw.decode(errors="ignore")


def _versions() -> dict[str, object]:
    return {
        "gpucommons": version("gpucommons"),
        "python": sys.version,
        "system": platform.platform(),
        "packages": sorted(f"{one.name} {one.version}" for one in distributions()),
        # Of their values nothing is known.
        "variables": sorted(
            name for name in os.environ if name.startswith(("GPUCOMMONS_", "JUPYTERHUB_"))
        ),
    }


def _logs(place: _Place) -> Iterator[tuple[str, str]]:
    for name in place.names("logs"):
        if name.endswith(".log"):
            end = place.end_of(f"logs/{name}", _LOG_BYTES)
            if end is not None:
                yield name, end.decode(errors="replace")


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    info = tarfile.TarInfo(f"gpucommons-support/{name}")
    info.size, info.mode = len(content), 0o600
    archive.addfile(info, io.BytesIO(content))

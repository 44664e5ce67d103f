"""What starts a schedule's runs beside the calendar, as options of a command."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

from gpucommons.scheduler.errors import BadRequest

SAY_WHEN = (
    "Say when: --schedule CRON, --when-data PATH, --when-tells COMMAND, --after-job NAME or"
    " --when-below METRIC=VALUE."
)


def add_triggers(command: argparse.ArgumentParser) -> None:
    """The options; each may be given again and again."""
    command.add_argument(
        "--when-data",
        action="append",
        default=[],
        metavar="PATH|URL",
        help="a run when the content of a file or folder, or an object behind http(s)://, is another",
    )
    command.add_argument(
        "--when-tells",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a run when the last line that this command prints is another; it runs as a small job",
    )
    command.add_argument(
        "--look-every",
        type=int,
        metavar="SECONDS",
        help="how often data are looked at (default: 300)",
    )
    command.add_argument(
        "--after-job",
        action="append",
        default=[],
        metavar="NAME[:ok|any|failed]",
        help="a run when a job of yours of that name ends well (ok, the default), badly, or however",
    )
    command.add_argument(
        "--when-below",
        action="append",
        default=[],
        metavar="METRIC=VALUE",
        help="a run when `gpucommons schedule metric` posts less",
    )


def add_promotion(command: argparse.ArgumentParser) -> None:
    """How models of runs are compared."""
    command.add_argument(
        "--promote",
        metavar="METRIC[:highest|lowest]",
        help="compare each new model with the promoted one by what is told last of this metric; its"
        " results stay for as long as it is promoted",
    )
    command.add_argument(
        "--promote-by-hand",
        action="store_true",
        help="promote nothing but by `gpucommons schedule promote`",
    )


def promotion(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """How models are compared; None = not at all.

    Raises
    ------
    BadRequest
        When it is not understood.
    """
    if arguments.promote is None:
        if arguments.promote_by_hand:
            raise BadRequest("--promote-by-hand: by which metric? Say --promote METRIC.")
        return None
    metric, _, best = arguments.promote.partition(":")
    directions = {"": "maximize", "highest": "maximize", "lowest": "minimize"}
    if best not in directions:
        message = f"--promote: {arguments.promote!r} is not understood. Write loss:lowest, say."
        raise BadRequest(message)
    rule = "by hand" if arguments.promote_by_hand else "better"
    return {"metric": metric, "direction": directions[best], "rule": rule}


def is_given(arguments: argparse.Namespace) -> bool:
    """Whether anything says when."""
    return arguments.schedule is not None or bool(triggers(arguments))


def triggers(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The triggers that were asked for.

    Raises
    ------
    BadRequest
        When one is not understood.
    """
    every = {} if arguments.look_every is None else {"every_s": arguments.look_every}
    found = [{"data": {**_data(each), **every}} for each in arguments.when_data]
    found += [{"data": {"command": _words(each), **every}} for each in arguments.when_tells]
    if every and not found:
        raise BadRequest("--look-every: of --when-data and --when-tells alone.")
    found += [{"after": _after(each)} for each in arguments.after_job]
    return found + [{"metric": _metric(each)} for each in arguments.when_below]


def watched(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Files and folders of this machine whose change starts a run."""
    found = (_data(each).get("path") for each in arguments.when_data)
    return tuple(Path(path) for path in found if path is not None)


def _data(text: str) -> dict[str, Any]:
    if text.startswith(("http://", "https://")):
        return {"url": text}
    # What a link leads to may be another tomorrow: that is a change, too.
    return {"path": os.path.abspath(Path(text).expanduser())}  # noqa: PTH100 - resolve follows links


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        message = f"--when-tells: {text!r} is no command ({error})."
        raise BadRequest(message) from None


def _after(text: str) -> dict[str, Any]:
    job, _, on = text.partition(":")
    return {"job": job, "on": on or "ok"}


def _metric(text: str) -> dict[str, Any]:
    name, _, value = text.rpartition("=")
    try:
        return {"name": name, "below": float(value)}
    except ValueError:
        message = f"--when-below: {text!r} is not understood. Write accuracy=97.5, say."
        raise BadRequest(message) from None

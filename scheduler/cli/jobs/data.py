"""``gpucommons data``: whether a job waits for its data, and what its next attempt is to do about it."""

from __future__ import annotations

import argparse

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import show
from gpucommons.scheduler.client import plan_calls
from gpucommons.scheduler.data_loading import loader_in_words
from gpucommons.scheduler.errors import BadRequest


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """The grammar of this command."""
    command = commands.add_parser(
        "data",
        parents=[shared],
        help="say whether a job waits for its data; set how its next attempt loads it",
        description="Sets nothing unless told so. --apply takes what is advised; torch's data loaders get it"
        " before their first batch, in scripts that call training.current() or use a callback.",
    )
    command.add_argument("job", help="name or id")
    wanted = command.add_mutually_exclusive_group()
    wanted.add_argument("--apply", action="store_true", help="set what is advised")
    wanted.add_argument("--workers", type=_number, metavar="N", help="set another number")
    wanted.add_argument("--as-script", action="store_true", help="set nothing any more")
    command.add_argument(
        "--prefetch", type=_number, metavar="N", help="batches that each worker has ready"
    )
    command.set_defaults(run=data)


def data(arguments: argparse.Namespace) -> int:
    """The advice; and the choice, where one is made."""
    if arguments.prefetch is not None and arguments.workers is None:
        raise BadRequest("--prefetch N goes with --workers N.")
    with connect(arguments) as scheduler:
        found = scheduler.send(plan_calls.data_advice(arguments.job))
        wanted = _wanted(arguments, found)
        if wanted is not None:
            scheduler.send(plan_calls.choose_loader(arguments.job, wanted))
            found = scheduler.send(plan_calls.data_advice(arguments.job))
    lines = [found.text]
    if found.chosen is not None:
        since = "it runs so" if found.chosen.in_force else "from its next attempt on"
        chosen = loader_in_words(found.chosen.workers, found.chosen.prefetch)
        lines.append(f"Chosen by {found.chosen.by}: {chosen} ({since}).")
    elif found.advised is not None and found.can_choose:
        lines.append(f"To set it for the next attempt: gpucommons data {arguments.job} --apply")
    elif found.advised is not None and found.advised.workers is not None:
        wanted_so = (
            f"--loader-workers {found.advised.workers} --loader-prefetch {found.advised.prefetch}"
        )
        lines.append(f"To run it again so: gpucommons again {arguments.job} {wanted_so}")
    show(found, "\n".join(lines), output=arguments.output)
    return 0


def _wanted(
    arguments: argparse.Namespace, found: models.DataAdvice
) -> models.LoaderSettings | None:
    if arguments.as_script:
        return models.LoaderSettings()
    if arguments.workers is not None:
        return models.LoaderSettings(workers=arguments.workers, prefetch=arguments.prefetch or 2)
    if arguments.apply and found.advised is None:
        message = f"Nothing is advised that could be set. {found.text}"
        raise BadRequest(message)
    return found.advised if arguments.apply else None


def add_loader(command: argparse.ArgumentParser) -> None:
    """How another run of a job is to load its data."""
    command.add_argument(
        "--loader-workers",
        type=_number,
        metavar="N",
        help="processes that load data for each training process, in torch's data loaders",
    )
    command.add_argument(
        "--loader-prefetch", type=_number, metavar="N", help="batches that each has ready: 2"
    )


def chosen_loader(arguments: argparse.Namespace) -> models.LoaderOfAnotherRun | None:
    """None = as was chosen for the job that is run again."""
    workers, prefetch = arguments.loader_workers, arguments.loader_prefetch
    if workers is None and prefetch is not None:
        raise BadRequest("--loader-prefetch N goes with --loader-workers N.")
    if workers is None:
        return None
    return models.LoaderOfAnotherRun(workers=workers, prefetch=prefetch or 2)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 5):  # noqa: PLR2004 - 1,024 at most
        message = f"{text!r} is no number of workers: 0, 1, 2 …"
        raise argparse.ArgumentTypeError(message)
    return int(text)

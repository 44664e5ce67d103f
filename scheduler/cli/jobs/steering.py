"""``gpucommons cancel``, ``pause``, ``resume``, ``again`` and ``resize``."""

from __future__ import annotations

import argparse
import sys

from gpucommons.gpu.slices.slices import parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.jobs.data import add_loader, chosen_loader
from gpucommons.scheduler.cli.jobs.listing import size
from gpucommons.scheduler.cli.operating import notebooks
from gpucommons.scheduler.cli.options import gib, positive
from gpucommons.scheduler.cli.present import printable, show
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.text.state_words import state_words

_YES = frozenset({"y", "yes"})
#: Ways to go on after which work is done again.
_LOSES = frozenset({"working_folder", "start_over"})
#: What steers for good, or at a cost, and how it is told not to ask.
_ASKS = {
    "cancel": "do not ask at a terminal whether what runs is to end for good",
    "pause": "do not ask whether it is worth its cost",
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add them."""
    for name, text in (
        ("cancel", "cancel a job"),
        ("pause", "stop a job and keep it for later"),
        ("resume", "put a paused job back in line"),
        ("again", "submit the same job again"),
    ):
        command = commands.add_parser(name, parents=[shared], help=text)
        command.add_argument("job", help="name or id")
        command.set_defaults(run=pause if name == "pause" else act)
        if name in _ASKS:
            command.add_argument("--yes", action="store_true", help=_ASKS[name])
        if name == "again":
            about = "go on from what it saved last, not anew"
            command.add_argument("--from-here", action="store_true", help=about)
            add_loader(command)
    _add_resize(commands, shared)


def _add_resize(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    command = commands.add_parser(
        "resize",
        parents=[shared],
        help="give a job that waits another size; change the GPU memory of a notebook in use",
        description="gpucommons resize JOB --gpus N [--workers N]: the job keeps its place, its saved"
        " progress and its curve. gpucommons resize LEASE GIB: another memory limit for a notebook"
        " in use (admins).",
    )
    command.add_argument("job", metavar="JOB|LEASE", help="name or id of a job, or id of a lease")
    command.add_argument("--gpus", metavar="N", help="a job's GPUs per worker: ½, 0.5, 1, 4 …")
    command.add_argument("--workers", type=positive, metavar="N", help="a job's workers")
    command.add_argument(
        "gib", nargs="?", type=gib, metavar="GIB", help="a notebook's memory limit: 12.5"
    )
    command.set_defaults(run=resize)


def act(arguments: argparse.Namespace) -> int:
    """Cancel or resume a job, or run it again."""
    with connect(arguments) as scheduler:
        if arguments.command == "again":
            loader = chosen_loader(arguments)
            again = calls.again(arguments.job, from_here=arguments.from_here, loader=loader)
            job = scheduler.send(again)
        elif arguments.command == "cancel":
            job = _cancelled(scheduler, arguments)
        else:
            job = scheduler.send(calls.resume(arguments.job))
    show(job, f"{job.name}  {state_words(job.state)}", output=arguments.output)
    return 0


def _cancelled(scheduler: SchedulerClient, arguments: argparse.Namespace) -> models.JobView:
    """The job, cancelled, unless somebody at a terminal says no; scripts are asked nothing."""
    before = scheduler.send(calls.job(arguments.job))
    way = before.way_to_go_on
    runs = way is not None and way.repeats_ms is not None
    if runs and not arguments.yes and sys.stdin.isatty():
        question = f"It ends for good; `gpucommons pause` keeps it.\nCancel {before.name}? [y/N] "
        if not _is_yes(_answer(question)):
            return before
    return scheduler.send(calls.cancel(before.id))


def _answer(question: str) -> str:
    """What somebody writes to it; empty where nobody is there."""
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline()


def _is_yes(answer: str) -> bool:
    return answer.strip().lower() in _YES


def pause(arguments: argparse.Namespace) -> int:
    """Pause a job after saying what that costs: at a terminal always, elsewhere where work would be lost."""
    with connect(arguments) as scheduler:
        before = scheduler.send(calls.job(arguments.job))
        way = before.way_to_go_on
        cost = "" if way is None or way.repeats_ms is None else way.stop_text
        loses = way is not None and way.way in _LOSES
        if cost and not arguments.yes and (loses or sys.stdin.isatty()):
            answer = _answer(f"{cost}\nPause {before.name}? [y/N] ")
            if not _is_yes(answer):
                unasked = "" if answer else " (nobody answered; --yes pauses without a question)"
                text = f"{before.name}  {state_words(before.state)}: not paused{unasked}"
                show(before, text, output=arguments.output)
                return 0 if answer else 1
        job = scheduler.send(calls.pause(before.id))
    text = f"{job.name}  {state_words(job.state)}"
    show(job, f"{text}\n  {cost}" if cost else text, output=arguments.output)
    return 0


def resize(arguments: argparse.Namespace) -> int:
    """Give a waiting job another size, or a notebook in use another memory limit."""
    sized = arguments.gpus is not None or arguments.workers is not None
    if sized == (arguments.gib is not None):
        message = (
            "Say what changes: gpucommons resize JOB --gpus N (or --workers N) for a job that waits,"
            " gpucommons resize LEASE GIB for the GPU memory of a notebook."
        )
        raise BadRequest(message)
    if not sized:
        return notebooks.resize(arguments)
    gpus = None if arguments.gpus is None else parse_milli_gpu(arguments.gpus)
    wanted = models.JobSize(milli_gpu=gpus, workers=arguments.workers)
    with connect(arguments) as scheduler:
        job = scheduler.send(calls.resize_job(arguments.job, wanted))
    text = f"{job.name}  {state_words(job.state)}  {size(job)}"
    show(job, text, output=arguments.output)
    return 0

"""The options of ``sbatch``, in ``#SBATCH`` lines as on the command line (``man sbatch``)."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import NoReturn

from gpucommons.scheduler.errors import BadRequest

_MARK = "#SBATCH"
#: Used; what stands behind a name is what it is called in messages.
_TEXT = (
    "-J --job-name", "-G --gpus", "--gres", "--gpus-per-node", "--gpus-per-task", "--mem",
    "--mem-per-cpu", "--mem-per-gpu", "-t --time", "-a --array", "-d --dependency", "--signal",
    "-p --partition", "-A --account", "-q --qos", "-D --chdir", "-b --begin", "--export",
)  # fmt: skip
_NUMBERS = ("-N --nodes", "-n --ntasks", "--ntasks-per-node", "-c --cpus-per-task")
#: Taken, so that old scripts go through; what they would do does not happen, and that is said.
WITHOUT_MEANING = {
    "-o --output": "the log is kept with the job: gpucommons logs {name}",
    "-e --error": "the log is kept with the job: gpucommons logs {name}",
    "-i --input": "a job here has no input",
    "--open-mode": "the log is kept with the job: gpucommons logs {name}",
    "--mail-type": "no mail is sent for it",
    "--mail-user": "no mail is sent for it",
    "-C --constraint": "name a GPU's kind in --gres, or a pool with --partition",
    "-w --nodelist": "the scheduler chooses the node",
    "-x --exclude": "the scheduler chooses the node",
    "--reservation": "there are no reservations by name",
    "-L --licenses": "licences are not counted",
    "--comment": "it is not kept",
    "--hint": "it is not used",
    "--gpu-bind": "a job sees its own GPUs only",
    "--distribution": "there is one task",
    "--nice": "use --qos low, normal or high",
    "--get-user-env": "the environment is chosen with gpucommons submit --env",
    "--tmp": "it is not used",
    "--switches": "it is not used",
    "--wckey": "it is not used",
}
_FLAGS_WITHOUT_MEANING = {
    "--exclusive": "CPUs and memory are as asked for; GPUs are a job's own",
    "--no-requeue": "a job that is stopped goes back into the queue: cancel it where it must not",
    "--overcommit": "it is not used",
}
#: As it is anyway.
_FLAGS = ("--requeue", "--parsable", "-Q --quiet", "-v --verbose")
REFUSED = {
    "-W --wait": "follow it with gpucommons logs -f",
    "-H --hold": "submit it, then gpucommons pause",
    "--test-only": "ask gpucommons submit for a quote in the panel",
    "-M --clusters": "there is one scheduler",
    "--het-group": "jobs of several shapes are submitted as YAML (gpucommons submit -f)",
}


class _Parser(argparse.ArgumentParser):
    """Raises, with the place where the mistake stands."""

    place = "sbatch"

    def error(self, message: str) -> NoReturn:
        raise BadRequest(f"{self.place}: {message}.")


def _one_or_more(text: str) -> int:
    first, _, last = text.partition("-")
    if first.isdecimal() and int(first) and last in ("", first):
        return int(first)
    raise argparse.ArgumentTypeError(f"{text!r} is not one number from 1 on")


def _parser() -> _Parser:
    parser = _Parser(
        prog="gpucommons sbatch", usage="gpucommons sbatch [options] SCRIPT [ARGUMENT …]",
        description="Submit a Slurm batch script as a job. Options are those of Slurm's sbatch, also"
        " as #SBATCH lines of the script.", argument_default=argparse.SUPPRESS,
    )  # fmt: skip
    for names in (*_TEXT, *WITHOUT_MEANING):
        parser.add_argument(*names.split(), help=WITHOUT_MEANING.get(names, "").format(name="JOB"))
    for names in _NUMBERS:
        parser.add_argument(*names.split(), type=_one_or_more, metavar="N")
    for names in (*_FLAGS, *_FLAGS_WITHOUT_MEANING, *REFUSED):
        parser.add_argument(*names.split(), action="store_true", help=REFUSED.get(names))
    parser.add_argument("--wrap", metavar="COMMAND", help="this command in place of a script")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGUMENT …]")
    return parser


def of_command_line(words: Sequence[str]) -> dict[str, object]:
    """Options by name (``cpus_per_task``); ``words`` are the script and its arguments."""
    return dict(vars(_parser().parse_args(list(words))))


def of_script(text: str) -> dict[str, object]:
    """Options of the ``#SBATCH`` lines before the first command.

    Raises
    ------
    BadRequest
        Where the text is no script, or with the number of a line that is wrong.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        message = (
            "This is no batch script: its first line must be #! and a program, as in #!/bin/bash."
        )
        raise BadRequest(message)
    parser = _parser()
    found: dict[str, object] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            break
        if not line.startswith(_MARK):
            continue
        parser.place = f"line {number} ({line.strip()})"
        try:
            words = shlex.split(line.removeprefix(_MARK), comments=True)
        except ValueError as error:
            parser.error(str(error))
        options = dict(vars(parser.parse_args(words)))
        if options.pop("words", None) or "wrap" in options:
            parser.error("only options stand in such a line")
        found |= options
    return found


def said(options: dict[str, object], of: dict[str, str]) -> dict[str, str]:
    """Of the options that are given, those of a table: how they are written, and what is said."""
    by_name = {names.split()[-1]: text for names, text in of.items()}
    return {
        option: text
        for option, text in by_name.items()
        if option.removeprefix("--").replace("-", "_") in options
    }


def notes(options: dict[str, object], job_name: str) -> list[str]:
    """What of the options means nothing here."""
    found = said(options, WITHOUT_MEANING | _FLAGS_WITHOUT_MEANING)
    return [
        f"{option} means nothing here: {text.format(name=job_name)}"
        for option, text in found.items()
    ]

"""Commands and options of Slurm that are none here: each is answered with what is done in its place."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import NoReturn

from gpucommons.scheduler.errors import BadRequest

#: Begins the help of an option that does nothing.
_NOT_HERE = "not here: "
INSTEAD: Mapping[str, str] = {
    "sinfo": "gpucommons nodes lists nodes and what is free of their GPUs, gpucommons teams what your team may use",
    "srun": "a command becomes a job with gpucommons submit --gpus 1 -- COMMAND, and gpucommons logs -f JOB follows"
    " it. A shell beside a GPU is the terminal of a notebook. Inside of a batch script srun works",
    "salloc": "open a notebook with the part of a GPU that you need: its terminal is a shell beside that GPU",
    "scontrol": "show job is gpucommons show JOB; hold and release are pause and resume; requeue is done by itself;"
    " update is resize, while a job waits; show node is nodes, and State=DRAIN nodes cordon",
    "sacctmgr": "gpucommons teams and gpucommons quota show and change what accounts may use",
    "sshare": "gpucommons teams shows what each team holds and has guaranteed",
    "sprio": "gpucommons why JOB says why a job waits, when it will likely start and what would start it now",
    "seff": "gpucommons show JOB says what a job asked for and what it used",
    "sstat": "gpucommons show JOB says what a job uses while it runs",
    "sattach": "gpucommons logs -f JOB follows what a job prints",
    "sbcast": "the folder that sbatch is called in goes along with the job",
    "sreport": "gpucommons report sums up GPU hours by team, user and project",
    "scrontab": "gpucommons submit --schedule starts a job again and again, and gpucommons schedule lists such",
    "strigger": "gpucommons notify has mails and webhooks sent when jobs start, stop and end",
}  # fmt: skip


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _: argparse.ArgumentParser
) -> None:
    """Add them, without a line in the list of commands: they do nothing."""
    for name in INSTEAD:
        found = commands.add_parser(name, prefix_chars="\0", add_help=False)
        found.add_argument("words", nargs=argparse.REMAINDER)
        found.set_defaults(run=refuse)


def refuse(arguments: argparse.Namespace) -> NoReturn:
    """Say what to do instead."""
    message = f"There is no {arguments.command} here: {INSTEAD[arguments.command]}."
    raise BadRequest(message)


class NotHere(argparse.Action):
    """An option of Slurm's that does nothing here, and what is done in its place."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        """Refuse it, as argparse does what it does not know."""
        instead = str(self.help).removeprefix(_NOT_HERE).replace("%%", "%")
        parser.exit(2, f"gpucommons: {option_string} is not done here: {instead}.\n")


def add_not_here(parser: argparse.ArgumentParser, instead: Mapping[str, str]) -> None:
    """Options by their names, as in ``-i --iterate``."""
    for names, text in instead.items():
        parser.add_argument(
            *names.split(), action=NotHere, nargs="?", metavar="…", help=f"{_NOT_HERE}{text}"
        )

"""The options of ``sbatch``, in ``#SBATCH`` lines as on the command line (``man sbatch``)."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from gpucommons.scheduler.errors import BadRequest

_MARK = "#SBATCH"
#: Used; what stands behind a name is what it is called in messages.
_TEXT = (
    "-J --job-name", "-G --gpus", "--gres", "--gpus-per-node", "--gpus-per-task", "--mem",
    "--mem-per-cpu", "--mem-per-gpu", "-t --time", "-a --array", "-d --dependency", "--signal",
    "-p --partition", "-A --account", "-q --qos", "-D --chdir", "-b --begin", "--export",
    "--cpus-per-gpu",
)  # fmt: skip
_NUMBERS = ("-n --ntasks", "--ntasks-per-node", "-c --cpus-per-task")
#: By which a shell's profile sets defaults for all scripts.
_VARIABLES = {
    "SBATCH_ACCOUNT": "account", "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos",
    "SBATCH_TIMELIMIT": "time", "SBATCH_GRES": "gres", "SBATCH_GPUS": "gpus",
}  # fmt: skip
#: Taken, so that old scripts go through; what they would do does not happen, and that is said.
WITHOUT_MEANING = {
    "-o --output": "the log is kept with the job: gpucommons logs {name}",
    "-e --error": "the log is kept with the job: gpucommons logs {name}",
    "-i --input": "a job here has no input",
    "--open-mode": "the log is kept with the job: gpucommons logs {name}",
    "--mail-type": "you choose once what you are told by mail: gpucommons notify set --mail finish",
    "--mail-user": "you choose once what you are told by mail: gpucommons notify set --mail finish",
    "-C --constraint": "name a GPU's kind in --gres, or a pool with --partition",
    "-w --nodelist": "the scheduler chooses the node",
    "-x --exclude": "the scheduler chooses the node",
    "--reservation": "there are no reservations by name",
    "-L --licenses": "licences are not counted",
    "--comment": "it is not kept",
    "--hint": "it is not used",
    "--gpu-bind": "a job sees its own GPUs only",
    "-m --distribution": "all tasks run on one node",
    "--mem-bind": "it is not used",
    "--priority": "use --qos low, normal or high",
    "--profile": "use is measured anyway: see the job's page",
    "--propagate": "it is not used",
    "--threads-per-core": "it is not used",
    "--gpu-freq": "it is not used",
    "--deadline": "a job waits as long as it must: cancel it where that is too long",
    "--nice": "use --qos low, normal or high",
    "--tmp": "it is not used",
    "--switches": "it is not used",
    "--wckey": "it is not used",
    "--gres-flags": "it is not used",
    "--kill-on-invalid-dep": "a job whose wait can never end fails and says why",
    "--time-min": "a job here has one --time, or none",
    "--acctg-freq": "use is measured anyway: see the job's page",
    "--cpu-freq": "it is not used",
    "-B --extra-node-info": "cores are asked for with --cpus-per-task",
    "--cores-per-socket": "cores are asked for with --cpus-per-task",
    "--sockets-per-node": "cores are asked for with --cpus-per-task",
    "--ntasks-per-core": "cores are asked for with --cpus-per-task",
    "--ntasks-per-socket": "all tasks run on one node",
    "--mincpus": "cores are asked for with --cpus-per-task",
    "-S --core-spec": "it is not used",
    "--bb": "there is no burst buffer",
    "--network": "it is not used",
    "--prefer": "name a GPU's kind in --gres, or a pool with --partition",
    "--wait-all-nodes": "all tasks run on one node",
    "--export-file": "write --export=NAME=VALUE",
}
_FLAGS_WITHOUT_MEANING = {
    "--exclusive": "CPUs and memory are as asked for; GPUs are a job's own",
    "--no-requeue": "a job that is stopped goes back into the queue: cancel it where it must not",
    "-O --overcommit": "it is not used",
    "-s --oversubscribe": "GPUs are a job's own",
    "--get-user-env": "the environment is chosen with gpucommons submit --env",
    "--contiguous": "all tasks run on one node",
    "--spread-job": "all tasks run on one node",
    "--use-min-nodes": "all tasks run on one node",
    "-k --no-kill": "a job that loses its node goes back into the queue",
    "--ignore-pbs": "lines of PBS are not read",
    "--reboot": "nodes are not restarted for a job",
}
#: With a value or without one.
_MAYBE_WITH_VALUE = ("--exclusive", "--get-user-env")
#: As it is anyway.
_FLAGS = ("--requeue", "--parsable", "-Q --quiet", "-v --verbose")
REFUSED = {
    "-W --wait": "follow it with gpucommons logs -f",
    "-H --hold": "submit it, then gpucommons pause",
    "--test-only": "ask gpucommons submit for a quote in the panel",
}
REFUSED_WITH_VALUE = {
    "-M --clusters": "there is one scheduler",
    "--ntasks-per-gpu": "write --ntasks and --gpus-per-task",
    "--gpus-per-socket": "write --gpus",
    "--container": "a program in a container is submitted with gpucommons submit --image",
    "--uid": "a job is its submitter's",
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


def _least(text: str) -> int:
    """Of ``2-4`` nodes at least two."""
    return _one_or_more(text.partition("-")[0])


def _parser(*, of_script: bool = False) -> _Parser:
    parser = _Parser(
        add_help=not of_script,
        prog="gpucommons sbatch", usage="gpucommons sbatch [options] SCRIPT [ARGUMENT …]",
        description="Submit a Slurm batch script as a job. Options are those of Slurm's sbatch, also"
        " as #SBATCH lines of the script.", argument_default=argparse.SUPPRESS,
    )  # fmt: skip
    for names in (*_TEXT, *WITHOUT_MEANING):
        parser.add_argument(*names.split(), help=WITHOUT_MEANING.get(names, "").format(name="JOB"))
    for names in _NUMBERS:
        parser.add_argument(*names.split(), type=_one_or_more, metavar="N")
    parser.add_argument("-N", "--nodes", type=_least, metavar="N")
    for names, instead in REFUSED_WITH_VALUE.items():
        parser.add_argument(*names.split(), help=instead)
    for names in (*_FLAGS, *_FLAGS_WITHOUT_MEANING, *REFUSED):
        parser.add_argument(*names.split(), action="store_true", help=REFUSED.get(names))
    parser.add_argument("--wrap", metavar="COMMAND", help="this command in place of a script")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGUMENT …]")
    return parser


def of_command_line(words: Sequence[str]) -> dict[str, object]:
    """Options by name (``cpus_per_task``); ``words`` are the script and its arguments."""
    return _parsed(_parser(), words)


def _parsed(parser: _Parser, words: Sequence[str]) -> dict[str, object]:
    plain = [
        next((one for one in _MAYBE_WITH_VALUE if word.startswith(f"{one}=")), word)
        for word in words
    ]
    return dict(vars(parser.parse_args(plain)))


def places(text: str) -> dict[str, str]:
    """Where the options of a script stand, by name: ``line 7``."""
    return {name: place for place, found in _lines(text) for name in found}


def of_script(text: str) -> dict[str, object]:
    """Options of the ``#SBATCH`` lines before the first command.

    Raises
    ------
    BadRequest
        Where the text is no script, or with the number of a line that is wrong.
    """
    return {name: value for _, found in _lines(text) for name, value in found.items()}


def _lines(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        message = (
            "This is no batch script: its first line must be #! and a program, as in #!/bin/bash."
        )
        raise BadRequest(message)
    parser = _parser(of_script=True)
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
        options = _parsed(parser, words)
        if options.pop("words", None) or "wrap" in options:
            parser.error("only options stand in such a line")
        yield f"line {number}", options


def said(options: dict[str, object], of: dict[str, str]) -> dict[str, str]:
    """Of the options that are given, those of a table: how they are written, and what is said."""
    by_name = {names.split()[-1]: text for names, text in of.items()}
    return {
        option: text
        for option, text in by_name.items()
        if option.removeprefix("--").replace("-", "_") in options
    }


def of_environment(environ: Mapping[str, str]) -> dict[str, object]:
    """Options that variables give; they win over the script, and the command line over them."""
    return {option: environ[name] for name, option in _VARIABLES.items() if environ.get(name)}


def notes(options: dict[str, object], job_name: str, where: Mapping[str, str]) -> list[str]:
    """What of the options means nothing here, or not all that it means there; with its line.

    Options for which the same is to be said stand in one line.
    """
    by_text: dict[str, list[str]] = {}
    for option, text in said(options, WITHOUT_MEANING | _FLAGS_WITHOUT_MEANING).items():
        by_text.setdefault(text.format(name=job_name), []).append(option)
    told = [
        (
            found,
            f"{' and '.join(found)} {'mean' if len(found) > 1 else 'means'} nothing here: {text}",
        )
        for text, found in by_text.items()
    ]
    if "@" in str(options.get("signal", "")):
        text = "the signal comes when a stop is announced: how long before SIGTERM, the pool says"
        told.append((["--signal"], f"--signal={options['signal']}: {text}"))
    return [_placed(found, text, where) for found, text in told]


def _placed(options: Sequence[str], text: str, where: Mapping[str, str]) -> str:
    found = (where.get(one.removeprefix("--").replace("-", "_"), "") for one in options)
    lines = [place.removeprefix("line ") for place in dict.fromkeys(found) if place]
    if not lines:
        return text
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)}: {text}"

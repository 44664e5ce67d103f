"""The options of ``gpucommons submit``, and the fields of a request that they fill."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpucommons.gpu.slices.slices import parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.options import add_max_mib, gib, positive
from gpucommons.scheduler.cli.profiles import commands as profiles
from gpucommons.scheduler.cli.schedules import commands as schedules
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.launchers import AUTO, LAUNCHERS

_AFTER = {
    "--after": "once this job has succeeded",
    "--after-any": "once this job is over",
    "--after-failed": "once it has failed",
}
#: What a role is without any option.
_DEFAULT_ROLE = {"count": 1, "milli_gpu": 0, "memory_mib": 1024}
#: One of them says how large a worker is.
_SIZES = {"milli_gpu", "gpu_memory_mib"}
#: As long as a run must hold its GPUs to teach.
_TRIAL_S = 300
_BY_NAME = ("env", "secrets", "labels")


def add_options(command: argparse.ArgumentParser) -> None:
    """Describe all of them."""
    _add_what(command)
    _add_size(command)
    _add_who_and_where(command)
    _add_others(command)
    _add_files_and_environment(command)
    _add_stops(command)
    _add_plan(command)
    add_max_mib(command)
    command.add_argument("--follow", action="store_true", help="print the log until the job ends")
    schedules.add_when(command)


def _add_what(command: argparse.ArgumentParser) -> None:
    """What is to run."""
    command.add_argument("script", nargs="?", type=Path, help="a .py or .ipynb file")
    command.add_argument(
        "-f", "--file", type=Path, help="a job as YAML; with a notebook: its parameters as YAML"
    )
    command.add_argument("-m", "--module", help="a package or module of the current folder")
    command.add_argument(
        "-p",
        "--parameter",
        action="append",
        nargs="?",
        const="",
        default=[],
        metavar="NAME VALUE",
        help="of a notebook, for its cell tagged parameters; may be repeated, also as NAME=VALUE",
    )


def _add_size(command: argparse.ArgumentParser) -> None:
    """How large it is."""
    command.add_argument("--gpus", metavar="N", help="per worker: 0 (default), ½, 0.5, 1, 4 …")
    command.add_argument(
        "--gpu-memory",
        type=gib,
        metavar="12GiB",
        help="in place of --gpus: the smallest slice with so much GPU memory, per worker",
    )
    command.add_argument("--workers", type=positive, help="as one gang (default: 1)")
    command.add_argument("--min-workers", type=positive, help="it may run with as few")
    command.add_argument("--max-workers", type=positive, help="and grow to as many")
    command.add_argument("--gpu-kind", help="only GPUs of this kind, e.g. A100-40")
    command.add_argument(
        "--cpu-milli",
        type=positive,
        help="per worker; 1000 = one core, the default where a share of a GPU has as much",
    )
    command.add_argument("--memory-mib", type=positive, help="per worker (default: 1024)")


def _add_who_and_where(command: argparse.ArgumentParser) -> None:
    """Whose it is, where and how it may run."""
    command.add_argument("--name", help="default: the file's name; a number is added")
    command.add_argument("--team", help="who pays; default: your only team")
    command.add_argument("--pool", action="append", default=[], help="only here; may be repeated")
    command.add_argument("--priority", choices=("low", "normal", "high"), help="within the team")
    command.add_argument(
        "--launcher",
        help=f"of several workers ({', '.join(LAUNCHERS)}, or one of a plugin); default: {AUTO}, the one"
        " that the script or command proposes",
    )
    command.add_argument("--guaranteed-only", action="store_true", help="never on borrowed GPUs")
    command.add_argument("--retrain", action="store_true", help="a retrain job: borrows only")
    command.add_argument(
        "--max-run-s", type=positive, help="after so long, all attempts together, it is stopped"
    )


def _add_others(command: argparse.ArgumentParser) -> None:
    """What it waits for, and what it runs near to."""
    for option, when in _AFTER.items():
        command.add_argument(option, action="append", default=[], metavar="JOB", help=when)
    command.add_argument(
        "--near", action="append", default=[], metavar="JOB", help="rather where this job runs"
    )
    command.add_argument(
        "--data", action="append", default=[], metavar="NAME", help="rather where this data lies"
    )


def _add_files_and_environment(command: argparse.ArgumentParser) -> None:
    """What it starts from, runs in and leaves."""
    command.add_argument(
        "--resume-from",
        metavar="JOB",
        help="go on from what your job saved last; one that still waits is cancelled",
    )
    command.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="ENVIRONMENT|NAME=VALUE",
        help="the kernel, venv or conda environment to run in, by name or path (default: the one"
        " that is active here), or on a cluster an image (default: this notebook's own); or a"
        " variable of the job, which may be repeated",
    )
    command.add_argument(
        "--left-out",
        choices=("link", "without"),
        help="large files that stay behind: link them from your home, or go without them",
    )
    command.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="VARIABLE=SECRET",
        help="a secret kept with `gpucommons secret`",
    )
    command.add_argument(
        "--results-to",
        help="folder below your home: results come to results/JOB in it (default: the script's)",
    )
    command.add_argument(
        "--function", help="a notebook's function to call with the folder to resume"
    )


def _add_stops(command: argparse.ArgumentParser) -> None:
    """What happens when it is stopped."""
    command.add_argument(
        "--notice-signal",
        choices=("SIGUSR1", "none"),
        help="sent when a stop is announced, before SIGTERM; default: as the pool says",
    )
    command.add_argument(
        "--no-hibernation",
        action="store_true",
        help="never save its processes to disk when it is stopped",
    )
    command.add_argument(
        "--exit-after-signal",
        choices=("preempted", "success"),
        help="what an exit with 0 after a signal means; default: preempted, the job goes on later",
    )


def _add_plan(command: argparse.ArgumentParser) -> None:
    """By which plan it is judged, what it may cost, and what it belongs to."""
    command.add_argument(
        "--plan",
        metavar="ID",
        help="the plan of `gpucommons advise` that it follows: shown beside what came",
    )
    command.add_argument(
        "--try",
        dest="trial",
        action="store_true",
        help="run the plan for five minutes at low priority: its speed and memory stand beside what the"
        " plan said, and the next plans learn from them",
    )
    command.add_argument(
        "--max-price",
        type=float,
        metavar="N",
        help="per GPU and hour, in the pools' currency: it waits while each of its pools costs more",
    )
    command.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="what it belongs to, as in project=thesis: reports add up by project; may be repeated",
    )
    command.add_argument(
        "--profile",
        metavar="NAME",
        help="what is not said here is as this profile of your team says (NAME, or TEAM/NAME)",
    )


def role(
    arguments: argparse.Namespace, profile: models.ProfileView | None = None
) -> dict[str, object]:
    """What is given, else what the profile says, else the defaults."""
    given = given_role(arguments)
    said = {} if profile is None else profile.job.worker()
    if given.keys() & _SIZES:
        said = {field: value for field, value in said.items() if field not in _SIZES}
    return {**_DEFAULT_ROLE, **said, **given}


def given_role(arguments: argparse.Namespace) -> dict[str, object]:
    """Fields of a worker that were named."""
    if arguments.gpus is not None and arguments.gpu_memory is not None:
        message = "Say --gpus or --gpu-memory, not both: a size, or the memory that it must have."
        raise BadRequest(message)
    named = {
        "count": arguments.workers,
        "milli_gpu": None if arguments.gpus is None else parse_milli_gpu(arguments.gpus),
        "memory_mib": arguments.memory_mib,
        "gpu_memory_mib": arguments.gpu_memory,
        "cpu_milli": arguments.cpu_milli,
        "gpu_kind": arguments.gpu_kind or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def all_options(
    arguments: argparse.Namespace, profile: models.ProfileView | None
) -> dict[str, Any]:
    """What is given, else what the profile says; of variables, secrets and labels each for itself."""
    given = given_options(arguments)
    said = {} if profile is None else profiles.fields(profile)
    both = {name: {**said.get(name, {}), **given.get(name, {})} for name in _BY_NAME}
    return {**said, **given, **{name: value for name, value in both.items() if value}}


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fields of the request that were named."""
    if arguments.trial and not arguments.plan:
        raise BadRequest(
            "--try tries a plan: name it (--plan ID), as `gpucommons advise` prints it."
        )
    if arguments.trial and (arguments.priority or arguments.max_run_s is not None):
        raise BadRequest(
            "--try runs a plan for five minutes at low priority: leave out --priority and --max-run-s, or --try."
        )
    trial = {"max_run_s": _TRIAL_S, "priority": "low"} if arguments.trial else {}
    named = {
        "name": arguments.name,
        "team": arguments.team,
        "pools": arguments.pool,
        "priority": arguments.priority,
        "launcher": arguments.launcher,
        "max_run_s": arguments.max_run_s,
        "max_price": arguments.max_price,
        "min_workers": arguments.min_workers,
        "max_workers": arguments.max_workers,
        "after": arguments.after,
        "after_any": arguments.after_any,
        "after_failed": arguments.after_failed,
        "near": arguments.near,
        "resume_from": arguments.resume_from,
        "data": arguments.data,
        "results_to": arguments.results_to,
        "notice_signal": arguments.notice_signal,
        "hibernation": False if arguments.no_hibernation else None,
        "exit_after_signal": arguments.exit_after_signal,
        "env": _pairs(arguments.variables, "--env"),
        "secrets": _pairs(arguments.secret, "--secret"),
        "over_quota": False if arguments.guaranteed_only else None,
        "kind": "retrain" if arguments.retrain else None,
        "plan": arguments.plan,
        "labels": _pairs(arguments.label, "--label"),
        **trial,
    }
    return {name: value for name, value in named.items() if value not in (None, [], {})}


def environment_and_variables(given: list[str]) -> tuple[str | None, list[str]]:
    """``--env`` names the environment, and sets a variable where it has the form NAME=VALUE."""
    variables = [item for item in given if "=" in item.partition("/")[0]]
    names = [item for item in given if item not in variables]
    if len(names) > 1:
        message = (
            f"--env names one environment, not {' and '.join(names)}; variables are NAME=VALUE."
        )
        raise BadRequest(message)
    return (names[0] if names else None), variables


def _pairs(items: list[str], option: str) -> dict[str, str]:
    pairs = [item.partition("=") for item in items]
    for name, equals, _ in pairs:
        if not equals:
            message = f"{option} {name} must be written NAME=VALUE."
            raise BadRequest(message)
    return {name: value for name, _, value in pairs}

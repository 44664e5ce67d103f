"""The command line's grammar; each sub-command names the function that runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from gpucommons.scheduler import up
from gpucommons.scheduler.cli import (
    admin,
    jobs,
    logs,
    report,
    secrets,
    simulate,
    submit,
)
from gpucommons.scheduler.cli.admin import positive
from gpucommons.scheduler.cli.install import command as installing
from gpucommons.scheduler.cli.notifications import commands as notifications
from gpucommons.scheduler.cli.operating import commands as operating
from gpucommons.scheduler.cli.operating import parking
from gpucommons.scheduler.cli.pipelines import commands as pipelines
from gpucommons.scheduler.cli.plans import commands as plans
from gpucommons.scheduler.cli.profiles import commands as profiles
from gpucommons.scheduler.cli.schedules import commands as schedules
from gpucommons.scheduler.cli.slurm_commands import commands as slurm
from gpucommons.scheduler.cli.sweeps import commands as sweeps
from gpucommons.scheduler.launchers import AUTO, LAUNCHERS

#: Largest snapshot unless told otherwise, in MiB.
SNAPSHOT_MIB = 64
_AFTER = {
    "--after": "once this job has succeeded",
    "--after-any": "once this job is over",
    "--after-failed": "once it has failed",
}


def build_parser() -> argparse.ArgumentParser:
    """Build the whole grammar."""
    parser = argparse.ArgumentParser(
        prog="gpucommons",
        description="Share GPUs between notebooks and training jobs.",
        epilog="Exit codes: 0 done, 1 refused, 2 bad command line or file, 3 no scheduler, 4 no such"
        " thing, 5 not allowed.",
    )
    parser.add_argument("--version", action="version", version=version("gpucommons"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = _shared()
    _add_submit(commands, shared)
    _add_jobs(commands, shared)
    _add_admin(commands, shared)
    _add_machine(commands)
    parts = (plans, profiles, schedules, sweeps, pipelines, slurm, operating, notifications)
    for others in parts:
        others.add_commands(commands, shared)
    installing.add_command(commands)
    return parser


def _shared() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, parents=[_output()])
    shared.add_argument(
        "--url", help="the scheduler's URL (default: GPUCOMMONS_URL, else this machine's)"
    )
    shared.add_argument("--state", help="state folder of `gpucommons up` on this machine")
    return shared


def _output() -> argparse.ArgumentParser:
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("--output", choices=("text", "json"), default="text")
    return output


def _add_submit(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    command = commands.add_parser(
        "submit",
        parents=[shared],
        help="submit a script, notebook, command or YAML file",
        usage="gpucommons submit [options] SCRIPT [-- ARGUMENT …] | -m MODULE [-- ARGUMENT …] |"
        " -- COMMAND … | -f FILE",
    )
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
    command.add_argument("--gpus", metavar="N", help="per worker: 0 (default), ½, 0.5, 1, 4 …")
    command.add_argument(
        "--gpu-memory",
        type=admin.gib,
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
    _add_others(command)
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
    plans.add_to_submit(command)
    profiles.add_to_submit(command)
    command.add_argument("--max-mib", type=positive, default=SNAPSHOT_MIB, help="largest snapshot")
    command.add_argument("--follow", action="store_true", help="print the log until the job ends")
    schedules.add_when(command)
    command.set_defaults(run=submit.submit)


def _add_others(command: argparse.ArgumentParser) -> None:
    """What a job waits for, and what it runs near to."""
    for option, when in _AFTER.items():
        command.add_argument(option, action="append", default=[], metavar="JOB", help=when)
    command.add_argument(
        "--near", action="append", default=[], metavar="JOB", help="rather where this job runs"
    )
    command.add_argument(
        "--data", action="append", default=[], metavar="NAME", help="rather where this data lies"
    )


def _add_jobs(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    listing = commands.add_parser("jobs", parents=[shared], help="list jobs")
    listing.add_argument("--all", action="store_true", help="finished ones too")
    listing.add_argument("--team")
    listing.add_argument("--owner")
    listing.add_argument("--limit", type=positive, default=100, metavar="N")
    listing.set_defaults(run=jobs.listing)
    for name, text, function in (
        ("show", "show one job", jobs.detail),
        (
            "why",
            "say why a job waits, when it will likely start, and what would start it now",
            jobs.why,
        ),
        ("cancel", "cancel a job", jobs.act),
        ("pause", "stop a job and keep it for later", jobs.pause),
        ("resume", "put a paused job back in line", jobs.act),
        ("again", "submit the same job again", jobs.act),
    ):
        command = commands.add_parser(name, parents=[shared], help=text)
        command.add_argument("job", help="name or id")
        if function is jobs.pause:
            command.add_argument("--yes", action="store_true", help="do not ask what it may cost")
        if name == "again":
            command.add_argument(
                "--from-here", action="store_true", help="go on from what it saved last, not anew"
            )
        command.set_defaults(run=function)
    release = commands.add_parser(
        "release",
        parents=[shared],
        help="give the GPU of an own notebook back: it restarts without it, and what its server cannot"
        " keep of its kernels is lost",
    )
    release.add_argument("lease", metavar="LEASE", help="id of the lease, as `why` says it")
    release.set_defaults(run=jobs.release)
    resize = commands.add_parser(
        "resize",
        parents=[shared],
        help="give a job that waits another size; change the GPU memory of a notebook in use",
        description="gpucommons resize JOB --gpus N [--workers N]: the job keeps its place, its saved"
        " progress and its curve. gpucommons resize LEASE GIB: another memory limit for a notebook"
        " in use (admins).",
    )
    resize.add_argument("job", metavar="JOB|LEASE", help="name or id of a job, or id of a lease")
    resize.add_argument("--gpus", metavar="N", help="a job's GPUs per worker: ½, 0.5, 1, 4 …")
    resize.add_argument("--workers", type=positive, metavar="N", help="a job's workers")
    resize.add_argument(
        "gib", nargs="?", type=admin.gib, metavar="GIB", help="a notebook's memory limit: 12.5"
    )
    resize.set_defaults(run=jobs.resize)
    log = commands.add_parser("logs", parents=[shared], help="print a job's log")
    log.add_argument("job", help="name or id")
    log.add_argument("--rank", type=int, default=0)
    log.add_argument("--attempt", type=int)
    log.add_argument("-f", "--follow", action="store_true")
    log.set_defaults(run=logs.logs)
    curve = commands.add_parser("curve", parents=[shared], help="print a job's metric curve")
    curve.add_argument("job", help="name or id")
    curve.add_argument(
        "--source",
        choices=("report", "trainer", "tensorboard", "log"),
        help="where it was read (default: the best one)",
    )
    curve.set_defaults(run=jobs.curve)
    fetch = commands.add_parser(
        "results", parents=[shared], help="where the files are that a job wrote, or bring them here"
    )
    fetch.add_argument("job", help="name or id")
    fetch.add_argument("--to", type=Path, help="bring them to this folder")
    fetch.set_defaults(run=jobs.results)
    secret = commands.add_parser(
        "secret", parents=[_output()], help="keep a secret (read from standard input)"
    )
    secret.add_argument("name")
    secret.set_defaults(run=secrets.put_secret)


def _add_admin(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    teams = commands.add_parser("teams", parents=[shared], help="teams, quota and use")
    teams.add_argument(
        "--changes", action="store_true", help="the last changes: when, who, old → new"
    )
    teams.set_defaults(run=admin.teams)
    nodes = commands.add_parser("nodes", parents=[shared], help="the capacity map; cordon, fence …")
    nodes.add_argument("action", nargs="?", choices=("cordon", "uncordon", "fence", "notice"))
    nodes.add_argument("node", nargs="?")
    nodes.add_argument("--reason", default="", help="kept in the audit log")
    nodes.add_argument("--in", dest="in_s", help="with notice: 120s, 2m")
    nodes.set_defaults(run=admin.nodes)
    idle = commands.add_parser("idle", help="idle notebooks").add_subparsers(required=True)
    idle.add_parser("list", parents=[shared], help="who holds a GPU idle").set_defaults(
        run=admin.idle
    )
    park = idle.add_parser("park", parents=[shared], help="move its GPU memory to the host")
    park.add_argument("lease", metavar="NOTEBOOK", help="USER, USER/SERVER, or a lease's id")
    park.add_argument("--reason", default="", help="told to its user, where it is another's")
    park.set_defaults(run=parking.park)
    reclaim = commands.add_parser("reclaim", parents=[shared], help="take a notebook's GPU back")
    reclaim.add_argument("lease", metavar="NOTEBOOK", help="USER, USER/SERVER, or a lease's id")
    reclaim.add_argument("--force", action="store_true", help="even if busy; needs --reason")
    reclaim.add_argument("--reason", default="")
    reclaim.set_defaults(run=admin.reclaim)
    simulate.add_command(commands, shared)
    report.add_command(commands, shared)


def _of_doctor(name: str) -> Callable[[argparse.Namespace], int]:
    """A function of :mod:`.doctor`, which is loaded when it runs: no other command needs the node's parts."""

    def run(arguments: argparse.Namespace) -> int:
        from gpucommons.scheduler.cli import doctor  # noqa: PLC0415 - see above

        found: Callable[[argparse.Namespace], int] = getattr(doctor, name)
        return found(arguments)

    return run


def _add_machine(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    machine = commands.add_parser("up", help="start everything on this machine")
    up.add_arguments(machine)
    machine.set_defaults(run=up.run)
    examined = commands.add_parser(
        "doctor",
        parents=[_output()],
        help="what this machine can enforce, or what a cluster lacks, and what to do about it",
        epilog="Exit codes: 0 nothing stops work here, 1 something does, 2 bad command line.",
    )
    examined.add_argument("--state", help="state folder whose disk is looked at")
    examined.add_argument(
        "--trusted-users",
        action="store_true",
        help="for `up --trusted-users` or --demo, where all users share one account",
    )
    examined.add_argument(
        "--cluster", action="store_true", help="the cluster of your kubeconfig, not this machine"
    )
    examined.add_argument(
        "--namespace", default="gpucommons", help="with --cluster: of our release"
    )
    examined.set_defaults(run=_of_doctor("doctor"))
    saving = commands.add_parser(
        "hibernation", help="save and wake live processes on this machine"
    ).add_subparsers(required=True, metavar="COMMAND")
    got = saving.add_parser("setup", help="get CRIU into your own folder, without root")
    got.add_argument("--folder", help="instead of the state folder")
    got.set_defaults(run=_of_doctor("set_up_hibernation"))
    saving.add_parser("check", help="save and wake a small process").set_defaults(
        run=_of_doctor("check_hibernation")
    )

"""The command line's grammar; each sub-command names the function that runs it."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

from gpucommons.scheduler import up
from gpucommons.scheduler.cli import admin, jobs

#: Largest snapshot unless told otherwise, in MiB.
SNAPSHOT_MIB = 64


def build_parser() -> argparse.ArgumentParser:
    """Build the whole grammar."""
    parser = argparse.ArgumentParser(
        prog="gpucommons",
        description="Share GPUs between notebooks and training jobs.",
        epilog="Exit codes: 0 done, 1 refused, 2 bad command line or file, 3 no scheduler,"
        " 4 no such thing, 5 not allowed.",
    )
    parser.add_argument("--version", action="version", version=version("gpucommons"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = _shared()
    _add_submit(commands, shared)
    _add_jobs(commands, shared)
    _add_admin(commands, shared)
    _add_machine(commands)
    return parser


def _shared() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--url", help="the scheduler's URL (default: GPUCOMMONS_URL, else this machine's)"
    )
    shared.add_argument("--state", help="state folder of `gpucommons up` on this machine")
    shared.add_argument("--output", choices=("text", "json"), default="text")
    return shared


def _add_submit(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    submit = commands.add_parser(
        "submit",
        parents=[shared],
        help="submit a script, notebook or YAML file",
        usage="gpucommons submit [options] SCRIPT [-- ARGUMENT …] | -f FILE",
    )
    submit.add_argument("script", nargs="?", type=Path)
    submit.add_argument("-f", "--file", type=Path, help="a job as YAML")
    submit.add_argument("--gpus", default="0", metavar="N", help="per worker: 0, ½, 0.5, 1, 4 …")
    submit.add_argument("--workers", type=int, default=1)
    submit.add_argument("--min-workers", type=int)
    submit.add_argument("--max-workers", type=int)
    submit.add_argument("--gpu-kind")
    submit.add_argument("--cpu-milli", type=int, default=1000, help="per worker; 1000 = one core")
    submit.add_argument("--memory-mib", type=int, default=1024, help="per worker")
    submit.add_argument("--name")
    submit.add_argument("--team")
    submit.add_argument("--pool", action="append", default=[])
    submit.add_argument("--priority", choices=("low", "normal", "high"))
    submit.add_argument("--launcher", choices=("plain", "torchrun"))
    submit.add_argument("--guaranteed-only", action="store_true", help="never on borrowed GPUs")
    submit.add_argument("--retrain", action="store_true", help="a retrain job: borrows only")
    submit.add_argument("--max-run-s", type=int)
    submit.add_argument("--after", action="append", default=[], metavar="JOB")
    submit.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    submit.add_argument("--secret", action="append", default=[], metavar="VARIABLE=SECRET")
    submit.add_argument("--results-to", help="folder below your home for the results")
    submit.add_argument(
        "--function", help="a notebook's function to call with the folder to resume"
    )
    submit.add_argument("--max-mib", type=int, default=SNAPSHOT_MIB, help="largest snapshot")
    submit.add_argument("--follow", action="store_true", help="print the log until the job ends")
    submit.set_defaults(run=jobs.submit)


def _add_jobs(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    listing = commands.add_parser("jobs", parents=[shared], help="list jobs")
    listing.add_argument("--all", action="store_true", help="finished ones too")
    listing.add_argument("--team")
    listing.add_argument("--owner")
    listing.add_argument("--limit", type=int, default=100)
    listing.set_defaults(run=jobs.listing)
    for name, text, function in (
        ("show", "show one job", jobs.detail),
        ("why", "say why a job waits and what would start it", jobs.why),
        ("cancel", "cancel a job", jobs.act),
        ("pause", "stop a job with a checkpoint and keep it", jobs.act),
        ("resume", "put a paused job back in line", jobs.act),
        ("again", "submit the same job again", jobs.act),
    ):
        command = commands.add_parser(name, parents=[shared], help=text)
        command.add_argument("job", help="name or id")
        command.set_defaults(run=function)
    logs = commands.add_parser("logs", parents=[shared], help="print a job's log")
    logs.add_argument("job", help="name or id")
    logs.add_argument("--rank", type=int, default=0)
    logs.add_argument("--attempt", type=int)
    logs.add_argument("-f", "--follow", action="store_true")
    logs.set_defaults(run=jobs.logs)
    secret = commands.add_parser("secret", help="keep a secret (read from standard input)")
    secret.add_argument("name")
    secret.set_defaults(run=jobs.put_secret)


def _add_admin(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    commands.add_parser("teams", parents=[shared], help="teams, quota and use").set_defaults(
        run=admin.teams
    )
    apply = commands.add_parser("apply", parents=[shared], help="apply pools, teams and policy")
    apply.add_argument("-f", "--file", type=Path, required=True)
    apply.set_defaults(run=admin.apply)
    quota = commands.add_parser("quota", help="change quotas").add_subparsers(required=True)
    change = quota.add_parser("set", parents=[shared], help="change one team's quota in one pool")
    change.add_argument("team")
    change.add_argument("--pool")
    change.add_argument("--fixed")
    change.add_argument("--guaranteed")
    change.add_argument("--limit", help="a number of GPUs, or none")
    change.add_argument("--weight", type=int)
    change.add_argument("--dry-run", action="store_true", help="only check the layout")
    change.set_defaults(run=admin.quota_set)
    nodes = commands.add_parser("nodes", parents=[shared], help="the capacity map; cordon, fence")
    nodes.add_argument("action", nargs="?", choices=("cordon", "uncordon", "fence"))
    nodes.add_argument("node", nargs="?")
    nodes.add_argument("--reason", default="", help="kept in the audit log")
    nodes.set_defaults(run=admin.nodes)
    idle = commands.add_parser("idle", help="idle notebooks").add_subparsers(required=True)
    idle.add_parser("list", parents=[shared], help="who holds a GPU idle").set_defaults(
        run=admin.idle
    )
    reclaim = commands.add_parser("reclaim", parents=[shared], help="take a notebook's GPU back")
    reclaim.add_argument("lease")
    reclaim.add_argument("--force", action="store_true", help="even if busy; needs --reason")
    reclaim.add_argument("--reason", default="")
    reclaim.set_defaults(run=admin.reclaim)
    report = commands.add_parser("report", parents=[shared], help="GPU hours by team and user")
    report.add_argument("--days", type=int, default=30)
    report.add_argument("--csv", action="store_true")
    report.set_defaults(run=admin.report)


def _add_machine(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    machine = commands.add_parser("up", help="start everything on this machine")
    up.add_arguments(machine)
    machine.set_defaults(run=up.run)

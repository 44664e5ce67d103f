"""The grammar of the commands of this folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpucommons.scheduler.cli import admin
from gpucommons.scheduler.cli.operating import audit, backup, support


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add them."""
    _add_backup(commands)
    _add_quota(commands, shared)
    _add_apply(commands, shared)
    bundle = commands.add_parser(
        "support-bundle",
        parents=[shared],
        help="one archive for who helps from outside, without secrets",
        description="Versions, settings, logs, health, queue, events and metrics. Passwords, tokens and"
        " what users wrote are left out; names of users are replaced.",
    )
    bundle.add_argument("file", metavar="FILE.tar.gz")
    bundle.add_argument("--with-names", action="store_true", help="keep the names of users")
    bundle.set_defaults(run=support.support_bundle)
    audited = commands.add_parser("audit", help="what happened").add_subparsers(required=True)
    exported = audited.add_parser(
        "export", parents=[shared], help="every event since a day, a line of JSON each"
    )
    exported.add_argument("--since", type=audit.day, default=0, metavar="YYYY-MM-DD", help="in UTC")
    exported.set_defaults(run=audit.export)


def _add_backup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument("--output", choices=("text", "json"), default="text")
    database.add_argument("--state", help="state folder of `gpucommons up` on this machine")
    database.add_argument(
        "--store-url", help="default: GPUCOMMONS_STORE_URL, else the database in the state folder"
    )
    saved = commands.add_parser(
        "backup",
        parents=[database],
        help="write all that the scheduler knows to one file, while it works",
        description="Teams, quotas, jobs, leases, history: everything but the files of jobs.",
    )
    saved.add_argument(
        "file", metavar="FILE", help="replaced when all is written; - = standard output"
    )
    saved.set_defaults(run=backup.back_up)
    restored = commands.add_parser(
        "restore",
        parents=[database],
        help="fill a new, empty database from a backup",
        description="Stop the scheduler first. Its next start finds again what runs.",
    )
    restored.add_argument("file", metavar="FILE", help="- = standard input")
    restored.add_argument("--check", action="store_true", help="only look whether FILE is whole")
    restored.set_defaults(run=backup.restore)


def _add_quota(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    quota = commands.add_parser("quota", help="change quotas").add_subparsers(required=True)
    change = quota.add_parser("set", parents=[shared], help="change one team's quota in one pool")
    change.add_argument("team")
    for name in ("--pool", "--fixed", "--guaranteed"):
        change.add_argument(name)
    change.add_argument("--limit", help="a number of GPUs, or none")
    change.add_argument("--weight", type=int)
    change.add_argument("--dry-run", action="store_true", help="only check the layout")
    change.set_defaults(run=admin.quota_set)


def _add_apply(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    apply = commands.add_parser(
        "apply", parents=[shared], help="apply pools, teams, policy, profiles"
    )
    apply.add_argument("-f", "--file", type=Path, required=True)
    apply.add_argument("--dry-run", action="store_true", help="only say what would change")
    about = "remove teams that FILE does not name; refused while one of them has work"
    apply.add_argument("--prune", action="store_true", help=about)
    about = "with --prune: a team that has work loses its quotas, and goes once it has none"
    apply.add_argument("--force", action="store_true", help=about)
    apply.set_defaults(run=admin.apply)
    about = "print pools, teams and policy as they are, as a file for apply"
    commands.add_parser("config", parents=[shared], help=about).set_defaults(run=admin.write_config)

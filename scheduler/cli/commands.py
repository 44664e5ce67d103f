"""Which module has a command, and the parser with the options of that one alone.

Each module describes its own commands in ``add_commands`` and sets what runs them. Only the module of the
command that is typed is loaded; the list of all, as in ``gpucommons --help``, loads all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from gpucommons.scheduler.cli import options

_HERE = "gpucommons.scheduler.cli"
#: In the order of ``gpucommons --help``.
MODULES: Mapping[str, tuple[str, ...]] = {
    f"{_HERE}.submit.command": ("submit",),
    f"{_HERE}.jobs.listing": ("jobs", "show"),
    f"{_HERE}.jobs.why": ("why",),
    f"{_HERE}.jobs.steering": ("cancel", "pause", "resume", "again", "resize"),
    f"{_HERE}.jobs.logs": ("logs",),
    f"{_HERE}.jobs.curve": ("curve",),
    f"{_HERE}.jobs.data": ("data",),
    f"{_HERE}.jobs.results": ("results",),
    f"{_HERE}.secrets": ("secret",),
    f"{_HERE}.operating.teams": ("teams", "quota"),
    f"{_HERE}.operating.nodes": ("nodes",),
    f"{_HERE}.operating.notebooks": ("idle", "reclaim", "release"),
    f"{_HERE}.simulate": ("simulate",),
    f"{_HERE}.report": ("report",),
    "gpucommons.scheduler.up": ("up",),
    f"{_HERE}.doctor": ("doctor",),
    f"{_HERE}.hibernation": ("hibernation",),
    f"{_HERE}.plans.advise": ("advise",),
    f"{_HERE}.plans.probe": ("probe",),
    f"{_HERE}.plans.past": ("calibration",),
    f"{_HERE}.plans.budgets": ("budget",),
    f"{_HERE}.profiles.commands": ("profile",),
    f"{_HERE}.schedules.commands": ("schedule",),
    f"{_HERE}.sweeps.commands": ("sweep",),
    f"{_HERE}.pipelines.commands": ("pipeline",),
    f"{_HERE}.slurm_commands.commands": ("sbatch", "squeue", "scancel", "sacct"),
    f"{_HERE}.operating.backup": ("backup", "restore"),
    f"{_HERE}.operating.configuration": ("apply", "config"),
    f"{_HERE}.operating.support": ("support-bundle",),
    f"{_HERE}.operating.audit": ("audit",),
    f"{_HERE}.notifications.commands": ("users", "notify"),
    f"{_HERE}.install.command": ("install",),
    f"{_HERE}.slurm_commands.elsewhere": (
        "sinfo", "srun", "salloc", "scontrol", "sacctmgr", "sshare", "sprio", "seff", "sstat", "sattach",
        "sbcast", "sreport", "scrontab", "strigger",
    ),
}  # fmt: skip
_VERSION = "--version"


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        # What it loads takes as long as all else here.
        from importlib.metadata import version  # noqa: PLC0415 - see above

        sys.stdout.write(f"{version('gpucommons')}\n")
        parser.exit()


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser for a command line that begins so; with the options of all commands where it names none."""
    parser = argparse.ArgumentParser(
        prog="gpucommons",
        description="Share GPUs between notebooks and training jobs.",
        epilog="Exit codes: 0 done, 1 refused as things are, 2 bad command line or file, or what can never"
        " run as it is written, 3 no scheduler, 4 no such thing, 5 not allowed.",
    )
    about = "show program's version number and exit"
    parser.add_argument(_VERSION, action=_Version, nargs=0, dest=argparse.SUPPRESS, help=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = options.shared()
    for module in _modules(*words[:1]):
        import_module(module).add_commands(commands, shared)
    for one in commands.choices.values():
        # What is wrong with a command's options is said below its own usage.
        one.set_defaults(refuse=one.error)
    return parser


def names() -> tuple[str, ...]:
    """Of all commands."""
    return tuple(name for found in MODULES.values() for name in found)


def _modules(first: str = "") -> Sequence[str]:
    if first == _VERSION:
        return ()
    return [module for module, names in MODULES.items() if first in names] or [*MODULES]

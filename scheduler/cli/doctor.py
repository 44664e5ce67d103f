"""``gpucommons doctor``: what this machine can enforce, and what to change to enforce more.

With ``--cluster`` it looks at the cluster of the caller's kubeconfig instead (:mod:`.cluster_doctor`).

It asks the machine itself, no scheduler; of a ``gpucommons up`` that runs on the state folder it
takes into account whether all users share one account there. Exit codes: 0 nothing stops work here (there may be advice) ·
1 something does (its line says what to do) · 2 wrong command line.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gpucommons.gpu.doctor.diagnosis import PROBLEM, Facts, diagnose, enforced, weakest
from gpucommons.gpu.doctor.examination import examine
from gpucommons.gpu.extras import coming_with
from gpucommons.gpu.providers import isolation_sentence
from gpucommons.scheduler.cli.options import output
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.up.running import runs_with_shared_account
from gpucommons.scheduler.up.settings import default_state_dir

HEADER = ("CHECK", "", "FOUND", "TO ENFORCE MORE")
#: Where no terminal wraps lines.
_ANY_WIDTH = 1 << 20


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _shared: argparse.ArgumentParser
) -> None:
    """Add ``doctor``."""
    command = commands.add_parser(
        "doctor",
        parents=[output()],
        help="what this machine can enforce, or what a cluster lacks, and what to do about it",
        epilog="Exit codes: 0 nothing stops work here, 1 something does, 2 bad command line.",
    )
    command.add_argument("--state", help="state folder whose disk is looked at")
    about = "for `up --trusted-users` or --demo, where all users share one account"
    command.add_argument("--trusted-users", action="store_true", help=about)
    about = "the cluster of your kubeconfig, not this machine"
    command.add_argument("--cluster", action="store_true", help=about)
    about = "with --cluster: of our release"
    command.add_argument("--namespace", default="gpucommons", help=about)
    command.set_defaults(run=doctor)


def doctor(arguments: argparse.Namespace) -> int:
    """Examine this machine, or the cluster of the caller's kubeconfig."""
    if arguments.cluster:
        return _of_cluster(arguments)
    state = Path(arguments.state) if arguments.state else default_state_dir(os.environ)
    state = state.expanduser()
    shared = arguments.trusted_users or runs_with_shared_account(state)
    facts = examine(state, shared_account=shared)
    document, text = report(facts)
    show(document, text, output=arguments.output)
    return 1 if any(finding.level == PROBLEM for finding in diagnose(facts)) else 0


def _of_cluster(arguments: argparse.Namespace) -> int:
    # The client library takes a second that a look at this machine need not wait.
    with coming_with("kubernetes"):
        from gpucommons.scheduler.cli.cluster_doctor import command  # noqa: PLC0415 - see above

        return command.doctor(arguments)


def report(facts: Facts) -> tuple[dict[str, object], str]:
    """The diagnosis as a document, and for people."""
    findings = diagnose(facts)
    mode = enforced(facts)
    document: dict[str, object] = {
        "isolation": mode,
        "devices": dict(facts.isolations),
        "providers": {name: asdict(one) for name, one in facts.capabilities.items()},
        "findings": [asdict(finding) for finding in findings],
    }
    rows = [(one.check, one.level, one.found, one.change) for one in findings]
    # Of cards that differ, what holds on all of them.
    sentence = (
        isolation_sentence(weakest(facts)) if facts.devices else "There is no GPU to share here."
    )
    # What is read by a program stays a table, whatever a parent says of its terminal (COLUMNS).
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _ANY_WIDTH
    return document, f"Isolation of fractions: {mode}. {sentence}\n\n{shown(rows, columns)}"


def shown(rows: Sequence[tuple[str, str, str, str]], columns: int) -> str:
    """A table where it fits; else one check below the other, as broken lines of a table cannot be read."""
    whole = table(HEADER, rows)
    if max(map(len, whole.splitlines())) <= columns:
        return whole
    return "\n".join(_lines(*row, columns=columns) for row in rows)


def _lines(check: str, level: str, found: str, change: str, *, columns: int) -> str:
    told = [found, *([f"{HEADER[-1].capitalize()}: {change}"] if change else [])]
    indented = (
        textwrap.fill(one, columns, initial_indent="  ", subsequent_indent="  ") for one in told
    )
    return "\n".join([f"{check}: {level}", *indented])

"""``gpucommons doctor``: what this machine can enforce, and what to change to enforce more.

It asks the machine itself, no scheduler; of a ``gpucommons up`` that runs on the state folder it
takes into account whether all users share one account there. Exit codes: 0 nothing stops work here (there may be advice) ·
1 something does (its line says what to do) · 2 wrong command line.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from gpucommons.gpu.doctor.diagnosis import PROBLEM, Facts, diagnose, enforced, weakest
from gpucommons.gpu.doctor.examination import examine
from gpucommons.gpu.providers import isolation_sentence
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.up.running import runs_with_shared_account
from gpucommons.scheduler.up.settings import default_state_dir

HEADER = ("CHECK", "", "FOUND", "TO ENFORCE MORE")


def doctor(arguments: argparse.Namespace) -> int:
    """Examine this machine."""
    state = Path(arguments.state) if arguments.state else default_state_dir(os.environ)
    state = state.expanduser()
    shared = arguments.trusted_users or runs_with_shared_account(state)
    facts = examine(state, shared_account=shared)
    document, text = report(facts)
    show(document, text, output=arguments.output)
    return 1 if any(finding.level == PROBLEM for finding in diagnose(facts)) else 0


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
    return document, f"Isolation of fractions: {mode}. {sentence}\n\n{table(HEADER, rows)}"

"""``gpucommons doctor``: what this machine can enforce, and what to change to enforce more.

Beside it ``gpucommons hibernation setup|check``: what saves live processes, without root; it changes
nothing of the system, and exits with 1 where processes cannot be saved and woken.

With ``--cluster`` it looks at the cluster of the caller's kubeconfig instead (:mod:`.cluster_doctor`).

It asks the machine itself, no scheduler; of a ``gpucommons up`` that runs on the state folder it
takes into account whether all users share one account there. Exit codes: 0 nothing stops work here (there may be advice) ·
1 something does (its line says what to do) · 2 wrong command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from gpucommons.gpu.doctor.diagnosis import PROBLEM, Facts, diagnose, enforced, weakest
from gpucommons.gpu.doctor.examination import examine
from gpucommons.gpu.extras import coming_with
from gpucommons.gpu.hibernation import criu, setup
from gpucommons.gpu.hibernation.self_test import Ability, gpu_self_test, self_test
from gpucommons.gpu.providers import isolation_sentence
from gpucommons.gpu.shim import find_drivers
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.up.running import runs_with_shared_account
from gpucommons.scheduler.up.settings import default_state_dir

HEADER = ("CHECK", "", "FOUND", "TO ENFORCE MORE")


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
    return document, f"Isolation of fractions: {mode}. {sentence}\n\n{table(HEADER, rows)}"


def set_up_hibernation(arguments: argparse.Namespace) -> int:
    """Get CRIU into the user's state folder, then try it."""
    folder = Path(arguments.folder) if arguments.folder else criu.state_folder(os.environ)
    try:
        found = setup.set_up(folder.expanduser().absolute(), _say)
    except setup.CannotSetUp as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"CRIU {found.version} is in {folder}.")
    return _try_out(found)


def check_hibernation(_arguments: argparse.Namespace) -> int:
    """Save and wake a small process with the CRIU that would be used."""
    return _try_out(criu.find_criu(os.environ))


def _try_out(found: criu.Criu | None) -> int:
    ability = self_test(found, Path(tempfile.gettempdir()))
    _say(can_hibernate(ability))
    driver = find_drivers().cuda
    if found is not None and ability.can_hibernate and driver is not None:
        _say(can_hibernate_gpu(gpu_self_test(found, Path(tempfile.gettempdir()), driver)))
    return 0 if ability.can_hibernate else 1


def can_hibernate(ability: Ability) -> str:
    """The outcome of the self-test."""
    if not ability.can_hibernate:
        return f"Processes cannot be saved here. {ability.because}"
    return (
        "A small process was saved and woken: "
        f"{ability.save_mib_per_s} MiB/s saving, {ability.wake_mib_per_s} MiB/s waking."
    )


def can_hibernate_gpu(because: str | None) -> str:
    """The outcome of the self-test with a GPU."""
    if because is None:
        return "So was one that held GPU memory."
    return f"Processes that hold GPU memory cannot be saved here. {because}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")

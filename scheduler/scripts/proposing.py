"""Which launcher a job is given that names none: told by its command, else by what its script starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.launchers import LAUNCHERS, PLAIN
from gpucommons.scheduler.launchers.gang import program_of
from gpucommons.scheduler.scripts.frameworks import MAX_SOURCE_CHARACTERS, Script, where

#: Programs that join workers, and the launcher that does it in their stead.
_BY_PROGRAM: Mapping[str, str] = {"torchrun": "torchrun"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A launcher, and why."""

    launcher: str
    why: str


def of_command(command: Sequence[str]) -> Proposal | None:
    """What the command itself says."""
    program = program_of(command)
    launcher = _BY_PROGRAM.get(program)
    return (
        None if launcher is None else Proposal(launcher=launcher, why=f"the command is {program}")
    )


def of_script(name: str, script: Script) -> Proposal:
    """What the script starts first that a launcher joins; of one too long to be read, nothing."""
    if script.is_long:
        most = f"{MAX_SOURCE_CHARACTERS >> 10} KiB"
        why = f"{name} has more than {most} of code and was not read"
        return Proposal(launcher=PLAIN, why=why)
    for start in script.starts:
        launcher = next((one for one in start.framework.launchers if one in LAUNCHERS), None)
        if launcher is not None:
            why = f"{where(name, start)} starts {start.framework.name}"
            return Proposal(launcher=launcher, why=why)
    return Proposal(launcher=PLAIN, why=f"nothing in {name} joins workers")

"""Which launcher a job is given that names none: told by its command, else by what its script starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.scheduler.launchers import LAUNCHERS, PLAIN
from gpucommons.scheduler.launchers.accelerate import ACCELERATE, is_accelerate
from gpucommons.scheduler.launchers.deepspeed import DEEPSPEED, is_deepspeed
from gpucommons.scheduler.launchers.launcher import script_words
from gpucommons.scheduler.launchers.torchrun import TORCHRUN, is_torchrun
from gpucommons.scheduler.scripts.frameworks import MAX_SOURCE_CHARACTERS, Script, where


def is_torchtitan(command: Sequence[str]) -> bool:
    """Whether Python is given the module that torchtitan trains with."""
    return (script_words(command) or ())[:2] == ("-m", "torchtitan.train")


#: What a command is, and the launcher that it asks for.
_COMMANDS = (
    (is_torchrun, "torchrun", TORCHRUN),
    (is_accelerate, "accelerate launch", ACCELERATE),
    (is_deepspeed, "deepspeed", DEEPSPEED),
    (is_torchtitan, "torchtitan.train", TORCHRUN),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A launcher, and why."""

    launcher: str
    why: str


def of_command(command: Sequence[str]) -> Proposal | None:
    """What the command itself says."""
    return next(
        (
            Proposal(launcher=launcher.name, why=f"the command is {name}")
            for is_it, name, launcher in _COMMANDS
            if is_it(command)
        ),
        None,
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
    return Proposal(launcher=PLAIN, why=f"no framework that we know is started in {name}")

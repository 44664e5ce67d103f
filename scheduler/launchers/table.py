"""All launchers by name, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.launchers.accelerate import ACCELERATE
from gpucommons.scheduler.launchers.deepspeed import DEEPSPEED
from gpucommons.scheduler.launchers.gang import Asked, Gang, Launcher, Start
from gpucommons.scheduler.launchers.jax import JAX
from gpucommons.scheduler.launchers.mpi import MPI
from gpucommons.scheduler.launchers.plain import PLAIN as _PLAIN
from gpucommons.scheduler.launchers.ray import RAY
from gpucommons.scheduler.launchers.spark import SPARK
from gpucommons.scheduler.launchers.tensorflow import TENSORFLOW
from gpucommons.scheduler.launchers.torchrun import TORCHRUN

#: The one that the script proposes.
AUTO = "auto"
PLAIN = _PLAIN.name
_ALL = (_PLAIN, TORCHRUN, ACCELERATE, DEEPSPEED, TENSORFLOW, JAX, MPI, RAY, SPARK)
LAUNCHERS: Mapping[str, Launcher] = {one.name: one for one in _ALL}


def starts(launcher: str, gang: Gang) -> tuple[Start, ...]:
    """How each worker is started, by rank; one that this release does not know joins nobody."""
    return LAUNCHERS.get(launcher, _PLAIN).starts(gang)


def refusal(launcher: str, asked: Asked) -> str | None:
    """Why a job cannot be started so; None where it can."""
    found = LAUNCHERS[launcher]
    set_twice = next((name for name in found.variables if name in asked.variables), None)
    if set_twice is not None:
        return (
            f"The variable {set_twice} is set by the launcher {launcher}, so that all workers agree:"
            " leave it out, or choose the launcher plain."
        )
    return found.refusal(asked)


def told_of_each(launcher: str) -> int:
    """So many bytes each worker is told of each other one."""
    return LAUNCHERS.get(launcher, _PLAIN).told_bytes

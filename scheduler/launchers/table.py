"""All launchers by name, and what is asked of them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.launchers.accelerate import ACCELERATE
from gpucommons.scheduler.launchers.deepspeed import DEEPSPEED
from gpucommons.scheduler.launchers.jax import JAX
from gpucommons.scheduler.launchers.launcher import Asked, Launcher, Start
from gpucommons.scheduler.launchers.mpi import MPI
from gpucommons.scheduler.launchers.plain import PLAIN as _PLAIN
from gpucommons.scheduler.launchers.ray import RAY
from gpucommons.scheduler.launchers.spark import SPARK
from gpucommons.scheduler.launchers.tensorflow import TENSORFLOW
from gpucommons.scheduler.launchers.torchrun import TORCHRUN
from gpucommons.scheduler.launchers.worker_addresses import Gang

#: The one that the script proposes.
AUTO = "auto"
PLAIN = _PLAIN.name
_ALL = (_PLAIN, TORCHRUN, ACCELERATE, DEEPSPEED, TENSORFLOW, JAX, MPI, RAY, SPARK)
#: What comes with this release.
BUILT_IN: Mapping[str, Launcher] = {one.name: one for one in _ALL}
_ADDED: dict[str, Launcher] = {}
LAUNCHERS: Mapping[str, Launcher] = ChainMap(dict(BUILT_IN), _ADDED)


def add(launchers: Iterable[Launcher]) -> None:
    """Those that other packages bring, in place of what was added before."""
    found = {one.name: one for one in launchers}
    _ADDED.clear()
    _ADDED.update(found)


def starts(launcher: str, gang: Gang) -> tuple[Start, ...]:
    """How each worker is started, by rank.

    Raises
    ------
    Misconfigured
        When the launcher is not here any more, or is another's and fails. Started without it, each
        worker would do all the work alone, and look well.
    """
    found = LAUNCHERS.get(launcher)
    if found is None:
        message = (
            f"The launcher {launcher} is not installed here any more, so that the workers could not"
            " find each other. An admin can install it again, or submit with another launcher."
        )
        raise Misconfigured(message)
    if launcher in BUILT_IN:
        return found.starts(gang)
    try:
        made = tuple(found.starts(gang))
    except Exception as error:
        raise Misconfigured(_failed(launcher, error)) from error
    if len(made) != len(gang.workers):
        why = ValueError(f"{len(made)} commands for {len(gang.workers)} workers")
        raise Misconfigured(_failed(launcher, why))
    return made


def _failed(launcher: str, error: Exception) -> str:
    return (
        f"The launcher {launcher}, which another package brings, failed: {type(error).__name__}:"
        f" {error}. Tell an admin, or submit with another launcher."
    )


def refusal(launcher: str, asked: Asked) -> str | None:
    """Why a job cannot be started so; None where it can."""
    found = LAUNCHERS.get(launcher)
    if found is None:
        return f"There is no launcher {launcher} here. Those there are: {AUTO}, {', '.join(LAUNCHERS)}."
    set_twice = next((name for name in found.variables if name in asked.variables), None)
    if set_twice is not None:
        return (
            f"The variable {set_twice} is set by the launcher {launcher}, so that all workers agree:"
            " leave it out, or choose the launcher plain."
        )
    if launcher in BUILT_IN:
        return found.refusal(asked)
    try:
        return found.refusal(asked)
    except Exception as error:  # noqa: BLE001 - another's code, which must not end a request
        return _failed(launcher, error)


def told_of_each(launcher: str) -> int:
    """So many bytes each worker is told of each other one."""
    return LAUNCHERS.get(launcher, _PLAIN).told_bytes

"""A job whose plan is written in its script's own arguments: whether it can be told them, at each of its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.advisor.choice.argued_plan import argued, framework_of
from gpucommons.scheduler.advisor.choice.script_arguments import (
    OWN_ARGUMENTS,
    misfit,
    own_command,
)
from gpucommons.scheduler.core.model.demand import bounds
from gpucommons.scheduler.core.model.types import Spec
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.launchers.launcher import script_words
from gpucommons.scheduler.launchers.torchrun import TORCHRUN, is_torchrun, not_python, processes
from gpucommons.scheduler.plans import ChosenPlan

#: Each of a job's sizes is planned for when it is submitted, before its answer.
MOST_SIZES = 64
#: So many sizes without a layout are named.
_NAMED = 10


def check_own_arguments(spec: Spec) -> None:
    """Refuse what could not be run as the plan says.

    Raises
    ------
    Misconfigured
        With what is missing, and what is possible.
    """
    plan, framework = spec.plan, framework_of(spec.plan)
    if plan is None or not framework:
        return
    name, role = OWN_ARGUMENTS[framework].name, spec.roles[0]
    if spec.launcher != TORCHRUN.name or len(spec.roles) > 1 or role.milli_gpu % WHOLE_MILLI_GPU:
        message = (
            f"The plan is written in the arguments of {name}, whose processes torchrun starts, one on each GPU:"
            f" choose the launcher torchrun, one role and whole GPUs ({plan.gpus} in the plan), or submit"
            " without the plan."
        )
        raise Misconfigured(message)
    started = not_python(role.command) or role.command
    if not is_torchrun(started) and script_words(started) is None:
        message = (
            f"The plan is written in the arguments of {name}, which go to the end of the command: what"
            f" {started[0]} starts would not be told them. Give the command as `python SCRIPT …` or"
            " `torchrun … SCRIPT …`, or submit without the plan."
        )
        raise Misconfigured(message)
    _check_processes(name, role.command, role.milli_gpu // WHOLE_MILLI_GPU)
    if (why := misfit(role.command, framework)) is not None:
        raise Misconfigured(f"The plan is written in the arguments of {name}. {why}")
    _check_sizes(plan, name, bounds(spec), role.milli_gpu // WHOLE_MILLI_GPU)


def _check_processes(name: str, command: Sequence[str], each: int) -> None:
    """One's own torchrun starts as many processes as it says, whatever a plan has."""
    found = processes(command)
    if found is None or found in {str(each), "gpu", "auto"}:
        return
    starts = f"starts {found} for each worker" if found else "names no script"
    message = (
        f"The plan is written in the arguments of {name} for a process on each GPU, {each} for each worker,"
        f" and this torchrun {starts}. Give the command as `torchrun --nproc-per-node {each} SCRIPT …` or"
        " `python SCRIPT …`, or submit without the plan."
    )
    raise Misconfigured(message)


def with_own_variables(spec: Spec) -> Spec:
    """The same with the variables that the program of its plan asks for; those that it sets itself stay."""
    framework = framework_of(spec.plan)
    if not framework:
        return spec
    return replace(spec, env={**OWN_ARGUMENTS[framework].variables, **spec.env})


def _check_sizes(plan: ChosenPlan, name: str, workers: tuple[int, int], each: int) -> None:
    low, high = workers
    if high - low >= MOST_SIZES:
        message = (
            f"The plan is written in the arguments of {name}, which are reckoned anew for each number of"
            f" workers: {low} to {high} are {high - low + 1} numbers, and {MOST_SIZES} are possible. Choose"
            " min_workers and max_workers closer together, or submit without the plan."
        )
        raise Misconfigured(message)
    failing = (n * each for n in range(low, high + 1) if argued(plan, n, each) is None)
    without = list(islice(failing, _NAMED + 1))
    if without:
        named = [*map(str, without[:_NAMED]), *(["…"] if len(without) > _NAMED else [])]
        message = (
            f"No layout of {', '.join(named)} GPUs that the arguments of {name} can say holds this"
            f" training with its global batch of {plan.batch}. The plan has {plan.gpus} GPUs; other sizes"
            " need to divide the batch and to fit: choose such sizes, or ask for advice anew."
        )
        raise Misconfigured(message)


def replaced_by(plan: ChosenPlan, command: tuple[str, ...]) -> str:
    """What a plan's arguments replace in a command, as a sentence; "" for nothing."""
    framework = framework_of(plan)
    if not framework:
        return ""
    planned = argued(plan, 1, plan.gpus)
    _, words = own_command(command, framework, () if planned is None else planned.arguments)
    if not words:
        return ""
    return (
        f"The plan decides what the command says, too: {' '.join(words)} is left out, and its own arguments"
        " take that place."
    )

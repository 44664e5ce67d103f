"""The command of a job whose plan is written in its script's own arguments, for as many GPUs as it got."""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.advisor.choice.argued_plan import argued, framework_of
from gpucommons.scheduler.advisor.choice.script_arguments import OWN_ARGUMENTS, own_command
from gpucommons.scheduler.core.model.types import Attempt, Workload
from gpucommons.scheduler.errors import Misconfigured


def with_arguments(workload: Workload, attempt: Attempt, command: Sequence[str]) -> tuple[str, ...]:
    """The same with the plan's arguments.

    Raises
    ------
    Misconfigured
        When no layout of so many GPUs holds the training: as its command stands, it would run in another
        way than was planned, and with another global batch.
    """
    plan = workload.spec.plan
    framework = framework_of(plan)
    if plan is None or not framework:
        return tuple(command)
    workers = len(attempt.placements)
    each = min((len(one.device_ids) for one in attempt.placements), default=0)
    found = argued(plan, workers, each)
    if found is None:
        message = (
            f"No layout of {workers * each} GPUs that the arguments of {OWN_ARGUMENTS[framework].name} can say"
            f" holds this training with its global batch of {plan.batch}: resize it, or ask for advice anew."
        )
        raise Misconfigured(message)
    changed, _ = own_command(command, framework, found.arguments)
    return changed

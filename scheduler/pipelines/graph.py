"""What needs what: the steps in order, and all that stand below one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpucommons.scheduler.pipelines.order import names_in_order
from gpucommons.scheduler.pipelines.pipeline import Step, StepName


def in_order(steps: Collection[Step]) -> tuple[Step, ...]:
    """The steps, each behind those that it needs.

    Raises
    ------
    Misconfigured
        See :func:`names_in_order`.
    """
    by_name: dict[str, Step] = {step.name: step for step in steps}
    needs = {name: list(step.after) for name, step in by_name.items()}
    order = names_in_order([step.name for step in steps], needs)
    return tuple(by_name[name] for name in order)


def below(steps: Iterable[Step], name: StepName) -> frozenset[StepName]:
    """A step and all that need it, directly or not; ``steps`` are in order."""
    found = {name}
    for step in steps:
        if not found.isdisjoint(step.after):
            found.add(step.name)
    return frozenset(found)

"""What needs what: an order in which every step stands behind what it needs, or the cycle there is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.pipelines.pipeline import Step, StepName


def in_order(steps: Collection[Step]) -> tuple[Step, ...]:
    """The steps, each behind those that it needs.

    Raises
    ------
    Misconfigured
        Where a name is not there or there twice, or steps wait for each other.
    """
    by_name = {step.name: step for step in steps}
    if len(by_name) < len(steps):
        names = [step.name for step in steps]
        twice = next(name for name in names if names.count(name) > 1)
        message = f"steps: there are two called {twice}. Give each a name of its own."
        raise Misconfigured(message)
    needed = {step.name: _needs(step, by_name) for step in steps}
    try:
        order = tuple(TopologicalSorter(needed).static_order())
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        message = f"steps: these wait for each other: {cycle}. Take one of these arrows out."
        raise Misconfigured(message) from None
    return tuple(by_name[name] for name in order)


def below(steps: Iterable[Step], name: StepName) -> frozenset[StepName]:
    """A step and all that need it, directly or not; ``steps`` are in order."""
    found = {name}
    for step in steps:
        if not found.isdisjoint(step.after):
            found.add(step.name)
    return frozenset(found)


def _needs(step: Step, by_name: Mapping[StepName, Step]) -> list[StepName]:
    for name in step.after:
        if name not in by_name:
            message = (
                f"{step.name}: there is no step {name!r}. Steps: {', '.join(sorted(by_name))}."
            )
            raise Misconfigured(message)
    return sorted(step.after)

"""An order of names in which each stands behind what it needs: what people wrote, and what is stored, alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from gpucommons.scheduler.errors import Misconfigured


def names_in_order(names: Sequence[str], needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The names of steps, each behind those that it needs.

    Raises
    ------
    Misconfigured
        Where a name is not there or there twice, or steps wait for each other.
    """
    if len(needs) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        message = f"steps: there are two called {twice}. Give each a name of its own."
        raise Misconfigured(message)
    for name in names:
        for each in needs[name]:
            if each not in needs:
                message = f"{name}: there is no step {each!r}. Steps: {', '.join(sorted(needs))}."
                raise Misconfigured(message)
    try:
        return tuple(
            TopologicalSorter({name: sorted(needs[name]) for name in names}).static_order()
        )
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        message = f"steps: these wait for each other: {cycle}. Take one of these arrows out."
        raise Misconfigured(message) from None


def check_combinations(
    steps: Sequence[tuple[str, Mapping[str, Sequence[str]]]], *, most: int
) -> None:
    """Steps, each with the values of which it runs with all combinations, are some and not too many.

    Raises
    ------
    Misconfigured
        Where they are not.
    """
    for step, each in steps:
        empty = next((name for name, values in each.items() if not values), None)
        if empty is not None:
            message = f"{step}: each: {empty} has no values, so there would be no step. Give some."
            raise Misconfigured(message)
    count = sum(math.prod(map(len, each.values())) for _, each in steps)
    if count > most:
        message = f"steps: these are {count} with all combinations of each, at most {most}."
        raise Misconfigured(message)

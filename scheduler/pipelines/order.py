"""An order of names in which each stands behind what it needs: what people wrote, and what is stored, alike."""

from __future__ import annotations

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

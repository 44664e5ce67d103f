"""All combinations of a search space, in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpucommons.scheduler.sweeps.sweep import Parameter, Value, Values

#: More are no grid that anybody would go through.
MOST = 10_000


def points(parameter: Parameter) -> tuple[Value, ...] | None:
    """What a grid tries of one parameter; None where its range has no steps."""
    if parameter.choices:
        return parameter.choices
    if parameter.integer and not parameter.log and parameter.step is None:
        step = 1.0
    elif parameter.step is not None:
        step = parameter.step
    else:
        return None
    count = min(MOST, int((parameter.high - parameter.low) / step + 1e-9)) + 1
    found = [parameter.low + index * step for index in range(count)]
    return tuple(round(one) if parameter.integer else round(one, 12) for one in found)


def combinations(space: Sequence[Parameter], so_far: Values | None = None) -> Iterator[Values]:
    """Each combination once; a parameter that does not apply is left out of it."""
    values = dict(so_far or {})
    if not space:
        yield values
        return
    first, rest = space[0], space[1:]
    if not first.applies(values):
        yield from combinations(rest, values)
        return
    for value in points(first) or ():
        yield from combinations(rest, {**values, first.name: value})

"""All combinations of a search space, in one order: counted, and gone to, without going through them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.sweeps.sweep import Parameter, Value, Values

#: More are no grid that anybody would go through.
MOST = 10_000
#: So many cases are told apart to count a grid: what counting costs has a bound.
_MOST_CASES = 20_000
#: Significant ones of a value on a step: numbers have two more, which sums of steps get wrong.
_DIGITS = 14


def points(parameter: Parameter) -> tuple[Value, ...] | None:
    """All values of one parameter; None where its range has no steps."""
    if parameter.choices:
        return parameter.choices
    if parameter.step is None and not parameter.integer:
        return None
    step = 1.0 if parameter.step is None else parameter.step
    count = int(min(MOST, (parameter.high - parameter.low) / step + 1e-9)) + 1
    found = [parameter.low + index * step for index in range(count)]
    return tuple(round(one) if parameter.integer else on_step(one, parameter) for one in found)


def on_step(value: float, parameter: Parameter) -> float:
    """As people would write it: 0.3 and not 0.30000000000000004, whoever comes to it."""
    # The ends decide how exact a sum of steps is, also where it comes close to 0.
    largest = max(abs(parameter.low), abs(parameter.high))
    return round(value, _DIGITS - 1 - math.floor(math.log10(largest)))


class Grid:
    """The combinations of a space.

    How many there are behind a parameter depends on those values alone that conditions behind it name.
    So each such case is counted once, however many combinations lead there.
    """

    def __init__(self, space: Sequence[Parameter]) -> None:
        self._names = [one.name for one in space]
        self._points = [points(one) or () for one in space]
        # As sets: a condition may have a hundred values, and is looked at in each case.
        self._when = [
            {name: frozenset(wanted) for name, wanted in one.when.items()} for one in space
        ]
        self._named = [
            sorted({name for one in self._when[place:] for name in one})
            for place in range(len(space))
        ]
        self._counted: dict[tuple[Value | None, ...], int] = {}

    @property
    def count(self) -> int:
        """How many they are; where they are more than :data:`MOST`, some number beyond it.

        Raises
        ------
        Misconfigured
            Where conditions make too many cases to count them.
        """
        return self._count(0, {})

    def combinations(self, *, skipped: int = 0) -> Iterator[Values]:
        """Each once, from some place on; a parameter that does not apply is left out of it."""
        return self._from(0, {}, skipped)

    def _from(self, place: int, values: Values, skipped: int) -> Iterator[Values]:
        if place == len(self._names):
            yield values
            return
        for one in self._with_next(place, values):
            behind = self._count(place + 1, one) if skipped else 0
            if skipped and skipped >= behind:
                skipped -= behind
                continue
            yield from self._from(place + 1, one, skipped)
            skipped = 0

    def _with_next(self, place: int, values: Values) -> Iterator[Values]:
        when = self._when[place]
        if not all(values.get(name) in wanted for name, wanted in when.items()):
            yield values
            return
        for value in self._points[place]:
            yield {**values, self._names[place]: value}

    def _count(self, place: int, values: Values) -> int:
        if place == len(self._names):
            return 1
        case = (place, *(values.get(name) for name in self._named[place]))
        if case not in self._counted:
            if len(self._counted) >= _MOST_CASES:
                message = (
                    "sampler: conditions of this grid name parameters of too many values. Write these"
                    " right before what depends on them, give them fewer values, or take another sampler."
                )
                raise Misconfigured(message)
            found = 0
            for one in self._with_next(place, values):
                found += self._count(place + 1, one)
                if found > MOST:
                    break
            self._counted[case] = found
        return self._counted[case]

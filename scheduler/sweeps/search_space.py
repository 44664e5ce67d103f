"""A search space as people write it, and as it is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.sweeps.grid import MOST, Grid, points
from gpucommons.scheduler.sweeps.script_arguments import as_text
from gpucommons.scheduler.sweeps.sweep import Parameter, Sweep, Trial, Value, Values, setting

NO_OPTUNA = (
    "sampler: tpe and random need Optuna where the scheduler runs: pip install 'gpucommons[sweeps]'"
    " there, or take the sampler grid."
)


#: Of choices, in words.
_SHOWN = 8
#: What a draw costs grows with them.
_MOST_CHOICES = 10_000


class Asked(Protocol):
    """A request with a search space."""

    @property
    def space(self) -> Any:
        """By name: a list of values, or what has low, high, step, log, type, choices and when."""
        ...


def space_of(asked: Asked) -> tuple[Parameter, ...]:
    """Its parameters in order, those that depend on others behind them.

    Raises
    ------
    Misconfigured
        Where a condition names none that comes before.
    """
    found: list[Parameter] = []
    for name, one in asked.space.items():
        parameter = _parameter(name, one)
        before = {known.name for known in found}
        strange = [other for other in parameter.when if other not in before]
        if strange:
            message = (
                f"space: {name} depends on {strange[0]}, which is no parameter before it. Write"
                f" {strange[0]} first, or leave the condition out."
            )
            raise Misconfigured(message)
        _check_conditions(parameter, found)
        found.append(parameter)
    if sum(len(one.choices) for one in found) > _MOST_CHOICES:
        message = f"space: all lists together have more than {_MOST_CHOICES:,} values. Take fewer, or ranges."
        raise Misconfigured(message)
    return tuple(found)


def _check_conditions(parameter: Parameter, before: Sequence[Parameter]) -> None:
    """Each value that a condition names is one that the other parameter may have."""
    for other in before:
        for wanted in parameter.when.get(other.name, ()):
            if not _may_be(other, wanted):
                message = (
                    f"space: {parameter.name} depends on {other.name} being {as_text(wanted)}, which it"
                    f" never is. It is drawn from {words_of(other)}."
                )
                raise Misconfigured(message)


def _may_be(parameter: Parameter, value: Value) -> bool:
    """Of a range without steps no value may be named: it is drawn by chance alone."""
    some = points(parameter) or ()
    if len(some) > MOST:  # not all of them are there
        return isinstance(value, int | float) and parameter.low <= value <= parameter.high
    return any(one == value and isinstance(one, bool) is isinstance(value, bool) for one in some)


def one_setting(space: Sequence[Parameter]) -> Values:
    """A value of each parameter, whatever it depends on: to check what a trial would be submitted with."""
    return {
        one.name: one.choices[0] if one.choices else (points(one) or (one.low,))[0] for one in space
    }


def _parameter(name: str, one: Any) -> Parameter:
    if isinstance(one, list):
        return Parameter(name=name, choices=_each_once(name, one))
    when = {
        other: tuple(wanted) if isinstance(wanted, list) else (wanted,)
        for other, wanted in one.when.items()
    }
    if one.choices is not None:
        return Parameter(name=name, choices=_each_once(name, one.choices), when=when)
    written_whole = all(isinstance(end, int) for end in (one.low, one.high, one.step or 1))
    whole = written_whole if one.type is None else one.type == "int"
    return Parameter(
        name=name,
        low=float(one.low),
        high=float(one.high),
        integer=whole,
        log=one.log,
        step=None if one.step is None else float(one.step),
        when=when,
    )


def _each_once(name: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """Where a sweep is accepted and not where a grid is gone through: there the places of an earlier one count.

    Raises
    ------
    Misconfigured
        Where a number and a truth value are equal, as 1 and true are: whoever wrote both means two.
    """
    numbers = {one for one in values if not isinstance(one, bool)}
    both = [one for one in values if isinstance(one, bool) and one in numbers]
    if both:
        message = (
            f"space: {name} has {int(both[0])} and {str(both[0]).lower()}, which count as one value."
            " Write one of them as text, in quotes, or leave it out."
        )
        raise Misconfigured(message)
    return tuple(dict.fromkeys(values))


def words_of(parameter: Parameter) -> str:
    """What it is drawn from: ``batch: 32, 64``, ``lr: 0.0001 to 0.1, log``, ``layers: whole numbers 1 to 8``."""
    if parameter.choices:
        shown = ", ".join(str(one) for one in parameter.choices[:_SHOWN])
        return f"{parameter.name}: {shown}{', …' if parameter.choices[_SHOWN:] else ''}"
    what = "whole numbers " if parameter.integer else ""
    low, high = (_number(end, parameter) for end in (parameter.low, parameter.high))
    step = "" if parameter.step is None else f", step {_number(parameter.step, parameter)}"
    return f"{parameter.name}: {what}{low} to {high}{step}{', log' if parameter.log else ''}"


def _number(value: float, parameter: Parameter) -> str:
    return str(int(value)) if parameter.integer else f"{value:g}"


def check_grid(space: Sequence[Parameter]) -> int:
    """How many combinations a grid has.

    Raises
    ------
    Misconfigured
        Where a range has no steps, or there are too many to go through or to count.
    """
    endless = [one.name for one in space if points(one) is None]
    if endless:
        message = (
            f"sampler: grid needs a list or a step for {endless[0]}, which is a range without steps."
            " Give it a step, or take another sampler."
        )
        raise Misconfigured(message)
    count = Grid(space).count
    if count > MOST:
        message = f"sampler: this grid has more than {MOST:,} combinations. Take fewer values, or another sampler."
        raise Misconfigured(message)
    return count


def most_trials(space: Sequence[Parameter], sampler: str) -> int:
    """So many settings there are to try, each once; :data:`MOST` where there is no end to them.

    Raises
    ------
    Misconfigured
        As :func:`check_grid`, of a grid.
    """
    if sampler == "grid":
        return check_grid(space)
    try:
        return check_grid(space)
    except Misconfigured:
        return MOST  # ranges without steps, or more than anybody would try


def all_tried(sweep: Sweep, trials: Sequence[Trial]) -> bool:
    """Whether there is no setting of its space that these trials leave out."""
    different = len({setting(one.values) for one in trials})
    return different < MOST and different >= most_trials(sweep.space, sweep.sampler)


def check_sampler(sampler: str) -> None:
    """Refuse a sampler that nothing here can draw with.

    Raises
    ------
    Misconfigured
        With what to install.
    """
    if sampler != "grid" and find_spec("optuna") is None:
        raise Misconfigured(NO_OPTUNA)

"""A grid is counted and gone to for little, however its conditions are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.sweeps.grid import MOST, Grid, points
from gpucommons.scheduler.sweeps.search_space import check_grid
from gpucommons.scheduler.sweeps.sweep import Parameter, Value, Values


def test_a_grid_leaves_out_what_does_not_apply() -> None:
    space = (
        Parameter(name="optimizer", choices=("sgd", "adam")),
        Parameter(name="momentum", low=0, high=1, step=0.5, when={"optimizer": ("sgd",)}),
    )
    assert list(Grid(space).combinations()) == [
        *({"optimizer": "sgd", "momentum": value} for value in (0.0, 0.5, 1.0)),
        {"optimizer": "adam"},
    ]


@st.composite
def spaces(draw: st.DrawFn) -> tuple[Parameter, ...]:
    values: st.SearchStrategy[list[Value]] = st.lists(
        st.sampled_from([1, 2, 1.5, "a", "b"]), min_size=1, max_size=3, unique=True
    )
    found: list[Parameter] = []
    for place in range(draw(st.integers(1, 5))):
        before = [one.name for one in found]
        names = draw(st.sets(st.sampled_from(before))) if before else set()
        when = {name: tuple(draw(values)) for name in sorted(names)}
        found.append(Parameter(name=f"p{place}", choices=tuple(draw(values)), when=when))
    return tuple(found)


def gone_through(space: tuple[Parameter, ...]) -> list[Values]:
    found: list[Values] = [{}]
    for one in space:
        found = [
            {**values, one.name: value} if one.applies(values) else values
            for values in found
            for value in (one.choices if one.applies(values) else ("",))
        ]
    return found


@given(space=spaces(), skipped=st.integers(0, 300))
def test_its_count_and_any_place_in_it_are_those_of_going_through_it(
    space: tuple[Parameter, ...], skipped: int
) -> None:
    every = gone_through(space)
    assert Grid(space).count == len(every)
    assert list(Grid(space).combinations(skipped=skipped)) == every[skipped:]


class Counted(str):
    """A word that says how often it was compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_what_conditions_cost_does_not_grow_with_the_combinations() -> None:
    wanted = tuple(Counted(f"w{number}") for number in range(100))
    space = (
        Parameter(name="seed", low=1, high=1000, integer=True),
        *(Parameter(name=f"k{number}", choices=(Counted("w99"),)) for number in range(4)),
        *(
            Parameter(name=f"p{n}", choices=("x",), when={f"k{one}": wanted for one in range(4)})
            for n in range(5)
        ),
    )
    Counted.compared = 0
    assert check_grid(space) == 1000
    assert Counted.compared < 1000
    assert next(Grid(space).combinations(skipped=999))["seed"] == 1000


def test_a_grid_that_nobody_could_count_is_refused() -> None:
    late = {"seed": tuple(range(100))}
    space = (
        Parameter(name="seed", low=1, high=9000, integer=True),
        *(Parameter(name=f"p{number}", choices=("x",)) for number in range(50)),
        Parameter(name="last", choices=("y",), when=late),
    )
    with pytest.raises(Misconfigured, match="conditions of this grid name parameters of too many"):
        check_grid(space)
    assert check_grid((space[0], space[-1], *space[1:-1])) == 9000


def test_a_range_of_endless_steps_has_more_than_a_grid_may_have() -> None:
    space = (Parameter(name="a", low=-1e300, high=1e300, step=1e-300),)
    with pytest.raises(Misconfigured, match=f"more than {MOST:,} combinations"):
        check_grid(space)


@pytest.mark.parametrize(
    ("low", "step", "written"),
    [
        (0.1, 0.1, [0.1, 0.2, 0.3]),
        (-0.3, 0.1, [-0.3, -0.2, -0.1, 0.0]),
        (1e-15, 1e-15, [1e-15, 2e-15, 3e-15]),
        (-100.0, 0.1, [round(-100 + number / 10, 1) for number in range(2001)]),
        (-4.1, 0.05, [round(-4.1 + number / 20, 2) for number in range(163)]),
        (1000.01, 0.01, [1000.01, 1000.02, 1000.03]),
        (2e9, 5e8, [2e9, 2.5e9, 3e9]),
    ],
)
def test_values_on_steps_are_written_as_people_write_them_however_small(
    low: float, step: float, written: list[float]
) -> None:
    found = points(Parameter(name="x", low=low, high=written[-1], step=step))
    assert found == tuple(written)


@given(st.integers(1, 999), st.integers(-20, 6), st.integers(-(10**6), 10**6), st.integers(2, 40))
def test_all_values_on_steps_differ(digits: int, exponent: int, first: int, count: int) -> None:
    step = digits * 10.0**exponent
    low, high = first * step, (first + count) * step
    found = points(Parameter(name="x", low=low, high=high, step=step)) or ()
    assert len(set(found)) == len(found) >= count

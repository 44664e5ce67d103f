"""Values that are made and changed by writing their slots."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from gpucommons.scheduler.core.model.evolving import evolve, quick


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Quick:
    """All there is in fields."""

    first: int
    second: str = "two"
    third: Mapping[str, int] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class InOrder:
    """Fields by their place."""

    first: int
    second: int = 2


@quick
@dataclass(frozen=True, slots=True)
class Mixed:
    """Fields called as the parts of a copy, one of them by its name alone and first."""

    kind: str = field(kw_only=True)
    value: int
    new: int = 3


def test_fields_may_have_any_name_and_order() -> None:
    one = Mixed(1, kind="a")
    assert (one.kind, one.value, one.new) == ("a", 1, 3)
    assert evolve(one, kind="b", value=2, new=4) == Mixed(2, 4, kind="b")


def test_it_is_made_as_any_dataclass_is() -> None:
    one = Quick(first=1, third={"a": 1})
    assert (one.first, one.second, one.third) == (1, "two", {"a": 1})
    assert one == replace(one) == Quick(first=1, second="two", third={"a": 1})
    assert InOrder(1) == InOrder(1, 2) == InOrder(first=1, second=2)
    assert list(inspect.signature(Quick).parameters) == ["first", "second", "third"]


def test_what_is_made_by_default_is_made_anew_each_time() -> None:
    assert Quick(first=1).third is not Quick(first=1).third


def test_a_field_that_is_missing_or_unknown_is_refused() -> None:
    with pytest.raises(TypeError, match="first"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="fourth"):
        Quick(first=1, fourth=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Quick(1)  # type: ignore[misc]


def test_it_stays_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Quick(first=1).first = 2  # type: ignore[misc]


def test_a_copy_has_the_changes_and_the_rest_of_the_fields() -> None:
    one = Quick(first=1, second="zwei")
    other = evolve(one, first=2)
    assert other == Quick(first=2, second="zwei")
    assert one.first == 1
    assert other.third is one.third


def test_a_change_of_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Quick has no field forth"):
        evolve(Quick(first=1), forth=4)

"""When garbage is collected."""

from __future__ import annotations

import gc
import weakref

import pytest

from gpucommons.scheduler.threads import garbage


class _Knot:
    """Only a collection can see that it is garbage."""

    def __init__(self) -> None:
        self.itself = self


def _tie() -> weakref.ref[_Knot]:
    return weakref.ref(_Knot())


def test_no_collection_begins_inside_and_one_comes_afterwards() -> None:
    with garbage.left_for_later():
        knot = _tie()
        kept = [[] for _ in range(10 * gc.get_threshold()[0])]  # type: ignore[var-annotated]
        assert knot() is not None
    kept.append([])
    assert knot() is None


def test_an_error_inside_leaves_collecting_on() -> None:
    with pytest.raises(ZeroDivisionError), garbage.left_for_later():
        _ = 1 // 0
    assert gc.isenabled()


def test_inside_another_the_outer_one_says_when_it_is_over() -> None:
    with garbage.left_for_later():
        with garbage.left_for_later():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_nobody_collects_nobody_begins_to() -> None:
    gc.disable()
    try:
        with garbage.left_for_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

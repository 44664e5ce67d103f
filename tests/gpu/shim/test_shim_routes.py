"""However a program reaches the driver, it meets the slice; and nothing else changes for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GIB = 1 << 10
DENIED, GIVEN = 2, 0


@pytest.mark.parametrize("route", "abcdef")
def test_more_than_the_slice_is_denied(machine: Any, a_slice: Path, route: str) -> None:
    assert machine.route(route, 8 * GIB, machine.env(None)) == GIVEN  # the card has it
    assert machine.route(route, 8 * GIB, machine.env(a_slice)) == DENIED


@pytest.mark.parametrize("route", "abcdef")
def test_what_fits_is_given(machine: Any, a_slice: Path, route: str) -> None:
    assert machine.route(route, 3 * GIB, machine.env(a_slice)) == GIVEN


def test_the_full_path_of_the_driver_gets_around_it(machine: Any, a_slice: Path) -> None:
    """Cooperative, and said so: only a mount over that path, in a container, closes it."""
    assert machine.route("g", 8 * GIB, machine.env(a_slice)) == GIVEN


def test_preloading_it_works_too(machine: Any, a_slice: Path) -> None:
    env = machine.env(None, LD_PRELOAD=str(a_slice / "libcuda.so.1"))

    assert machine.route("b", 8 * GIB, env) == DENIED


def test_an_empty_environment_does_not_lift_the_limit(machine: Any, a_slice: Path) -> None:
    kept = ("LD_LIBRARY_PATH", "FAKE_CUDA_STATE")
    env = {name: value for name, value in machine.env(a_slice).items() if name in kept}

    assert machine.route("b", 8 * GIB, env) == DENIED


def test_the_unversioned_name_is_the_slices_too(machine: Any, a_slice: Path) -> None:
    assert (a_slice / "libcuda.so").resolve() == (a_slice / "libcuda.so.1").resolve()


def test_a_call_that_no_shim_knows_reaches_the_driver(client: Callable[..., Any]) -> None:
    assert client()("cuFromTheFuture") == [77]


@pytest.mark.parametrize(
    ("symbol", "flags"),
    [("cuMemAlloc", 0), ("cuMemAllocAsync", 0), ("cuMemAllocAsync", 2)],
)
def test_functions_that_the_driver_hands_out_are_ours(
    client: Callable[..., Any], symbol: str, flags: int
) -> None:
    program = client()
    assert program("look", symbol, 12000, flags) == [0, 0]

    assert program(symbol, "out", 8 << 30, 0)[0] == DENIED


def test_what_the_driver_does_not_know_stays_unknown(client: Callable[..., Any]) -> None:
    assert client()("look", "cuNoSuchThing", 12000, 0) == [500, 1]


def test_a_driver_without_a_call_says_so(client: Callable[..., Any]) -> None:
    """Programs find our name; the pretended driver has no graphs."""
    assert client()("cuGraphAddMemAllocNode", 0, 0, 0, 0, 0) == [801]

"""Notebook parameters by papermill's convention."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.scripts.parameters import (
    as_text,
    cell_source,
    check_parameters,
    known_parameters,
    parse_value,
)


def notebook(source: str, *tags: str) -> bytes:
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": list(tags)}}
    return json.dumps({"cells": [{"metadata": {}, "source": ""}, cell]}).encode()


def test_the_tagged_cell_says_what_is_known() -> None:
    content = notebook("alpha = 0.1\nepochs: int = 5\nif alpha:\n    no = 1\n", "parameters")
    assert known_parameters(content) == ("alpha", "epochs")
    check_parameters("a.ipynb", content, {"alpha": 1})


@pytest.mark.parametrize(
    ("content", "given", "says"),
    [
        (notebook("alpha = 1", "parameters"), {"beta": 1}, "sets: alpha."),
        (notebook("alpha = 1"), {"alpha": 1}, "has no cell tagged parameters"),
        (b"not json", {"alpha": 1}, "has no cell tagged parameters"),
        (notebook("1 +", "parameters"), {"alpha": 1}, "has no cell tagged parameters"),
        (notebook("alpha = 1", "parameters"), {"alpha": "x" * 9000}, "put them into a file"),
        (notebook("alpha = 1", "parameters"), {"alpha": {1, 2}}, "a number, a text"),
    ],
)
def test_what_would_be_lost_is_refused_with_what_is_known(
    content: bytes, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameters("a.ipynb", content, given)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.1", 0.1), ("-1e-3", -0.001), ("True", True), ("None", None), ("a b", "a b")],
)
def test_values_are_taken_as_papermill_takes_them(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_the_injected_cell_assigns_exactly_the_values() -> None:
    given = {
        "a": float("inf"), "b": [None, True, {"x": float("-inf")}], "c": "it's\n\"so\"", "d": -1,
    }  # fmt: skip
    found: dict[str, Any] = {}
    exec(cell_source(json.loads(as_text(given))), found)  # noqa: S102 - what a kernel does with it
    assert {name: found[name] for name in given} == given


def test_the_same_parameters_are_the_same_command() -> None:
    assert as_text({"b": 1, "a": 2}) == as_text({"a": 2, "b": 1}) == '{"a":2,"b":1}'

"""No sentence and no cell of a table shows a state as programs write it: all use the one table of words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state_words import (
    ATTEMPT_WORDS,
    HELD_WORDS,
    HOLD_CLASS_WORDS,
    JOB_WORDS,
    LEASE_WORDS,
    NODE_WORDS,
)
from gpucommons.scheduler.core.model.types import AttemptState, HoldClass, State

ROOT = Path(__file__).parents[1]
#: Fields whose values are written for programs.
FIELDS = frozenset({"state", "hold_class", "shown_as"})
PYTHON = (
    "scheduler/cli/*.py",
    "scheduler/core/**/*.py",
    "scheduler/service/**/*.py",
    "scheduler/intake/*.py",
    "scheduler/loop/*.py",
    "scheduler/operator/*.py",
    "scheduler/pages/**/*.py",
    "scheduler/working_folder/*.py",
    "labextension/**/*.py",
    "spawner/**/*.py",
    "idle_culler/*.py",
)
#: In a widget.
SHOWN_RAW = re.compile(r"\$\{[^}(]*\.(state|hold_class|shown_as)\}")


def raw(tree: ast.AST, *, cells: bool = False) -> Iterator[int]:
    """Lines where such a field is put into a text, or is a cell of a table, as it is."""
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.FormattedValue):
            parts = [node.value]
        elif cells and isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
            parts = [
                side
                for part in node.elts
                for side in (part.values if isinstance(part, ast.BoolOp) else [part])
            ]
        for part in parts:
            field = part.value if isinstance(part, ast.Attribute) and part.attr == "value" else part
            if (isinstance(field, ast.Attribute) and field.attr in FIELDS) or (
                isinstance(field, ast.Subscript)
                and isinstance(field.slice, ast.Constant)
                and field.slice.value in FIELDS
            ):
                yield field.lineno


@pytest.mark.parametrize("pattern", PYTHON)
def test_no_text_of_the_service_or_the_command_line_has_a_raw_state(pattern: str) -> None:
    paths = sorted(ROOT.glob(pattern))
    assert paths, f"nothing is there any more: {pattern}"
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths
        # Elsewhere, a tuple is a key.
        for line in raw(ast.parse(path.read_text()), cells="/cli/" in pattern)
    ]
    assert found == []


def test_no_widget_has_a_raw_state() -> None:
    paths = sorted(ROOT.glob("labextension/widgets/*.js"))
    assert paths
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in paths
        for match in SHOWN_RAW.finditer(path.read_text())
    ]
    assert found == []


def test_the_tests_would_find_one() -> None:
    text = 'f"{node.id} {node.state}"\nrow = (a, x.hold_class or "")\ny = f"{job[\'state\']}"\n'
    assert sorted(raw(ast.parse(text), cells=True)) == [1, 2, 3]
    assert (
        list(raw(ast.parse("x = words(node.state)\nif a.state in (b, c): pass"), cells=True)) == []
    )
    assert SHOWN_RAW.search("`${job.name}: ${job.state}`")
    assert not SHOWN_RAW.search("`${words(job.state)}`")


def test_the_table_knows_every_value() -> None:
    assert {one.value for one in State} <= set(JOB_WORDS) | set(LEASE_WORDS)
    assert {one.value for one in AttemptState} <= set(ATTEMPT_WORDS)
    assert {one.value for one in NodeState} == set(NODE_WORDS)
    assert {one.value for one in HoldClass} == set(HOLD_CLASS_WORDS)
    assert set(HELD_WORDS) == {"notebook", "notebook-idle", "guaranteed", "borrowed"}

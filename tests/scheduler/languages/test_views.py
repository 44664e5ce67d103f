"""What of an answer is told in its reader's language, and what is somebody's own."""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gpucommons.labextension import mlflow_runs, submission
from gpucommons.scheduler import models
from gpucommons.scheduler.languages import answers
from gpucommons.scheduler.languages.answers import FIGURES, SAID, VIEWS, told_in
from gpucommons.scheduler.models.fields import View

#: All that answers are made of: models are loaded one by one as they are asked for.
_MODULES = {
    *(one.name for one in pkgutil.walk_packages(models.__path__, f"{models.__name__}.")),
    *(submission.__name__, mlflow_runs.__name__),
}
_OURS = {
    "note": "Paused.",
    "text": "It failed.",
    "layout": "none",
    "drawn": "tight",
    "what": "fits",
}
_ROLE = {"name": "worker", "command": ["python", "Paused."], "note": "Paused."}
_REQUEST = {"name": "It failed.", "env": _OURS, "labels": _OURS, "secrets": _OURS, "roles": [_ROLE]}
_WAITS = {"code": "policy", "text": "Paused."}


def _said(text: str) -> dict[str, Any]:
    return json.loads(told_in("de", json.dumps({"text": text})))  # type: ignore[no-any-return] # JSON


@pytest.mark.parametrize(
    "answer",
    [
        {"request": _REQUEST, "name": "It failed."},
        {"type": "jobs", "jobs": [{"request": _REQUEST, "progress": {"metrics": _OURS}}]},
        {"type": "job", "job": {"request": _REQUEST, "part_of": {"name": "Paused."}}},
        {"type": "events", "events": [{"data": _OURS | {"why": "Paused."}}]},
        {"profiles": [{"job": {"env": _OURS, "secrets": _OURS}, "description": "Paused."}]},
        {"schedules": [{"job": _REQUEST}]},
        {"job": _REQUEST},
        {"steps": [{"after": _OURS, "inputs": [{"path": "Paused."}]}]},
        {"sweeps": [{"best": {"values": _OURS}, "request": _REQUEST}]},
        {"trials": [{"values": _OURS}], "space": _OURS, "given": [_OURS]},
        {"offers": [{"sizes": [{"values": _OURS}]}], "other_options": _OURS},
        {"runs": [{"code": "Paused.", "recent": [{"text": "Paused.", "data": _OURS}]}]},
        {"steps": [{"runs": ["Paused.", "CPU only: a"], "after": _OURS, "variables": ["Paused."]}]},
        {"triggers": [{"kind": "command", "what": "It failed."}]},
        {"triggers": [{"kind": "command", "what": "CPU only: python look.py"}]},
        {"steps": [{"what": "1 GPU: /data/cifar changed"}], "what": "1 GPU: the data changed"},
    ],
)
def test_what_is_somebodys_own_stays_as_they_wrote_it(answer: dict[str, Any]) -> None:
    assert json.loads(told_in("de", json.dumps(answer))) == answer


def test_what_is_said_beside_it_is_told() -> None:
    shown = {"request": _REQUEST, "reason": _WAITS}
    told = {"request": _REQUEST, "reason": {"code": "policy", "text": "Pausiert."}}
    for held in ({"jobs": [shown]}, {"type": "job", "job": shown}, shown):
        german = json.dumps(held).replace(json.dumps(shown), json.dumps(told))
        assert json.loads(told_in("de", json.dumps(held))) == json.loads(german)


def test_only_the_size_before_a_command_is_told() -> None:
    steps = [{"what": "CPU only: sh -c 'It failed.'"}]
    told = json.loads(told_in("de", json.dumps({"steps": steps})))
    assert told == {"steps": [{"what": "nur CPU: sh -c 'It failed.'"}]}


_WORDS = st.one_of(st.sampled_from(["Paused.", "none", "It failed.", "fits"]), st.text(max_size=40))
_MAPPINGS = st.dictionaries(st.one_of(st.sampled_from(sorted(SAID | VIEWS)), st.text()), _WORDS)


@settings(max_examples=100, deadline=None)
@given(mine=_MAPPINGS, held=st.sampled_from(["jobs", "sweeps", "best", "trials", "schedules"]))
def test_no_mapping_of_a_users_changes(mine: dict[str, str], held: str) -> None:
    fields = ("env", "labels", "values", "given", "space", "request", "job", "secrets", "data")
    view = {**dict.fromkeys(fields, mine), "name": "a"}
    for answer in (view, {held: [view]}, {held: view}):
        assert json.loads(told_in("de", json.dumps(answer))) == answer


@pytest.mark.parametrize(
    "trouble", [RecursionError(), KeyError("name"), ValueError("unsupported format character")]
)
def test_what_cannot_be_told_is_answered_in_english(
    trouble: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_text: str) -> None:
        raise trouble

    monkeypatch.setattr(answers, "translated", fail)
    with caplog.at_level(logging.ERROR):
        assert _said("Paused.") == {"text": "Paused."}
    assert "stays in English" in caplog.text


def _views(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in model.__subclasses__():
        yield one
        yield from _views(one)


def _held(annotation: Any) -> Iterator[Any]:
    """The types that a field may hold."""
    yield typing.get_origin(annotation) or annotation
    for one in typing.get_args(annotation):
        yield from _held(one)


def _fields() -> Iterator[tuple[str, str, set[Any]]]:
    for module in _MODULES:
        importlib.import_module(module)
    for view in {one for one in _views(View) if one.__module__ in _MODULES}:
        for name, field in view.model_fields.items():
            yield view.__name__, name, set(_held(field.annotation))


def _says(view: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether something is said in it, or in a view that it holds."""
    if view in seen or not (isinstance(view, type) and issubclass(view, View)):
        return False
    return any(
        dict not in (held := set(_held(field.annotation)))
        and ((name in SAID and str in held) or any(_says(one, seen | {view}) for one in held))
        for name, field in view.model_fields.items()
    )


def test_views_are_looked_into_by_name_and_no_other_field_is() -> None:
    said = {name for _, name, held in _fields() if any(_says(one) for one in held)}
    assert said | FIGURES == VIEWS
    mappings = {name for _, name, held in _fields() if dict in held}
    asked = {
        name
        for _, name, held in _fields()
        if any(isinstance(one, type) and issubclass(one, models.Model) for one in held)
    }
    assert {"env", "values", "data"} & mappings
    assert "request" in asked
    assert not VIEWS & (mappings | asked)
    assert not (SAID | {"what"}) & mappings

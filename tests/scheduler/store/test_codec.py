"""Every value that is stored comes back as it was; what is not one of ours is refused."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model import intents, resources, state
from gpucommons.scheduler.core.model import types as core
from gpucommons.scheduler.store.codec import BadDocument, decode, encode

_TEXT = st.text(max_size=8)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    int: st.integers(-(2**62), 2**62),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    Any: st.one_of(_TEXT, st.integers(), st.none(), st.lists(st.integers(), max_size=2)),
    types.NoneType: st.none(),
}


@cache
def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type; Hypothesis works for a while on each strategy that it has not seen."""
    if isinstance(kind, NewType):
        return values(kind.__supertype__)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.deferred(
            lambda: st.builds(kind, **{f.name: values(hints[f.name]) for f in fields(kind)})
        )
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    return generic(get_origin(kind), get_args(kind))


def generic(origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin in (Union, types.UnionType):
        return st.one_of([values(member) for member in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if origin is frozenset:
        return st.frozensets(values(arguments[0]), max_size=3)
    assert issubclass(origin, Mapping)
    return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)


@pytest.mark.parametrize(
    "kind",
    [
        core.Workload,
        resources.Team,
        resources.Pool,
        resources.Node,
        resources.Policy,
        tuple[resources.Block, ...],
        Mapping[tuple[core.TeamName, core.PoolName], int],
        intents.Intent,
        intents.Verdict,
        state.Event,
    ],
    ids=str,
)
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_written_is_read_back(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    document = encode(value, kind)
    document.encode()
    assert decode(kind, document) == value


@dataclass(frozen=True, kw_only=True)
class Sample:
    number: int
    text: str = "x"
    ratio: float = 0.5
    flag: bool = False
    pair: tuple[int, str] = (1, "a")
    kind: core.Kind = core.Kind.TRAINING
    names: frozenset[str] = frozenset()
    weights: Mapping[str, int] = field(default_factory=dict)


def changed(**change: Any) -> str:
    envelope = json.loads(encode(Sample(number=1)))
    envelope["d"].update(change)
    return json.dumps(
        {**envelope, "d": {k: v for k, v in envelope["d"].items() if v is not MISSING}}
    )


@pytest.mark.parametrize(
    "change",
    [
        {"number": "1"},
        {"number": True},
        {"number": 1.5},
        {"number": None},
        {"number": MISSING},
        {"text": 1},
        {"ratio": "1"},
        {"ratio": True},
        {"flag": 0},
        {"pair": [1]},
        {"pair": {"0": 1}},
        {"kind": "dance"},
        {"names": "ab"},
        {"weights": []},
        {"surprise": 1},
    ],
    ids=lambda change: str(change).split(" object")[0],
)
def test_a_document_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadDocument):
        decode(Sample, changed(**change))


def test_a_field_that_was_added_later_gets_its_default() -> None:
    assert decode(Sample, changed(text=MISSING, names=MISSING)) == Sample(number=1)


def test_a_whole_number_is_a_fine_ratio() -> None:
    assert decode(Sample, changed(ratio=1)).ratio == 1.0


@pytest.mark.parametrize("document", ["", "{}", "[]", "1", '{"v": 1}', '{"d": {}}', "not json"])
def test_what_is_no_document_is_refused(document: str) -> None:
    with pytest.raises(BadDocument, match="not a document"):
        decode(Sample, document)


def test_a_document_of_a_later_release_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadDocument, match="Use the release that wrote it"):
        decode(Sample, '{"v": 2, "d": {}}')


def test_an_action_of_another_name_is_refused() -> None:
    with pytest.raises(BadDocument, match="'Explode' is none of"):
        decode(intents.Action, '{"v": 1, "d": {"is": "Explode"}}')


def test_a_document_of_another_class_is_refused() -> None:
    with pytest.raises(BadDocument, match="not of type Sample"):
        decode(Sample, '{"v": 1, "d": [1]}')


def test_a_type_that_has_no_json_is_a_mistake_in_the_code() -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        encode([], list[int])


def test_a_value_of_another_type_is_not_written() -> None:
    with pytest.raises(BadDocument):
        encode(resources.Quota(fixed_milli_gpu="1"))  # type: ignore[arg-type] # on purpose
    with pytest.raises(BadDocument):
        encode(Sample(number=1), resources.Quota)
    with pytest.raises(BadDocument, match="Quota is none of"):
        encode(resources.Quota(), intents.Action)
    with pytest.raises(BadDocument):
        encode(state.Event(at_ms=core.Millis(1), kind="k", by="b", text="t", data={"x": object()}))

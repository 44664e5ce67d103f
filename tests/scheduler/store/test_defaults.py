"""What is not written into a document is read as the default of its field: so defaults stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gpucommons.scheduler.core.model import intents, resources, state
from gpucommons.scheduler.core.model import types as core
from gpucommons.scheduler.store.codec import decode, encode, to_plain

KEPT = Path(__file__).parent / "earlier_release" / "defaults.json"
STORED = (
    *(core.Workload, resources.Team, resources.Pool, resources.Node, resources.Policy),
    *(resources.Block, intents.Intent, intents.Verdict, state.Event),
)


def types_in(kind: Any, seen: set[Any]) -> Iterator[type]:
    """Each dataclass that a document of a type may hold."""
    if kind in seen:
        return
    seen.add(kind)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        yield kind
        inside: tuple[Any, ...] = tuple(get_type_hints(kind).values())
    else:
        inside = get_args(kind)
    for one in inside:
        if isinstance(one, type) or get_args(one):
            yield from types_in(one, seen)


def defaults() -> dict[str, Any]:
    """Each as a document has it, by type and field; what it has of inner defaults stands at those."""
    seen: set[Any] = set()
    return {
        f"{kind.__name__}.{one.name}": to_plain(
            one.default if one.default_factory is MISSING else one.default_factory(),
            get_type_hints(kind)[one.name],
        )
        for stored in STORED
        for kind in types_in(stored, seen)
        for one in fields(kind)
        if one.default is not MISSING or one.default_factory is not MISSING
    }


def test_no_default_of_what_is_stored_has_changed() -> None:
    """A new field is added to the file; another default for a field that is there needs another name."""
    assert defaults() == json.loads(KEPT.read_text())


def test_what_a_newer_release_adds_is_not_written_where_nobody_uses_it() -> None:
    plain = json.loads(encode(core.Role()))["d"]
    assert plain == {}
    assert decode(core.Role, encode(core.Role())) == core.Role()

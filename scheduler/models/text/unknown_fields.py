"""Which fields there may be where one stands that nobody knows: the one that was meant comes first."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

#: A longer name is shown only in part.
_LONGEST = 64
#: ``rnu`` is meant as ``run``, ``gpus`` not as ``inputs``.
_ALIKE = 0.65


def unknown(name: str, possible: Sequence[str]) -> str:
    """``there is no such field; did you mean count?``: completes ``cuont: …``."""
    close = difflib.get_close_matches(name[:_LONGEST], possible, n=2, cutoff=_ALIKE)
    if close:
        return f"there is no such field; did you mean {' or '.join(close)}?"
    if possible:
        return f"there is no such field; there are {', '.join(sorted(possible))}"
    return "there is no such field"


def fields_of(error: ValidationError, place: Sequence[int | str]) -> tuple[str, ...]:
    """Fields that may stand at a place of what was checked; none where it cannot be told."""
    return fields_beside(_called(error.title), place)


def fields_beside(models: Iterable[type[BaseModel]], place: Sequence[int | str]) -> tuple[str, ...]:
    """The same below models that are known."""
    found = list(models)
    for step in place[:-1]:
        # A number, a key of a mapping and the kind of a union lead no further.
        inner = [
            model
            for one in found
            for name, field in one.model_fields.items()
            if step in (name, field.alias)
            for model in _within(field.annotation)
        ]
        found = inner or [one for one in found if one.__name__ == step] or found
    return tuple(
        dict.fromkeys(
            field.alias or name for one in found for name, field in one.model_fields.items()
        )
    )


def _within(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in ``list[Role] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _within(part)


def _called(title: str) -> list[type[BaseModel]]:
    """Our models of a name: pydantic's error does not know more of what it refused."""
    found: list[type[BaseModel]] = []
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        for one in waiting.pop().__subclasses__():
            waiting.append(one)
            if one.__name__ == title and one.__module__.startswith("gpucommons."):
                found.append(one)
    return found

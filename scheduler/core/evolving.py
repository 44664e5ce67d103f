"""A changed copy of a frozen value, without the cost of checking each field again.

``dataclasses.replace`` calls the constructor, and a cycle makes a handful of copies for each
decision. The values have slots and no ``__post_init__``, so copying the slots is the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def evolve(value: T, **changes: Any) -> T:
    """Return the value with these fields changed; each must be one of its fields."""
    kind: type[T] = type(value)
    new: T = object.__new__(kind)
    for name, slot in _slots(kind):  # type: ignore[arg-type] # a class is hashable
        slot.__set__(new, changes.pop(name) if name in changes else slot.__get__(value))
    if changes:
        message = f"{kind.__name__} has no field {', '.join(changes)}."
        raise TypeError(message)
    return new


@cache
def _slots(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((name, kind.__dict__[name]) for name in kind.__dict__["__slots__"])

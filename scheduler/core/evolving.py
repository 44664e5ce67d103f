"""A changed copy of a frozen value, without the cost of checking each field again.

``dataclasses.replace`` calls the constructor, and a cycle makes a handful of copies for each
decision. The values have slots and no ``__post_init__``, so copying the slots is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
_Read = Callable[[object], Any]
_Write = Callable[[object, Any], None]


def evolve(value: T, **changes: Any) -> T:
    """Return the value with these fields changed; each must be one of its fields."""
    kind: type[T] = type(value)
    new: T = object.__new__(kind)
    copies, writes = _slots(kind)  # type: ignore[arg-type] # a class is hashable
    for read, write in copies:
        write(new, read(value))
    for name, changed in changes.items():
        if name not in writes:
            message = f"{kind.__name__} has no field {name}."
            raise TypeError(message)
        writes[name](new, changed)
    return new


@cache
def _slots(kind: type) -> tuple[tuple[tuple[_Read, _Write], ...], dict[str, _Write]]:
    """How each field is read and written, and how it is written by its name."""
    slots = {name: kind.__dict__[name] for name in kind.__dict__["__slots__"]}
    copies = tuple((slot.__get__, slot.__set__) for slot in slots.values())
    return copies, {name: slot.__set__ for name, slot in slots.items()}

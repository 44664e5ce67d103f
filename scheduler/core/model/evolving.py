"""Frozen values, made and changed by writing their slots straight.

A frozen dataclass writes each of its fields through ``object.__setattr__``, and ``replace`` calls its
constructor for a copy. A cycle makes a dozen values for each decision: that was a fifth of its time.
The values have slots and no ``__post_init__``, so writing the slots is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
_ABSENT = object()


def evolve(value: T, /, **changes: Any) -> T:
    """Return the value with these fields changed; each must be one of its fields."""
    kind: type[T] = type(value)
    copied: T = _copier(kind, tuple(changes))(value, *changes.values())  # type: ignore[arg-type] # a class is hashable
    return copied


def quick(kind: type[T]) -> type[T]:
    """Let the constructor of a frozen dataclass with slots write its slots straight."""
    names = {"_absent": _ABSENT, **_setters(kind)}
    parameters, written = ["self"], {}
    for one in sorted(fields(kind), key=lambda each: bool(each.kw_only)):  # type: ignore[arg-type] # a dataclass, or this raises
        if one.kw_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(one.name + _default(one, names))
        written[one.name] = (
            one.name
            if one.default_factory is MISSING
            else f"_make_{one.name}() if {one.name} is _absent else {one.name}"
        )
    made = _written("__init__", parameters, _writes("self", written), names)
    made.__annotations__ = kind.__init__.__annotations__
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    kind.__init__ = made  # type: ignore[method-assign] # what this is for
    return kind


def _default(one: Field[Any], names: dict[str, Any]) -> str:
    """How a parameter says its default; names what is said."""
    if one.default_factory is not MISSING:
        names[f"_make_{one.name}"] = one.default_factory
        return "=_absent"
    if one.default is MISSING:
        return ""
    names[f"_usual_{one.name}"] = one.default
    return f"=_usual_{one.name}"


@cache
def _copier(kind: type, changed: tuple[str, ...]) -> Callable[..., Any]:
    """A function that copies a value but for these fields, whose values follow."""
    names = {"_new": object.__new__, "_kind": kind, **_setters(kind)}
    for name in changed:
        if f"_set_{name}" not in names:
            message = f"{kind.__name__} has no field {name}."
            raise TypeError(message)
    written = {
        name: name if name in changed else f"_value.{name}" for name in kind.__dict__["__slots__"]
    }
    body = ["_copied = _new(_kind)", *_writes("_copied", written), "return _copied"]
    return _written("copier", ["_value", *changed], body, names)


def _setters(kind: type) -> dict[str, Any]:
    return {f"_set_{name}": kind.__dict__[name].__set__ for name in kind.__dict__["__slots__"]}


def _writes(onto: str, written: Mapping[str, str]) -> list[str]:
    return [f"_set_{name}({onto}, {value})" for name, value in written.items()]


def _written(
    name: str, parameters: Sequence[str], body: Sequence[str], names: dict[str, Any]
) -> Callable[..., Any]:
    """A function of this text. Like :mod:`dataclasses`, from names of fields and nothing else."""
    text = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    exec(text, names)  # noqa: S102 - see above
    found: Callable[..., Any] = names[name]
    return found

"""Frozen dataclasses as JSON documents, and back, strictly.

What a stored document says is exactly what the types say: a wrong type, an unknown field or a
missing one without a default is an error, never a guess. A field that a later release adds has a
default, so older documents stay readable; what has its default is not written, so an older release
beside a newer one reads all that uses nothing new. A default is never changed, then. Any other change
of shape gets a new :data:`FORMAT_VERSION`, and a document of a later format is refused with a sentence.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

#: Version of the documents that this release writes.
FORMAT_VERSION = 1

_VERSION_FIELD = "v"
_TAG_FIELD = "is"
#: Fields that earlier releases wrote and nobody needs: they are passed over.
_RETIRED: Mapping[str, frozenset[str]] = {"Workload": frozenset({"position"})}
_SCALARS = (bool, int, float, str)


class BadDocument(ValueError):
    """A stored document is not what this release can read."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Codec:
    """How one type is written and read."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def encode(value: object, as_type: Any = None) -> str:
    """Write a value as a document. ``as_type`` is needed for unions and containers."""
    return encode_plain(to_plain(value, as_type))


def encode_plain(plain: Any) -> str:
    """Write what :func:`to_plain` gave as a document."""
    return json.dumps({_VERSION_FIELD: FORMAT_VERSION, "d": plain}, separators=(",", ":"))


def entry_in_document(name: str, text: str) -> str:
    """How an entry of a mapping of texts stands in any document."""
    return json.dumps({name: text}, separators=(",", ":"))[1:-1]


def decode(as_type: Any, document: str) -> Any:
    """Read a document.

    Raises
    ------
    BadDocument
        When it is damaged, of another shape, or written by a later release.
    """
    return from_plain(as_type, opened(document))


def opened(document: str) -> Any:
    """The body of a document, after a check of its version."""
    try:
        envelope = json.loads(document)
        version = envelope[_VERSION_FIELD]
        body = envelope["d"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"This is not a document of ours: {document[:80]!r}."
        raise BadDocument(message) from error
    if version != FORMAT_VERSION:
        message = (
            f"The document has format {version}; this release reads {FORMAT_VERSION}."
            " Use the release that wrote it, or a later one."
        )
        raise BadDocument(message)
    return body


def to_plain(value: object, as_type: Any = None, *, without: frozenset[str] = frozenset()) -> Any:
    """A value as dicts, lists and scalars; of a dataclass without these fields."""
    kind: Any = as_type or type(value)
    return (_dataclass(kind, without) if without else _codec(kind)).encode(value)


def from_plain(as_type: Any, plain: Any) -> Any:
    """The value that :func:`to_plain` was given."""
    return _codec(as_type).decode(plain)


@cache
def _codec(kind: Any) -> _Codec:
    if isinstance(kind, NewType):
        return _codec(kind.__supertype__)
    origin = get_origin(kind)
    if origin is not None:
        return _generic(origin, get_args(kind))
    if kind is Any:
        return _Codec(_thawed, lambda plain: plain)
    if kind in _SCALARS:
        return _Codec(_checked(kind), _checked(kind))
    return _enum(kind) if issubclass(kind, Enum) else _dataclass(kind)


def _generic(origin: Any, arguments: tuple[Any, ...]) -> _Codec:
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is frozenset:
        return _frozenset(_codec(arguments[0]))
    if issubclass(origin, Mapping):
        return _mapping(*arguments)
    message = f"{origin!r} cannot be stored."
    raise TypeError(message)


def _thawed(value: Any) -> Any:
    """Free-form JSON: mappings and tuples of any kind become dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): _thawed(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return [_thawed(item) for item in value]
    if value is None or isinstance(value, _SCALARS):
        return value
    message = f"{value!r} is not JSON."
    raise BadDocument(message)


def _checked(kind: type) -> Callable[[Any], Any]:
    # An int is a fine float; True is no int.
    accepted = (float, int) if kind is float else (kind,)

    def check(value: Any) -> Any:
        if type(value) is kind:
            return value
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            message = f"{value!r} is not of type {kind.__name__}."
            raise BadDocument(message)
        return kind(value)

    return check


def _enum(kind: type[Enum]) -> _Codec:
    def read(plain: Any) -> Any:
        try:
            return kind(plain)
        except ValueError as error:
            raise BadDocument(str(error)) from error

    return _Codec(lambda value: value.value, read)


@cache
def _dataclass(kind: Any, without: frozenset[str] = frozenset()) -> _Codec:
    hints = get_type_hints(kind)
    fields = [(field.name, _codec(hints[field.name])) for field in dataclasses.fields(kind)]
    defaults = {field.name: _default(field) for field in dataclasses.fields(kind)}
    written = [
        (name, codec.encode, defaults[name]) for name, codec in fields if name not in without
    ]
    known = {name for name, _ in fields}
    retired = _RETIRED.get(kind.__name__, frozenset())
    required = {name for name, default in defaults.items() if default is dataclasses.MISSING}

    def write(value: Any) -> Any:
        if type(value) is not kind:
            message = f"{value!r} is not of type {kind.__name__}."
            raise BadDocument(message)
        found = {}
        for name, encode, default in written:
            item = getattr(value, name)
            # True is no 1, though they are equal.
            if type(item) is not type(default) or item != default:
                found[name] = encode(item)
        return found

    def read(plain: Any) -> Any:
        if not isinstance(plain, dict):
            message = f"{plain!r} is not of type {kind.__name__}."
            raise BadDocument(message)
        unknown, missing = plain.keys() - known - retired, required - plain.keys()
        if unknown or missing:
            message = (
                f"{kind.__name__}: unknown fields {sorted(unknown)}, missing {sorted(missing)}."
            )
            raise BadDocument(message)
        return kind(**{name: codec.decode(plain[name]) for name, codec in fields if name in plain})

    return _Codec(write, read)


def _default(field: dataclasses.Field[Any]) -> Any:
    """What a field has that is not given; ``MISSING`` where it must be."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _any_of(kinds: list[type]) -> Callable[[Any], Any]:
    """JSON tells texts, whole numbers, others and truth values apart."""

    def check(value: Any) -> Any:
        if type(value) not in kinds:
            message = f"{value!r} is not of {', '.join(kind.__name__ for kind in kinds)}."
            raise BadDocument(message)
        return value

    return check


def _union(members: tuple[Any, ...]) -> _Codec:
    present = [member for member in members if member is not types.NoneType]
    optional = len(present) < len(members)
    if len(present) > 1 and all(member in _SCALARS for member in present):
        inner = _Codec(_any_of(present), _any_of(present))
    else:
        inner = _codec(present[0]) if len(present) == 1 else _tagged(present)

    def write(value: Any) -> Any:
        return None if optional and value is None else inner.encode(value)

    def read(plain: Any) -> Any:
        return None if optional and plain is None else inner.decode(plain)

    return _Codec(write, read)


def _tagged(members: list[Any]) -> _Codec:
    codecs = {member.__name__: _codec(member) for member in members}

    def write(value: Any) -> Any:
        name = type(value).__name__
        if name not in codecs:
            message = f"{name} is none of {', '.join(codecs)}."
            raise BadDocument(message)
        return {_TAG_FIELD: name, **codecs[name].encode(value)}

    def read(plain: Any) -> Any:
        name = plain.get(_TAG_FIELD) if isinstance(plain, dict) else None
        if name not in codecs:
            message = f"{name!r} is none of {', '.join(codecs)}."
            raise BadDocument(message)
        return codecs[name].decode(
            {key: value for key, value in plain.items() if key != _TAG_FIELD}
        )

    return _Codec(write, read)


def _tuple(arguments: tuple[Any, ...]) -> _Codec:
    if arguments[-1] is Ellipsis:
        item = _codec(arguments[0])
        return _Codec(
            lambda value: [item.encode(element) for element in value],
            lambda plain: tuple(item.decode(element) for element in _listed(plain)),
        )
    items = [_codec(argument) for argument in arguments]
    return _Codec(
        lambda value: [c.encode(element) for c, element in zip(items, value, strict=True)],
        lambda plain: tuple(
            c.decode(element) for c, element in zip(items, _listed(plain, len(items)), strict=True)
        ),
    )


def _frozenset(item: _Codec) -> _Codec:
    return _Codec(
        lambda value: sorted(item.encode(element) for element in value),
        lambda plain: frozenset(item.decode(element) for element in _listed(plain)),
    )


def _mapping(key_type: Any, value_type: Any) -> _Codec:
    """Objects where keys are text; else lists of pairs."""
    key, value = _codec(key_type), _codec(value_type)
    if get_origin(key_type) is tuple:
        pairs = _tuple((tuple[key_type, value_type], Ellipsis))
        return _Codec(
            lambda mapping: pairs.encode(tuple(mapping.items())),
            lambda plain: dict(pairs.decode(plain)),
        )

    def read(plain: Any) -> Any:
        if not isinstance(plain, dict):
            message = f"{plain!r} is not an object."
            raise BadDocument(message)
        return {key.decode(k): value.decode(v) for k, v in plain.items()}

    return _Codec(
        lambda mapping: {key.encode(k): value.encode(v) for k, v in mapping.items()}, read
    )


def _listed(plain: Any, length: int | None = None) -> list[Any]:
    if not isinstance(plain, list) or (length is not None and len(plain) != length):
        message = f"{plain!r} is not a list" + (f" of {length}." if length is not None else ".")
        raise BadDocument(message)
    return plain

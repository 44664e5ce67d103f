"""What is wrong with which field, in a sentence: patterns and paths are for machines.

Every interface says it the same way: the API, the command line, the panel and its widgets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from gpucommons.scheduler.models.text.unknown_fields import fields_of, unknown

_FIRST_LAST = "starts and ends with a letter or digit"
#: By pattern; what stands here completes "this field: …".
_SENTENCES: Mapping[str, str] = {
    r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$": (
        f"a name has lower-case letters, digits and hyphens, {_FIRST_LAST}, and is at most 50"
        " characters long"
    ),
    r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}$": (
        "a user's name has letters, digits and _ . @ + -, at most 128 of them"
    ),
    r"^[a-z0-9][a-z0-9/-]{0,101}$": "a job is named by its id, its name, or team/name",
    r"^[A-Za-z_][A-Za-z0-9_]{0,127}$": (
        "a variable's name has letters, digits and underscores, and does not start with a digit"
    ),
    r"^[A-Za-z0-9 ._-]{1,64}$": "a kind of GPU has letters, digits, spaces and . _ -",
    r"^[A-Za-z0-9 ._:/@-]{0,256}$": "an environment has letters, digits, spaces and . _ : / @ -",
    r"^[ -~]{0,256}$": "an environment is a name, path or image of at most 256 plain characters",
    r"^[A-Za-z0-9._-]{0,64}$": "a server's name has letters, digits and . _ -",
    r"^[\w .:/-]+$": "a metric's name has letters, digits, spaces and _ . : / -",
    r"^[0-9a-f]{64}$": "a snapshot is named by the 64 hexadecimal digits of its SHA-256",
}
#: Fields of a role, in the words of people; the first role is mostly the only one.
_OF_A_ROLE: Mapping[str, str] = {
    "name": "name",
    "count": "workers",
    "milli_gpu": "GPUs per worker",
    "gpu_memory_mib": "GPU memory per worker",
    "gpu_kind": "kind of GPU",
    "cpu_milli": "cores per worker",
    "memory_mib": "memory per worker",
    "command": "command",
}
#: By pydantic's kind of mistake, which brings the number.
_LIMITS: Mapping[str, str] = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be more than {gt:g}",
    "finite_number": "must be a number, not NaN or without end",
    "too_short": "needs at least {min_length}",
    "string_too_long": "must have at most {max_length} characters",
}
#: By the form that is needed, where something of another form was written.
_FORMS: Mapping[str, str] = {
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "a whole number is needed"),
    "int_parsing_size": "a whole number is needed",
    **dict.fromkeys(("float_type", "float_parsing"), "a number is needed"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false is needed"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "a list is needed"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "mapping_type"),
        "fields with their values are needed (name: value)",
    ),
    "string_type": "a text is needed",
    "missing": "this field is needed",
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_ID = r"^[0-9a-f]{8}-"
_OTHERWISE = "it is empty, too long, or has characters that may not stand there"


def named(place: Sequence[int | str]) -> str:
    """A field by what it is and by its path: ``workers of the first role (roles.0.count)``."""
    # Which type of several was tried is a step of pydantic's path, and no field.
    path = ".".join(str(step) for step in place if "[" not in str(step))
    match place:
        case ["roles", int() as number, str() as field, *_] if field in _OF_A_ROLE and number < len(
            _ORDINALS
        ):
            return f"{_OF_A_ROLE[field]} of the {_ORDINALS[number]} role ({path})"
    return path


def said(mistake: Mapping[str, Any], possible: Sequence[str] = ()) -> str:
    """One of the mistakes that pydantic lists, without what was sent: that may be a secret.

    ``possible`` are the fields that there are, where one is meant that there is not.
    """
    kind, limits = str(mistake.get("type")), mistake.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown(str(mistake["loc"][-1]), possible)
    if kind in _FORMS:
        return _FORMS[kind]
    if kind in _LIMITS:
        return _LIMITS[kind].format(**limits)
    if kind != "string_pattern_mismatch":
        message = str(mistake.get("msg", "not valid"))
        return message.removeprefix("Value error, ").rstrip(".")
    pattern = str(limits.get("pattern", ""))
    if pattern.startswith(_ID):
        return "an id has 32 hexadecimal digits in five groups"
    return _SENTENCES.get(pattern, _OTHERWISE)


def mistakes(
    error: ValidationError, *, also: Collection[str] = ()
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """All of them, each with what is wrong; ``also`` are fields that stand beside those of the model."""
    for item in error.errors(include_url=False, include_input=False):
        place = item["loc"]
        beside = also if len(place) == 1 else ()
        yield item, said(item, (*fields_of(error, place), *beside))


def first_mistake(error: ValidationError, *, of: str = "The request") -> str:
    """The first of them as a sentence; ``of`` is what it is about where it is about no field."""
    first, sentence = next(mistakes(error))
    return f"{named(first['loc']) or of}: {sentence}."

"""What is wrong with which field, in a sentence: patterns and paths are for machines.

Every interface says it the same way: the API, the command line, the panel and its widgets.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

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
    r"^[a-z0-9][a-z0-9/_-]{0,101}$": "a job is named by its id, its name, or team/name",
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
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
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
    "path_type": "a path is needed",
    **dict.fromkeys(
        ("ip_v4_network", "ip_v6_network"), "a network is needed, as in 10.1.2.0/24 or fd00::/8"
    ),
    "missing": "this field is needed",
}
#: Of all mistakes so many are told: more help nobody, and each takes a while to put into words.
MOST_TOLD = 5
_UNKNOWN = "extra_forbidden"
#: A longer name is shown only in part.
_LONGEST = 64
#: ``rnu`` is meant as ``run``, ``gpus`` not as ``inputs``.
_ALIKE = 0.65
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
    if kind == _UNKNOWN:
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
    """The first of them, each with what is wrong; ``also`` are fields that stand beside those of the model."""
    models: list[type[BaseModel]] | None = None
    found = error.errors(include_url=False, include_input=False)
    if len(found) > MOST_TOLD:
        # What somebody wrote is not to go under in all that is missing.
        found.sort(key=lambda one: one["type"] == "missing")
    for item in found[:MOST_TOLD]:
        possible: tuple[str, ...] = ()
        if item["type"] == _UNKNOWN:
            place = item["loc"]
            # Once for all: it looks through every model that there is.
            models = _called(error.title) if models is None else models
            possible = (*fields_beside(models, place), *(also if len(place) == 1 else ()))
        yield item, said(item, possible)


def listed(sentences: Iterable[str], error: ValidationError) -> str:
    """What was said of its mistakes, and how many more there are."""
    more = error.error_count() - MOST_TOLD
    # What may be of several kinds was refused as each of them.
    once = dict.fromkeys(sentences)
    return "; ".join((*once, *((f"and {more:,} more",) if more > 0 else ())))


def first_mistake(error: ValidationError, *, of: str = "The request") -> str:
    """The first of them as a sentence; ``of`` is what it is about where it is about no field."""
    first, sentence = next(mistakes(error))
    return f"{named(first['loc']) or of}: {sentence}."


# --- fields that there are where one stands that nobody knows ---------------------------------


def did_you_mean(name: str, possible: Sequence[str]) -> str:
    """``did you mean count?``; empty where nothing is spelled alike."""
    close = difflib.get_close_matches(name[:_LONGEST], possible, n=2, cutoff=_ALIKE)
    return f"did you mean {' or '.join(close)}?" if close else ""


def unknown(name: str, possible: Sequence[str]) -> str:
    """``there is no such field; did you mean count?``: completes ``cuont: …``."""
    if meant := did_you_mean(name, possible):
        return f"there is no such field; {meant}"
    if possible:
        return f"there is no such field; there are {', '.join(sorted(possible))}"
    return "there is no such field"


def fields_beside(models: Iterable[type[BaseModel]], place: Sequence[int | str]) -> tuple[str, ...]:
    """Fields that may stand at a place of what was checked; none where its models are not known."""
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

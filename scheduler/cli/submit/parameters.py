"""``-p NAME VALUE``: parameters of a notebook, as papermill has them on its command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpucommons.scheduler.errors import BadRequest

#: No option: a minus stands only before a number.
_VALUE = re.compile(r"[^-]|-[.\d]|$")


def in_one_word(words: Sequence[str]) -> list[str]:
    """``-p NAME VALUE``, as papermill has it, becomes the one word that ``-p NAME=VALUE`` is."""
    found, rest = [], list(words)
    while rest:
        found.append(rest.pop(0))
        if found[-1] not in ("-p", "--parameter"):
            continue
        _check_spaces(rest)
        if rest and rest[0].isidentifier():
            name, has_value = rest.pop(0), bool(rest) and _VALUE.match(rest[0])
            found.append(f"{name}={rest.pop(0)}" if has_value else name)
    return found


def _check_spaces(words: Sequence[str]) -> None:
    """Refuse ``-p lr = 3``, ``-p lr =3`` and ``-p lr= 3``: a shell makes several words of them.

    Raises
    ------
    BadRequest
        With what was meant.
    """
    name, after = words[0] if words else "", words[1:3]
    if name.isidentifier() and after and after[0].startswith("=") and after[0] != "==":
        typed = [name, *(after if after[0] == "=" else after[:1])]
    elif name.endswith("=") and name[:-1].isidentifier() and after and _is_value(after[0]):
        typed = [name, after[0]]
    else:
        return
    value = typed[-1].removeprefix("=") or "0.5"
    name = name.removesuffix("=")
    message = (
        f"-p {' '.join(typed)} has a space beside its =: write -p {name}={value} or -p {name} {value}."
        f" A value that itself begins with = is written {name}==…"
    )
    raise BadRequest(message)


def _is_value(word: str) -> bool:
    """Not an option, and not what is to run."""
    return not word.startswith("-") and not word.endswith((".ipynb", ".py"))

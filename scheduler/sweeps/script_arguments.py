"""How a trial's values reach a script that does not know us: as arguments, variables or placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.sweeps.sweep import Value, Values

_NO_WORD = re.compile(r"[^A-Za-z0-9]")
#: What runs a notebook takes all of its parameters as one JSON object.
_NOTEBOOK = "gpucommons.scheduler.training.notebook"
#: Of a command with all its values, in characters: a value may stand in it many times.
_LONGEST = 65_536


def as_text(value: Value) -> str:
    """As a script's parser of arguments reads it: ``0.0031``, ``true``, ``sgd``."""
    return value if isinstance(value, str) else json.dumps(value)


def command_with(command: Sequence[str], values: Values) -> list[str]:
    """The command of a trial: ``{lr}`` in it is replaced, what it does not name comes behind it.

    Raises
    ------
    BadRequest
        When it gets too long, or has ``--parameters`` that are none.
    """
    left = dict(values)
    # In one go: what a value says is never looked through for names again.
    names = re.compile("|".join(re.escape(f"{{{name}}}") for name in values) or r"(?!)")
    found: list[str] = []
    length = 0
    for word in command:
        named = [match.group()[1:-1] for match in names.finditer(word)]
        length += len(word) + sum(len(as_text(values[name])) for name in named)
        if length > _LONGEST:
            message = f"With its values the command has more than {_LONGEST:,} characters: name them less often."
            raise BadRequest(message)
        found.append(names.sub(lambda match: as_text(values[match.group()[1:-1]]), word))
        for name in named:
            left.pop(name, None)
    if _NOTEBOOK in command and left:
        return _of_notebook(found, left)
    for name, value in left.items():
        found += [f"--{name}", as_text(value)]
    return found


def variables_of(values: Values) -> dict[str, str]:
    """``LR=0.0031``; what no variable can be called is written with ``_``."""
    return {_variable(name): as_text(value) for name, value in values.items()}


def check_variables(names: Iterable[str]) -> None:
    """Refuse two names that one variable would stand for: the script would see the last one's value.

    Raises
    ------
    BadRequest
        Naming both.
    """
    known: dict[str, str] = {}
    for name in names:
        variable = _variable(name)
        if variable in known:
            message = (
                f"{known[variable]} and {name} would both be the variable {variable}. Call one of them"
                " otherwise, or take values_as: arguments."
            )
            raise BadRequest(message)
        known[variable] = name


def _variable(name: str) -> str:
    return _NO_WORD.sub("_", name).upper()


def _of_notebook(command: list[str], values: dict[str, Value]) -> list[str]:
    if "--parameters" not in command:
        return [*command, "--parameters", json.dumps(values)]
    place = command.index("--parameters") + 1
    try:
        merged = {**json.loads(command[place]), **values}
    except (IndexError, TypeError, ValueError, RecursionError):
        message = '--parameters of a notebook takes one JSON object, as in {"lr": 0.1}.'
        raise BadRequest(message) from None
    return [*command[:place], json.dumps(merged), *command[place + 1 :]]

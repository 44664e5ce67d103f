"""How a trial's values reach a script that does not know us: as arguments, variables or placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from gpucommons.scheduler.sweeps.sweep import Value, Values

_NO_WORD = re.compile(r"[^A-Za-z0-9]")
#: What runs a notebook takes all of its parameters as one JSON object.
_NOTEBOOK = "gpucommons.scheduler.training.notebook"


def as_text(value: Value) -> str:
    """As a script's parser of arguments reads it: ``0.0031``, ``true``, ``sgd``."""
    return value if isinstance(value, str) else json.dumps(value)


def command_with(command: Sequence[str], values: Values) -> list[str]:
    """The command of a trial: ``{lr}`` in it is replaced, what it does not name comes behind it."""
    left = dict(values)
    found: list[str] = []
    for word in command:
        for name, value in values.items():
            if f"{{{name}}}" in word:
                word = word.replace(f"{{{name}}}", as_text(value))  # noqa: PLW2901 - step by step
                left.pop(name, None)
        found.append(word)
    if _NOTEBOOK in found and left:
        return _of_notebook(found, left)
    for name, value in left.items():
        found += [f"--{name}", as_text(value)]
    return found


def variables_of(values: Values) -> dict[str, str]:
    """``LR=0.0031``; what no variable can be called is written with ``_``."""
    return {_NO_WORD.sub("_", name).upper(): as_text(value) for name, value in values.items()}


def _of_notebook(command: list[str], values: dict[str, Value]) -> list[str]:
    if "--parameters" not in command:
        return [*command, "--parameters", json.dumps(values)]
    place = command.index("--parameters") + 1
    merged = {**json.loads(command[place]), **values}
    return [*command[:place], json.dumps(merged), *command[place + 1 :]]

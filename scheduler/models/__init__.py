"""The wire format of ``/v1``: what panel, widget, CLI, YAML and REST all speak.

A file per noun; all names are taken from here. Rules that need the state of the cluster live in
the intake and the core. Times are integer UTC milliseconds, sizes carry their unit.

Which name is in which file stands in ``__init__.pyi``. A file is loaded when one of its names is first
asked for: all of them take longer than most commands and training scripts do until they have begun.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULE_OF = {
    name.name: statement.module
    for statement in ast.parse(_STUB).body
    if isinstance(statement, ast.ImportFrom) and statement.module != "__future__"
    for name in statement.names
}
__all__ = tuple(_MODULE_OF)


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name)
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]

"""Parameters of a notebook by papermill's convention: a cell tagged ``parameters`` has the defaults.

What is given goes into a cell of its own right after it. A name that the cell does not set would be
assigned and never read: it is refused, with those that are known.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.errors import BadRequest

TAG, INJECTED = "parameters", "injected-parameters"
#: What the command line hands on.
MAX_CHARACTERS = 8000


def known_parameters(content: bytes) -> tuple[str, ...] | None:
    """Names that the tagged cell sets; None where no cell is tagged, or it cannot be read."""
    try:
        cells = json.loads(content)["cells"]
        tagged = [cell for cell in cells if TAG in cell.get("metadata", {}).get("tags", ())]
        if not tagged:
            return None
        source = tagged[0]["source"]
        tree = ast.parse("".join(source) if isinstance(source, list) else str(source))
    except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, RecursionError):
        return None
    found: list[str] = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found += [target.id for target in targets if isinstance(target, ast.Name)]
    return tuple(dict.fromkeys(found))


def check_parameters(name: str, content: bytes, given: Mapping[str, Any]) -> None:
    """Refuse what the notebook does not know or no cell can hold.

    Raises
    ------
    BadRequest
        With the names that are known.
    """
    if not given:
        return
    known = known_parameters(content)
    if known is None:
        message = (
            f"{name} has no cell tagged {TAG}: tag the cell with the defaults (in JupyterLab: Property"
            " Inspector, Cell Tags), and parameters replace them."
        )
        raise BadRequest(message)
    unknown = [one for one in given if one not in known]
    if unknown:
        message = (
            f"{name} does not know the parameter {unknown[0]}. Its cell tagged {TAG} sets:"
            f" {', '.join(known) or 'nothing'}."
        )
        raise BadRequest(message)
    if len(as_text(given)) > MAX_CHARACTERS:
        message = (
            f"The parameters take more than {MAX_CHARACTERS:,} characters: put them into a file."
        )
        raise BadRequest(message)


def as_text(given: Mapping[str, Any]) -> str:
    """As the command line of a job has them: the same parameters give the same text.

    Raises
    ------
    BadRequest
        When one is no number, text, list or mapping of such.
    """
    try:
        return json.dumps(dict(given), sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = (
            f"A parameter is a number, a text, true, false, nothing, or a list of such: {error}."
        )
        raise BadRequest(message) from None


def parse_value(text: str) -> Any:
    """A value as papermill's command line takes it: ``True``, ``None``, ``3``, ``0.1``, else text."""
    plain = {"True": True, "False": False, "None": None}
    if text in plain:
        return plain[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def cell_source(given: Mapping[str, Any]) -> str:
    """Python that assigns them."""
    return "\n".join(["# Parameters", *(f"{name} = {_literal(given[name])}" for name in given)])


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_literal(one)}' for key, one in value.items())}}}"
    return repr(value)

"""Cells of a notebook that runs as a job, by the numbers that its reader sees.

A job leaves cells out and adds some of its own, so the kernel counts differently from the notebook. An
error names the cell as the notebook counts it: the number that it has there after *Run All Cells*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: As IPython names a cell in a traceback, with or without colours.
_CELL = re.compile(r"(Cell (?:\x1b\[[0-9;]*m)*In ?\[)(\d+)(?=\])")
_OURS = "added by the job"


def shown_numbers(notebook: Sequence[Any], job: Sequence[Any]) -> dict[int, int]:
    """From the kernel's number of a cell to the notebook's; what the job added has none."""
    own = _counted(notebook)
    found = {}
    for count, cell in enumerate(_counted(job), 1):
        number = next((n for n, one in enumerate(own, 1) if one is cell), None)
        if number is not None:
            found[count] = number
    return found


def _counted(cells: Sequence[Any]) -> list[Any]:
    """Whatever runs gets a number; what is empty does not run."""
    return [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]


def with_numbers(text: str, numbers: Mapping[int, int]) -> str:
    """An error's text with the numbers that its reader sees."""
    return _CELL.sub(lambda found: f"{found[1]}{numbers.get(int(found[2]), _OURS)}", text)

"""What a script counts, in one word, the same in all that is printed of a job."""

from __future__ import annotations

from collections.abc import Mapping


def step_word(unit: str, step: int, metrics: Mapping[str, float], *, saved_as: str = "") -> str:
    """``epoch``, ``sample``, ``step``: as its source says, else as it reports itself.

    ``saved_as`` is what the last checkpoint counts, where nothing is said of progress.
    """
    return unit or ("epoch" if metrics.get("epoch") == step else saved_as or "step")

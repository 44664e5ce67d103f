"""Which of the metrics that a script told is meant by a name: ``accuracy`` also where it prints “Accuracy: 283/297”.

One rule for all that compares: sweeps and their early stopping, promotion of models, triggers.
"""

from __future__ import annotations

from collections.abc import Collection


def metric_called(wanted: str, told: Collection[str]) -> str | None:
    """The very same name, else the only one that differs in upper and lower case alone.

    None where there is no such name, and where several differ in case alone.
    """
    if wanted in told:
        return wanted
    alike = alike_in_case(wanted, told)
    return alike[0] if len(alike) == 1 else None


def alike_in_case(wanted: str, told: Collection[str]) -> list[str]:
    """Names that are the same but for upper and lower case, in order."""
    folded = wanted.casefold()
    return sorted({name for name in told if name.casefold() == folded})


def untold(wanted: str, told: Collection[str]) -> str:
    """Why a script that is over has no value of a metric, given the names of all that it told."""
    if metric_called(wanted, told):
        return f"It told no {wanted} that is a number."
    alike = alike_in_case(wanted, told)
    if alike:
        return f"{' and '.join(alike)} differ in case alone: name one of them as it stands, in place of {wanted}."
    what = f"what it told: {', '.join(sorted(told))}" if told else "it told no metric at all"
    return f"It ended without a word of {wanted}; {what}."

"""Asking NVML: a call gives a value or the reason why there is none, never an exception."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

BYTES_PER_MIB = 1 << 20
ERRORS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a call gave: a value, or the reason why there is none."""

    value: Any = None
    error: Exception | None = None


def ask(call: Callable[..., Any], *arguments: Any) -> Answer:
    """Make a call."""
    try:
        return Answer(value=call(*arguments))
    except ERRORS as error:
        return Answer(error=error)


def words(error: Exception) -> str:
    """What the driver says of an error."""
    # Text of an error asks the library for it, which may be the thing that is missing.
    try:
        return str(error) or type(error).__name__
    except ERRORS:
        return type(error).__name__


def memory_mib(handle: object, field: str) -> int | None:
    """A field of the memory information: version 2 where the driver has it."""
    answer = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    if answer.error is not None:
        answer = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if answer.error is not None else int(getattr(answer.value, field)) // BYTES_PER_MIB


def driver_version() -> str | None:
    """The driver's version; None where it does not tell."""
    answer = ask(pynvml.nvmlSystemGetDriverVersion)
    return None if answer.value is None else str(answer.value)

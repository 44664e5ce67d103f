"""A slice: a share of one device, and how people write shares.

Everything inside the project counts in integers (``milli_gpu``, 1000 = one GPU). Text such as
``½``, ``0.5`` or ``1/2`` exists only at the edge, and this module is that edge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import NewType

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId

#: Name of a granted slice; also the name of its folder below the agent's.
SliceId = NewType("SliceId", str)

#: How the id of a whole device begins that is chosen when its pod starts; a number follows.
CHOSEN_LATER = "chosen-later-"

_GLYPHS = {125: "⅛", 250: "¼", 375: "⅜", 500: "½", 625: "⅝", 750: "¾", 875: "⅞"}
_MAX_CHARACTERS = 32
_FROM_GLYPHS = {glyph: milli for milli, glyph in _GLYPHS.items()}
_MIXED = re.compile(r"([0-9]+) +([0-9]+/[0-9]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MpsDaemon:
    """An MPS control daemon that an admin started for a pool."""

    #: Its pipe directory.
    pipe: str
    #: 2: limits come with each client's environment; 3: they belong to named namespaces.
    version: int = 2
    #: Name of the server in version 3.
    server: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceShare:
    """So much of one device."""

    device_id: DeviceId
    #: 1…1000.
    milli_gpu: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSlice:
    """What one notebook server or one worker of a job holds: whole devices, or a share of one."""

    slice_id: SliceId
    shares: tuple[DeviceShare, ...]
    #: Memory of all shares together.
    memory_mib: int
    #: The daemon that its programs go through, where its pool opted in to MPS.
    mps: MpsDaemon | None = None

    @property
    def milli_gpu(self) -> int:
        """Sum over all shares."""
        return sum(share.milli_gpu for share in self.shares)


def worker_slice(attempt_id: str, rank: int) -> SliceId:
    """The slice of one worker of an attempt."""
    # The tail of the id is random enough, and a socket's path has little room.
    return SliceId(f"{attempt_id[-12:]}-{rank}")


def parse_milli_gpu(text: str) -> int:
    """Read ``½``, ``1½``, ``1 1/2``, ``0.5``, ``1/2``, ``500m`` or ``4`` as milli-GPU.

    Raises
    ------
    ValueError
        When the text is no number, is negative, or is finer than a thousandth of a GPU.
    """
    stripped = text.strip()
    # An exponent could ask for a number with a billion digits.
    if len(stripped) > _MAX_CHARACTERS or "e" in stripped.lower():
        stripped = ""
    try:
        if stripped.endswith("m"):
            milli = Fraction(int(stripped[:-1]))
        elif stripped[-1:] in _FROM_GLYPHS:
            whole = int(stripped[:-1]) if stripped[:-1] else 0
            milli = Fraction(whole * WHOLE_MILLI_GPU + _FROM_GLYPHS[stripped[-1]])
        elif mixed := _MIXED.fullmatch(stripped):
            milli = (int(mixed[1]) + Fraction(mixed[2])) * WHOLE_MILLI_GPU
        else:
            milli = Fraction(stripped) * WHOLE_MILLI_GPU
    except (ValueError, ZeroDivisionError):
        message = f"{text!r} is not a number of GPUs: write 0.5, 1/2, ½, 500m or 4."
        raise ValueError(message) from None
    if milli < 0:
        message = f"{text!r} is not a number of GPUs: it must be 0 or more, for example 0.5 or 4."
        raise ValueError(message)
    if milli.denominator != 1:
        message = f"{text!r} is not a number of GPUs: a GPU has 1000 parts; write 0.5 or 0.333."
        raise ValueError(message)
    return milli.numerator


def format_milli_gpu(milli_gpu: int) -> str:
    """Write milli-GPU the way people do: ``½``, ``1``, ``1½``, ``0.3``."""
    whole, rest = divmod(milli_gpu, WHOLE_MILLI_GPU)
    if rest == 0:
        return str(whole)
    if rest in _GLYPHS:
        return f"{whole or ''}{_GLYPHS[rest]}"
    return f"{whole}.{rest:03d}".rstrip("0")


def format_gpus(milli_gpu: int) -> str:
    """Write an amount of GPUs: ``½ GPU``, ``1 GPU``, ``4 GPUs``."""
    return f"{format_milli_gpu(milli_gpu)} GPU{'s' if milli_gpu > WHOLE_MILLI_GPU else ''}"

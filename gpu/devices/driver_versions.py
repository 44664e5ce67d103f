"""What may be the version of a GPU driver: it comes from machines and labels, and is kept and shown."""

from __future__ import annotations

import re

#: ``550.54.15``; vendors add words and dashes.
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~ -]{0,63}")


def driver_version_from(told: object) -> str:
    """A version as it was told; "" (not told) where that can be none."""
    return told if isinstance(told, str) and _VERSION.fullmatch(told) else ""

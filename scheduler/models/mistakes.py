"""What is wrong with a field, in a sentence: patterns are for machines.

Every door says it the same way: the API, the command line, the panel and its widgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIRST_LAST = "starts and ends with a letter or digit"
#: By pattern; what stands here completes "this field: …".
_SENTENCES: Mapping[str, str] = {
    r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$": (
        f"a name has lower-case letters, digits and hyphens, {_FIRST_LAST}, and is at most 50"
        " characters long"
    ),
    r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}$": (
        "a user's name has letters, digits and _ . @ + -, at most 128 of them"
    ),
    r"^[a-z0-9][a-z0-9/-]{0,101}$": "a job is named by its id, its name, or team/name",
    r"^[A-Za-z_][A-Za-z0-9_]{0,127}$": (
        "a variable's name has letters, digits and underscores, and does not start with a digit"
    ),
    r"^[A-Za-z0-9 ._-]{1,64}$": "a kind of GPU has letters, digits, spaces and . _ -",
    r"^[A-Za-z0-9 ._:/@-]{0,256}$": "an environment has letters, digits, spaces and . _ : / @ -",
    r"^[ -~]{0,256}$": "an environment is a name, path or image of at most 256 plain characters",
    r"^[A-Za-z0-9._-]{0,64}$": "a server's name has letters, digits and . _ -",
    r"^[\w .:/-]{1,64}$": "a metric's name has letters, digits, spaces and _ . : / -",
    r"^[0-9a-f]{64}$": "a snapshot is named by the 64 hexadecimal digits of its SHA-256",
}
_ID = r"^[0-9a-f]{8}-"
_OTHERWISE = "it is empty, too long, or has characters that may not stand there"


def said(mistake: Mapping[str, Any]) -> str:
    """One of the mistakes that pydantic lists, without what was sent: that may be a secret."""
    kind, limits = mistake.get("type"), mistake.get("ctx", {})
    if kind in ("int_type", "int_from_float", "int_parsing", "int_parsing_size"):
        return "a whole number is needed"
    if kind == "greater_than_equal":
        return f"it is {limits['ge']} at least"
    if kind == "less_than_equal":
        return f"it is {limits['le']} at most"
    if kind != "string_pattern_mismatch":
        message = str(mistake.get("msg", "not valid"))
        return message.removeprefix("Value error, ").rstrip(".")
    pattern = str(limits.get("pattern", ""))
    if pattern.startswith(_ID):
        return "an id has 32 hexadecimal digits in five groups"
    return _SENTENCES.get(pattern, _OTHERWISE)

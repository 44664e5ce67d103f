"""What a job's own processes say of saving and waking them: believed only where it can be so.

It comes from files and messages that the job's user can write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.core.going_on.sentences import as_clause
from gpucommons.scheduler.core.model.going_on import Hibernation, ProcessImage

#: More bytes, or milliseconds, than any image has or takes.
_MOST = 1 << 50
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_SAID = 300


def image_facts(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is told of an image, where it can be so; None for anything else."""
    size_bytes, save_ms, sha256 = (told.get(name) for name in ("size_bytes", "save_ms", "sha256"))
    numbers = (size_bytes, save_ms)
    if any(type(one) is not int or not 0 <= one <= _MOST for one in numbers):
        return None
    if not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None:
        return None
    return {"size_bytes": size_bytes, "save_ms": save_ms, "sha256": sha256}


def said(sentence: object) -> str:
    """What a user's own program says, as a clause: a line of ordinary length, whatever it sent."""
    text = " ".join("".join(one if one.isprintable() else " " for one in str(sentence)).split())
    return as_clause(text if len(text) <= _LONGEST_SAID else f"{text[:_LONGEST_SAID]}…")


def process_image(told: Mapping[str, Any]) -> ProcessImage | None:
    """The image in the record of an end; None where there is none, or what stands there cannot be."""
    facts, user = image_facts(told), told.get("user")
    if facts is None or not isinstance(user, str):
        return None
    return ProcessImage(user=user, told=told.get("told") is True, **facts)


def hibernation_of(record: Mapping[str, Any]) -> Hibernation | None:
    """Whether processes could be saved, as a record of ours says; None where it says nothing."""
    facts = record.get("hibernation")
    return Hibernation(**facts) if facts else None

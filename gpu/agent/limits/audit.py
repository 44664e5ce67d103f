"""What the agent did to somebody's process, on record: one JSON object per line, bounded.

Entries are numbered, and the newest are kept at hand, so that a scheduler can ask what is new to it.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import AuditEntry

logger = logging.getLogger(__name__)

#: The file before this one is kept, so the record is between one and two of these.
_MAX_BYTES = 4 << 20
#: As many are at hand for who asks.
_AT_HAND = 500
#: The end of a file that is read at the start.
_TAIL_BYTES = 512 << 10


class AuditLog:
    """``audit.jsonl`` in the agent's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._newest: deque[AuditEntry] = deque(_tail(path), maxlen=_AT_HAND)
        self._number = self._newest[-1].number if self._newest else 0

    def after(self, number: int) -> Sequence[AuditEntry]:
        """The newest entries that are later than this one, oldest first.

        A number that was never given is from a record that is lost: everything is new then.
        """
        known = 0 <= number <= self._number
        return [one for one in self._newest if not known or one.number > number]

    def write(
        self,
        at_ms: int,
        event: str,
        text: str,
        *,
        slice_id: SliceId | None = None,
        **fields: object,
    ) -> None:
        """Add one event; a full disk loses the record, never the act."""
        self._number += 1
        entry = AuditEntry(
            number=self._number,
            key=os.urandom(16).hex(),
            at_ms=at_ms,
            event=event,
            text=text,
            slice_id=slice_id,
            fields=fields,
        )
        self._newest.append(entry)
        line = json.dumps(entry.as_json())
        logger.warning("%s", line)
        try:
            if self._path.exists() and self._path.stat().st_size > _MAX_BYTES:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._path, error)


def _tail(path: Path) -> list[AuditEntry]:
    """The entries at the end of the record; lines that cannot be read are passed over."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(AuditEntry.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            continue
    return found

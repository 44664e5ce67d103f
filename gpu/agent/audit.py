"""What the agent did to somebody's process, on record: one JSON object per line, bounded."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)

#: The file before this one is kept, so the record is between one and two of these.
_MAX_BYTES = 4 << 20


class AuditLog:
    """``audit.jsonl`` in the agent's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, at_ms: int, event: str, **fields: object) -> None:
        """Add one event; a full disk loses the record, never the act."""
        entry = {"at_ms": at_ms, "event": event, **fields}
        logger.warning("%s", json.dumps(entry))
        try:
            if self._path.exists() and self._path.stat().st_size > _MAX_BYTES:
                self._path.replace(self._path.with_suffix(".1.jsonl"))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._path, error)

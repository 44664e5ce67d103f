"""The token that opens the metrics port: the numbers of all slices are for admins."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def metrics_token(folder: Path) -> str:
    """The token in ``metrics-token``, made at the first start and kept."""
    path = folder / "metrics-token"
    try:
        found = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        found = ""
    if found:
        return found
    token = secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token

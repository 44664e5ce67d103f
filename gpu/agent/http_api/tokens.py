"""Tokens of the agent: that of its metrics port, and those of its HTTP API for other machines."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

#: A token that could be guessed is none.
LEAST_TOKEN_CHARACTERS = 32


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


def read_token(path: Path) -> str:
    """The token.

    Raises
    ------
    ValueError
        When there is none, or one that could be guessed.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        message = f"The HTTP API's token cannot be read: {error}"
        raise ValueError(message) from None
    if len(token) < LEAST_TOKEN_CHARACTERS:
        message = f"{path} must hold a token of at least {LEAST_TOKEN_CHARACTERS} characters."
        raise ValueError(message)
    return token

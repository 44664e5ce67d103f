"""The token of one attempt: derived from its id, so that nothing needs to be stored or revoked.

It proves which attempt speaks; whether that attempt is still the current one is asked of the
cluster each time.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from gpucommons.scheduler.core.types import AttemptId

_PREFIX = "gca-"
_KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """Read the installation's key, making it on first use (0600, never overwritten).

    Raises
    ------
    ValueError
        When the file is not a key: tokens of running jobs would silently stop to work.
    """
    with suppress(FileExistsError):
        _write_once(path, secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        message = f"{path} holds {len(key)} bytes, not a key of {_KEY_BYTES}: restore or remove it."
        raise ValueError(message)
    return key


def _write_once(path: Path, content: bytes) -> None:
    # A link either appears whole or not at all, so two starters and a crash all see one key.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.link(aside, path)
    finally:
        os.close(descriptor)
        aside.unlink()


def token_of(key: bytes, attempt_id: AttemptId) -> str:
    """The token that the attempt's processes carry."""
    return f"{_PREFIX}{attempt_id}.{_signature(key, attempt_id)}"


def attempt_of(key: bytes, token: str) -> AttemptId | None:
    """Whose token this is; None when it was not made with this key."""
    if not token.startswith(_PREFIX):
        return None
    attempt_id, _, signature = token.removeprefix(_PREFIX).partition(".")
    genuine = hmac.compare_digest(_signature(key, attempt_id).encode(), signature.encode())
    return AttemptId(attempt_id) if genuine else None


def _signature(key: bytes, attempt_id: str) -> str:
    return hmac.new(key, attempt_id.encode(), hashlib.sha256).hexdigest()

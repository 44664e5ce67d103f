"""The token of one attempt: derived from its id, so that nothing needs to be stored or revoked.

It proves which attempt speaks; whether that attempt is still the current one is asked of the
cluster each time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.files.durable_files import write_once

_PREFIX = "gca-"
_KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """Read the installation's key, making it on first use (0600, never overwritten).

    Raises
    ------
    ValueError
        When the file is not a key: tokens of running jobs would silently stop to work.
    """
    if not path.exists():
        write_once(path, secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        message = f"{path} holds {len(key)} bytes, not a key of {_KEY_BYTES}: restore or remove it."
        raise ValueError(message)
    return key


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

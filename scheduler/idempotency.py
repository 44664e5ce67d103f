"""One idempotency key stands for one request: sent again it gets the first answer, with another it is refused."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import BaseModel

from gpucommons.scheduler.errors import Conflict


def fingerprint(kind: str, request: Any) -> str:
    """Equal for equal requests of one kind. It is stored with the first request under a key.

    What has its default is left out: a field that a later release adds makes no other request of the
    one that is sent again after an upgrade.
    """
    body = (
        request.model_dump_json(exclude_defaults=True)
        if isinstance(request, BaseModel)
        else repr(request)
    )
    return hashlib.sha256(f"{kind}\0{body}".encode(errors="replace")).hexdigest()


def check_same_request(key: str | None, first: str, again: str) -> None:
    """Compare the fingerprints of two requests under one key.

    Raises
    ------
    Conflict
        When the key was used for another one.
    """
    if first != again:
        message = f"The idempotency key {key!r} was used for another request: choose a new key."
        raise Conflict(message)

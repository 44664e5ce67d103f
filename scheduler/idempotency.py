"""One idempotency key stands for one request: sent again it gets the first answer, with another it is refused.

Keys are told apart by who asks, by name. Parts of ours ask under names that a user may have as well.
"""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import BaseModel

from gpucommons.scheduler.errors import Conflict

#: Who does what nobody asked for, as lists of events and changes name it.
PARTS = frozenset({"first configuration", "restore", "scheduler"})


def is_part_of_ours(name: str) -> bool:
    """Whether what bears this name as its author may be of the scheduler or an agent, and of nobody."""
    return name in PARTS or name.startswith("agent of ")


def key_of_caller(name: str, key: str) -> str:
    """A key as it is stored for somebody who is no part of ours, whatever they are called."""
    return f"caller {key}" if is_part_of_ours(name) else key


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

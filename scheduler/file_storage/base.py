"""The one contract with durable files: a folder that all replicas mount, or object storage.

Keys are paths with ``/``. An object appears whole or not at all, and a few are written only if
nobody else wrote meanwhile: that is how one of two leaders is refused. Whoever runs as a job never
comes here; jobs get links to what is theirs, made by :meth:`Storage.links`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gpucommons.scheduler.errors import BadRequest, Conflict

#: A link is good for so long: an upload of one part must begin and end within it.
LINK_S = 3600
_LONGEST_KEY = 1000


class Changed(Conflict):
    """Somebody else wrote this meanwhile; read it again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What is known of an object without reading it."""

    key: str
    size_bytes: int
    modified_s: float


class Storage(Protocol):
    """Durable files by key. Raises ``Unavailable`` when the storage does not answer."""

    def put(self, key: str, source: Path) -> None:
        """Store a file, durably, replacing what was there."""
        ...

    def write(self, key: str, content: bytes, *, version: str | None) -> str:
        """Store something small if ``version`` is still there (None: nothing is); returns the new
        version.

        Raises
        ------
        Changed
            When something else is there.
        """
        ...

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Something small and its version; None when it is not there."""
        ...

    def chunks(self, key: str) -> Iterator[bytes]:
        """An object piece by piece.

        Raises
        ------
        NotFound
            When it is not there.
        """
        ...

    def head(self, key: str) -> Stored | None:
        """What is known of an object."""
        ...

    def below(self, prefix: str) -> Iterator[Stored]:
        """Everything below a folder, in no order."""
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Delete; what is not there is no error."""
        ...

    def links(self, method: Literal["GET", "PUT"], keys: Sequence[str]) -> list[str] | None:
        """Addresses with which anybody may do this one thing for :data:`LINK_S`; None = not here."""
        ...


def checked_key(key: str) -> str:
    """The key, if it is one everywhere.

    Raises
    ------
    BadRequest
        When it would mean something else, or nothing, in some storage.
    """
    parts = key.split("/")
    sound = all(part not in ("", ".", "..") for part in parts) and key.isprintable()
    if not sound or len(key.encode(errors="replace")) > _LONGEST_KEY:
        message = f"{key[:200]!r} cannot be stored under this name: use a plain relative path."
        raise BadRequest(message)
    return key

"""One request to ``/v1`` as a value; :mod:`.calls` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from gpucommons.scheduler.errors import NotFound

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Generic[R]):
    """One request. ``answer`` is the model of a 2xx body."""

    method: str
    path: str
    answer: type[R]
    query: Mapping[str, str] = field(default_factory=dict)
    body: BaseModel | None = None
    #: Raw body instead of JSON (a snapshot's bytes).
    content: bytes | None = None
    #: Repeating a call with the same key does nothing twice.
    idempotency_key: str | None = None
    #: How long the server may hold the request before it answers.
    wait_s: float = 0


def path_of(*segments: str) -> str:
    """The path of a route.

    Raises
    ------
    NotFound
        For a segment that would lead to another route.
    """
    away = next((segment for segment in segments if segment in (".", "..")), None)
    if away is not None:
        message = f"There is nothing called {away!r}."
        raise NotFound(message)
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)

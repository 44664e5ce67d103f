"""What lists show of a job's request: 500 jobs must not weigh 500 times what one job may.

Only what is long is left out, and named: how many GPUs a job asks for is what its row is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL

#: A longer request loses its longest fields, until it is no longer.
LISTED_REQUEST_BYTES = 8 << 10
#: After so many bytes of requests a page has only short ones.
PAGE_BYTES = 1 << 20
SHORT_REQUEST_BYTES = 1 << 10
#: Fields that people fill at any length.
_LONG = ("env", "labels", "secrets", "after", "near", "data")
_COMMANDS = "roles.command"
#: Of jobs these are seldom long.
_EMPTY_IN_OUTLINE: dict[str, Any] = {"after_any": [], "after_failed": [], "links": []}
#: A role has a command; nobody takes this for the one that it has.
_LEFT_OUT = ["…"]


def page_of(views: Iterable[models.JobView]) -> list[models.JobView]:
    """A page of a list, which is held in memory until whoever asked has read it."""
    shown: list[models.JobView] = []
    total_bytes = 0
    for view in views:
        most_bytes = LISTED_REQUEST_BYTES if total_bytes < PAGE_BYTES else SHORT_REQUEST_BYTES
        shown.append(listed(view, most_bytes))
        request = shown[-1].request
        total_bytes += 0 if request is None else _bytes(request)
    return shown


def listed(view: models.JobView, most_bytes: int = LISTED_REQUEST_BYTES) -> models.JobView:
    """A job as lists show it."""
    request = view.request
    if request is None or _bytes(request) <= most_bytes:
        return view
    lacks: list[str] = []
    for field in sorted((_COMMANDS, *_LONG), key=lambda one: -_field_bytes(request, one)):
        lacks.append(field)
        shown = request.model_copy(update=_without(request, lacks))
        if _bytes(shown) <= most_bytes:
            break
    return view.model_copy(update={"request": shown, "request_lacks": sorted(lacks)})


def outlined(request: models.JobRequest) -> models.JobRequest:
    """What a list shows of what a sweep or a map runs: what it asks for, and by which program it came."""
    labels = {name: text for name, text in request.labels.items() if name == ORIGIN_LABEL}
    return request.model_copy(
        update={**_without(request, [_COMMANDS, *_LONG]), **_EMPTY_IN_OUTLINE, "labels": labels}
    )


def _bytes(request: models.JobRequest) -> int:
    return len(request.model_dump_json().encode())


def _field_bytes(request: models.JobRequest, field: str) -> int:
    return _bytes(request) - _bytes(request.model_copy(update=_without(request, [field])))


def _without(request: models.JobRequest, fields: list[str]) -> dict[str, Any]:
    """These fields of a request, empty."""
    found: dict[str, Any] = {
        field: type(getattr(request, field))() for field in fields if field in _LONG
    }
    if _COMMANDS in fields:
        found["roles"] = [role.model_copy(update={"command": _LEFT_OUT}) for role in request.roles]
    return found

"""The one mapper from errors to HTTP: every refusal is an ``ErrorView`` with the right status."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gpucommons.scheduler.api.observing import common_headers
from gpucommons.scheduler.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotAuthenticated,
    NotFound,
    SchedulerError,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from gpucommons.scheduler.models import ErrorView
from gpucommons.scheduler.models.text.field_errors import fields_beside, named, said

log = logging.getLogger("gpucommons.scheduler.api")

_HEADERS: Mapping[int, Mapping[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "token"},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": "5"},
}
_BY_STATUS: Mapping[int, type[SchedulerError]] = {
    error.status: error
    for error in (
        BadRequest,
        NotAuthenticated,
        Forbidden,
        NotFound,
        Conflict,
        TooLarge,
        TooManyRequests,
        Unavailable,
    )
}
_AS_ERROR_VIEW = {
    "application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorView.__name__}"}}
}
#: What any route may answer besides its own view, for the OpenAPI document. The first names the model,
#: so that it stands there, and the others refer to it: of each model that a route names, FastAPI makes
#: a validator when the route is imported, two fifths of what importing the routes called.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": (error.__doc__ or "").strip(),
        **({"model": ErrorView} if error is BadRequest else {"content": _AS_ERROR_VIEW}),
    }
    for status, error in sorted(_BY_STATUS.items())
}
#: Of a long list of mistakes so many are named.
_NAMED = 20
#: No sentence is longer.
_LONGEST = 2000


def answer(error: SchedulerError, details: Sequence[Mapping[str, Any]] = ()) -> Response:
    """A refusal on the wire."""
    return view(
        error.status, error=error.code, message=str(error), details=[dict(one) for one in details]
    )


def view(
    status: int, *, error: str, message: str, details: list[dict[str, Any]] | None = None
) -> Response:
    """An ``ErrorView`` as a response."""
    body = ErrorView(error=error, message=_printable(message), details=details or [])
    return Response(
        body.model_dump_json(),
        status_code=status,
        media_type="application/json",
        headers=_HEADERS.get(status),
    )


def _printable(text: str) -> str:
    """Control characters and half surrogates come from the caller: they are not sent back."""
    kept = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return kept if len(kept) <= _LONGEST else f"{kept[:_LONGEST]}…"


def install(app: FastAPI) -> None:
    """Register the mapper."""
    app.add_exception_handler(SchedulerError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, SchedulerError)  # noqa: S101 - registered for these alone
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return answer(error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for these alone
    mistakes = error.errors()[:_NAMED]
    details = [_detail(found, _possible(request, found)) for found in mistakes]
    sentences = [
        f"{_in_words(found, one['field'])}: {one['message']}."
        for found, one in zip(mistakes, details, strict=True)
    ]
    return answer(BadRequest(" ".join(sentences) or None), details)


def _in_words(found: Mapping[str, Any], field: str) -> str:
    place = list(found.get("loc", ()))[1:]
    return _printable(named(place)) if field == ".".join(map(str, place)) else field


def _possible(request: Request, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields that a body may have there."""
    body = getattr(request.scope.get("route"), "body_field", None)
    kind, place = (
        getattr(getattr(body, "field_info", None), "annotation", None),
        found.get("loc", ()),
    )
    if not (isinstance(kind, type) and issubclass(kind, BaseModel) and place[:1] == ("body",)):
        return ()
    return fields_beside([kind], place[1:])


def _detail(found: Mapping[str, Any], possible: Sequence[str]) -> dict[str, Any]:
    """One mistake: where, and what is wrong. The value itself is not repeated: it may be secret."""
    place = [str(part) for part in found.get("loc", ())]
    if found.get("type") == "json_invalid":
        return {"field": "body", "message": "this is not JSON"}
    field = ".".join(place[1:]) or (place[0] if place else "request")
    return {"field": _printable(field), "message": _printable(said(found, possible))}


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these alone
    status = error.status_code
    path = f"{request.method} {request.url.path}"
    if status == HTTPStatus.NOT_FOUND:
        return answer(NotFound(f"There is no {path}; /v1/openapi.json lists what there is."))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"{path} cannot be done; /v1/openapi.json lists what can."
        refused = view(status, error=NotFound.__name__, message=message)
        refused.headers.update(error.headers or {})
        return refused
    if status == HTTPStatus.BAD_REQUEST:
        return answer(BadRequest(str(error.detail)))
    known = _BY_STATUS.get(status, SchedulerError)
    return view(status, error=known.__name__, message=str(error.detail))


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    failed = answer(SchedulerError())
    # This is answered outside of what gives every other answer its headers.
    failed.headers.update(common_headers(request.scope))
    return failed

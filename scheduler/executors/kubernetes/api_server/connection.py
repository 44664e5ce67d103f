"""One connection to the API server: raw JSON, counted, and errors that say what to do.

The client library finds the server and the credentials; the objects stay plain dictionaries, because
building its models costs more than the request itself when thousands of pods start.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

import urllib3

Document = dict[str, Any]

_CHUNK_BYTES = 1 << 16
#: Of a watch: etcd keeps objects of 1.5 MiB.
MAX_LINE_BYTES = 16 << 20
_TIMEOUT = urllib3.Timeout(connect=5, read=30)
#: Of what is changed nobody reads the answer, the watches tell: the whole object need not be written.
_BRIEFLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_REFUSED = 400
#: 401: a token that was renewed is read anew for the next request.
_TRY_AGAIN = frozenset({0, 401, 429, 500, 502, 503, 504})
_UNAUTHORIZED = 401
#: A token that was refused is not shown again before; a renewed one is, at once.
_STRANGER_REST_S = 2.0
NOT_FOUND, CONFLICT, GONE, UNPROCESSABLE = 404, 409, 410, 422


class ApiError(Exception):
    """The API server refused a request, or did not answer (status 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def try_again(self) -> bool:
        """The same request may be granted a moment later."""
        return self.status in _TRY_AGAIN or (
            # Others wrote at the same time, as into a ResourceQuota that counts what is made.
            self.status == CONFLICT and self.reason == "Conflict"
        )

    @property
    def exists(self) -> bool:
        """What was to be made is there already. A 409 alone does not say so."""
        return self.status == CONFLICT and self.reason == "AlreadyExists"


class Credentials(Protocol):
    """Who we are, asked before each request because tokens in a cluster are renewed."""

    def headers(self) -> Mapping[str, str]:
        """The ``Authorization`` header; none where a certificate says it."""
        ...


class Streaming:
    """An answer that goes on; another thread may end it at any time."""

    def __init__(self, path: str, response: urllib3.BaseHTTPResponse) -> None:
        self._path = path
        self._response = response

    def __enter__(self) -> Iterator[bytes]:
        return self._lines()

    def __exit__(self, *_error: object) -> None:
        # Not back into the pool: half an answer may still be in it.
        self._response.close()
        self._response.release_conn()

    def close(self) -> None:
        """End it: whoever reads meets the end."""
        socket_of = getattr(getattr(self._response, "connection", None), "sock", None)
        if socket_of is not None:
            with suppress(OSError):
                socket_of.shutdown(socket.SHUT_RDWR)

    def chunks(self) -> Iterator[bytes]:
        """What comes, in pieces of bounded size.

        Raises
        ------
        ApiError
            When it breaks off.
        """
        try:
            while chunk := self._response.read1(_CHUNK_BYTES):
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            message = f"The stream of {self._path} ended: {error}"
            raise ApiError(0, "Interrupted", message) from error

    def _lines(self) -> Iterator[bytes]:
        begun: list[bytes] = []
        size = 0
        for chunk in self.chunks():
            first, *others = chunk.split(b"\n")
            begun.append(first)
            size += len(first)
            for other in others:
                yield b"".join(begun)
                begun, size = [other], len(other)
            if size > MAX_LINE_BYTES:
                message = (
                    f"The stream of {self._path} has a line of more than"
                    f" {MAX_LINE_BYTES >> 20} MiB, which no object is."
                )
                raise ApiError(0, "TooLong", message)
        if size:
            yield b"".join(begun)


class Connection:
    """Requests to one API server, from any thread."""

    def __init__(
        self,
        host: str,
        pool: urllib3.PoolManager,
        credentials: Credentials,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host.rstrip("/")
        self._pool = pool
        self._credentials = credentials
        self._now_s = now_s
        #: The last credentials that were refused, and until when they rest.
        self._refused: tuple[Mapping[str, str], float] = ({}, 0.0)
        self._lock = threading.Lock()
        #: Requests by verb and resource, for the metrics.
        self._requests: Counter[tuple[str, str]] = Counter()

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """How many requests were made, by verb and resource."""
        with self._lock:
            return dict(self._requests)

    def get(self, path: str, **query: str | int) -> Document:
        """Read one object or list."""
        return self._document("GET", path, query=query)

    def post(self, path: str, body: Document) -> Document:
        """Create an object."""
        return self._document("POST", path, body=body)

    def delete(self, path: str, body: Document | None = None) -> None:
        """Delete an object."""
        self._send("DELETE", path, body=body, accept=_BRIEFLY)

    def json_patch(self, path: str, patch: list[Document]) -> None:
        """Change an object step by step, all or nothing."""
        kind = "application/json-patch+json"
        self._send("PATCH", path, body=patch, kind=kind, accept=_BRIEFLY)

    def merge_patch(self, path: str, patch: Document) -> None:
        """Change fields of an object."""
        kind = "application/merge-patch+json"
        self._send("PATCH", path, body=patch, kind=kind, accept=_BRIEFLY)

    def text(self, path: str, **query: str | int) -> bytes:
        """Read a log."""
        return self._send("GET", path, query=query).data

    def stream(self, path: str, *, idle_s: float, **query: str | int) -> Streaming:
        """Read as it comes: the lines of a watch, or the chunks of a log that is followed."""
        timeout = urllib3.Timeout(connect=5, read=idle_s)
        response = self._send("GET", path, query=query, preload=False, timeout=timeout)
        return Streaming(path, response)

    def _document(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        kind: str = "application/json",
    ) -> Document:
        data = self._send(verb, path, query=query, body=body, kind=kind).data
        document: Document = json.loads(data)
        return document

    def _send(  # noqa: PLR0913 - one place for all requests
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        kind: str = "application/json",
        accept: str = "application/json",
        preload: bool = True,
        timeout: urllib3.Timeout = _TIMEOUT,
    ) -> urllib3.BaseHTTPResponse:
        with self._lock:
            self._requests[_verb(verb, query), resource_of(path)] += 1
        who = self._credentials.headers()
        self._check_rest(who)
        headers = {"Accept": accept, **who}
        if body is not None:
            headers["Content-Type"] = kind
        try:
            response = self._pool.request(
                verb,
                self._host + path,
                fields=None if query is None else {k: str(v) for k, v in query.items()},
                body=None if body is None else json.dumps(body, separators=(",", ":")).encode(),
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=preload,
            )
        except urllib3.exceptions.HTTPError as error:
            message = f"The API server does not answer ({error}); it is asked again."
            raise ApiError(0, "Unreachable", message) from error
        if response.status == _UNAUTHORIZED:
            self._refused = (who, self._now_s() + _STRANGER_REST_S)
        if response.status >= _REFUSED:
            raise _refusal(response.status, response.data)
        return response

    def _check_rest(self, who: Mapping[str, str]) -> None:
        refused, until_s = self._refused
        if who == refused and self._now_s() < until_s:
            message = (
                "The API server does not take our token, which is shown again in a moment: where that"
                " lasts, look at the service account's token."
            )
            raise ApiError(_UNAUTHORIZED, "Unauthorized", message)


def create_once(connection: Connection, path: str, body: Document) -> None:
    """Create an object that may be there already."""
    try:
        connection.post(path, body)
    except ApiError as error:
        if not error.exists:
            raise


def delete_at_once(connection: Connection, path: str, uid: str) -> None:
    """Delete a pod that nobody has to wait for, and no other of its name."""
    connection.delete(path, {"preconditions": {"uid": uid}, "gracePeriodSeconds": 0})


def _refusal(status: int, data: bytes) -> ApiError:
    try:
        found = json.loads(data)
        return ApiError(status, str(found.get("reason", "")), str(found.get("message", "")))
    except (ValueError, AttributeError):
        text = data[:500].decode(errors="replace")
        return ApiError(status, "", text or f"The API server answered {status}.")


def _verb(verb: str, query: Mapping[str, str | int] | None) -> str:
    if query and "watch" in query:
        return "watch"
    return verb.lower()


def resource_of(path: str) -> str:
    """The resource in a request's path, for counting: ``pods``, ``jobs``, ``pods/log``."""
    parts = [part for part in path.split("/") if part]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and parts[2:]:
        parts = parts[2:]
    return "/".join((parts[0], *parts[2:])) if parts else ""

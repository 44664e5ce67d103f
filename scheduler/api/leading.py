"""What only the leader can answer is passed on to it: reports that live in its memory, and what it
must put on record itself. Leases are, too, while it answers: it alone knows which card of a node a
slot is. Everything else any replica answers from the store.

The request goes on as it came, with the caller's own token, so the leader alone authorizes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.api.errors import answer
from gpucommons.scheduler.errors import BadRequest, Unavailable

_LEADERS = (
    re.compile(r"^POST /v1/attempt/(progress|checkpoints)$"),
    re.compile(r"^POST /v1/leases/[^/]+/(started|end|reclaim)$"),
    re.compile(r"^(GET|PUT) /v1/leases/[^/]+/activity$"),
    re.compile(r"^GET /v1/(activities|growth)$"),
)
_RATHER_LEADERS = re.compile(r"^(GET /v1/lease|(GET|POST) /v1/leases(/.*)?)$")
#: Of these, those that keep an idempotency key with what they did; the others take no notice of one.
_KEEPS_KEYS = re.compile(r"^POST /v1/leases(/acquire)?$")
#: Says that a replica has passed it on already: two that each believe the other leads must not
#: play with it.
PASSED_ON = "x-gpucommons-passed-on"
_HANDED_ON = (
    "authorization",
    "content-type",
    "idempotency-key",
    "accept",
    "x-request-id",
    "traceparent",
    "tracestate",
)
#: A receipt waits for its cycle.
_TIMEOUT = httpx.Timeout(20.0, connect=2.0)


_NOBODY_LEADS = "No replica leads right now; try again in a moment."
_PERHAPS_DONE = (
    "The replica that leads was asked and did not answer: it may have done this all the same. Look"
    " whether it did, and ask again if not."
)
#: The request never left us.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class _Unanswered(Exception):
    """The leader was asked, and whether it did anything is not known."""


def is_for_leader(method: str, path: str) -> bool:
    """Whether only the leader can answer this."""
    return any(one.match(f"{method} {path}") for one in _LEADERS)


def is_rather_for_leader(method: str, path: str) -> bool:
    """Whether the leader's answer says more than ours."""
    return _RATHER_LEADERS.match(f"{method} {path}") is not None


class ToLeader:
    """ASGI middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        leading: Callable[[], bool],
        leader: Callable[[], str | None],
        name: Callable[[], str] = lambda: "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._app = app
        self._leading, self._leader, self._name = leading, leader, name
        self._transport = transport
        self._http: httpx.AsyncClient | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer here, or have it answered."""
        if scope["type"] != "http" or self._leading():
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        must = is_for_leader(method, path)
        if not must and not is_rather_for_leader(method, path):
            await self._app(scope, receive, send)
            return
        if _is_known_by_socket(scope):
            # Whom our kernel vouches for the leader does not know.
            here = (
                answer(Unavailable(await run_in_threadpool(self._elsewhere))) if must else self._app
            )
            await here(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            await answer(BadRequest("The request broke off before its end."))(scope, receive, send)
            return
        try:
            response = await self._ask(scope, body)
        except Unavailable as error:
            if must:
                await answer(error)(scope, receive, send)
            else:
                await self._app(scope, _again(body, receive), send)
            return
        except _Unanswered:
            if must or not _may_be_repeated(scope):
                await answer(Unavailable(_PERHAPS_DONE))(scope, receive, send)
            else:
                await self._app(scope, _again(body, receive), send)
            return
        kind = response.headers.get("content-type", "application/json").encode()
        start = {"type": "http.response.start", "status": response.status_code}
        await send({**start, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": response.content})

    def _elsewhere(self) -> str:
        name = self._name()
        if not name:
            return _NOBODY_LEADS
        return (
            f"Only the replica that leads knows this, and that is {name}. Ask there: in a cluster,"
            f" kubectl exec pod/{name} -- gpucommons …"
        )

    async def _ask(self, scope: Scope, body: bytes) -> httpx.Response:
        headers = Headers(scope=scope)
        url = None if PASSED_ON in headers else await run_in_threadpool(self._leader)
        if url is None:
            raise Unavailable(_NOBODY_LEADS)
        query = scope["query_string"].decode("ascii", errors="replace")
        # As bytes: what is no ASCII is for the leader to refuse.
        kept = {n.encode(): headers[n].encode("latin-1") for n in _HANDED_ON if n in headers}
        try:
            return await self._client(url).request(
                scope["method"],
                f"{url}{scope['path']}" + (f"?{query}" if query else ""),
                content=body,
                headers={**kept, PASSED_ON.encode(): b"1"},
            )
        except httpx.HTTPError as error:
            if not isinstance(error, _NOT_SENT):
                raise _Unanswered from None
            raise Unavailable(
                "The replica that leads does not answer; another one takes over in a moment."
            ) from None

    def _client(self, url: str) -> httpx.AsyncClient:
        """Made when it is first needed: one scheduler alone never asks another."""
        if self._http is None:
            self._http = httpx.AsyncClient(
                timeout=_TIMEOUT,
                trust_env=False,
                transport=self._transport,
                verify=trusted_at(url),
            )
        return self._http


def _is_known_by_socket(scope: Scope) -> bool:
    """Somebody of this machine, without a token that would say it anywhere."""
    state = scope.get("state") or {}
    return state.get("peer_uid") is not None and "authorization" not in Headers(scope=scope)


def _may_be_repeated(scope: Scope) -> bool:
    """Doing it twice is doing it once."""
    asked = f"{scope['method']} {scope['path']}"
    return scope["method"] == "GET" or (
        _KEEPS_KEYS.match(asked) is not None and bool(Headers(scope=scope).get("idempotency-key"))
    )


async def _body(receive: Receive) -> bytes | None:
    """All of it; None where the caller has gone before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for whoever reads it next."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again

"""The three things asked of JupyterHub: stop a server, look at one, list those that run.

Lists are streamed page by page, so 10,000 users need no more memory than 200, and users whose options
are beyond all measure are passed over, so that they keep nobody else's servers running.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, Self

import httpx

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.hub.addresses import address_of_server, address_of_user
from gpucommons.scheduler.hub.bounded_answers import read_up_to

log = logging.getLogger("gpucommons.culler")

#: The most that a hub gives per page.
PAGE_SIZE = 200
#: A hub answers a stop after 10 s at the latest (``slow_stop_timeout``), busy ones later.
TIMEOUT_S = 60.0

#: Of one answer: a page of users has the options of all their servers, of whatever size they posted.
MAX_ANSWER_BYTES = 16 << 20
#: A million users in pages of the usual size.
MAX_PAGES = 5_000
#: Users who are too large alone; with more of them it is not the users who are at fault.
MAX_PASSED_OVER = 100

_PASSED_OVER = (
    "Nothing is culled of the user whom GET /users?state=ready&limit=1&offset=%s names: what the hub"
    " keeps of their servers is larger than %s MiB, or lies in too many brackets. Stop those that have such options."
)
_REFUSED = (401, 403)
_GONE = 404
_PENDING = 202


class HubUnavailable(Exception):
    """JupyterHub cannot be reached or refused."""


class AnswerTooLarge(HubUnavailable):
    """JupyterHub's answer is not read to its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HubServer:
    """A running server as the hub's API describes it."""

    user: str
    server_name: str
    ready: bool
    #: A start or stop is under way.
    pending: str | None
    started_ms: int | None
    last_activity_ms: int | None
    #: The hub's own words, for an arbiter.
    model: dict[str, Any]

    @property
    def label(self) -> str:
        """Who and which, for logs."""
        return f"{self.user}/{self.server_name}" if self.server_name else self.user


class StopsServers(Protocol):
    """What the lease side needs of a hub."""

    async def stop(self, user: str, server_name: str, *, remove: bool = False) -> bool:
        """Stop a server; True once it is down, False while it is still going down."""
        ...


class Hub:
    """JupyterHub's REST API, with a service's token."""

    def __init__(
        self, api_url: str, *, token: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=api_url.rstrip("/"),
            headers={"Authorization": f"token {token}"},
            timeout=httpx.Timeout(TIMEOUT_S, connect=5.0),
            transport=transport,
            trust_env=False,
            verify=trusted_at(api_url),
        )

    async def stop(self, user: str, server_name: str, *, remove: bool = False) -> bool:
        """See :class:`StopsServers`; a server that is already gone is down."""
        body = {"remove": True} if remove and server_name else None
        response = await self._request("DELETE", address_of_server(user, server_name), json=body)
        return response.status_code != _PENDING

    async def server(self, user: str, server_name: str) -> HubServer | None:
        """One server, read anew; None when it does not run."""
        # The user's own resource: the address of a single server exists only from JupyterHub 6 on.
        response = await self._request("GET", address_of_user(user))
        if response.status_code == _GONE:
            return None
        with _understood("the user"):
            model = (response.json().get("servers") or {}).get(server_name)
            return _server(user, server_name, model) if model is not None else None

    async def ready_servers(self, page_size: int = PAGE_SIZE) -> AsyncGenerator[HubServer]:
        """All servers that run, page by page.

        A page that is too large is asked for again in halves; a user who is too large alone is passed
        over.

        Raises
        ------
        HubUnavailable
            When a page cannot be read, or the list does not end.
        """
        offset, limit, passed_over = 0, page_size, 0
        for _ in range(MAX_PAGES):
            try:
                servers, following = _page(await self._users(offset, limit))
            except AnswerTooLarge:
                if limit <= 1:
                    if passed_over == MAX_PASSED_OVER:
                        raise
                    log.warning(_PASSED_OVER, offset, MAX_ANSWER_BYTES >> 20)
                    offset, passed_over = offset + 1, passed_over + 1
                limit = max(1, limit // 2)
                continue
            limit = min(page_size, 2 * limit)
            for server in servers:
                yield server
            if following is None:
                return
            offset = following
        message = f"JupyterHub's list of users does not end after {MAX_PAGES} pages."
        raise HubUnavailable(message)

    async def _users(self, offset: int, limit: int) -> httpx.Response:
        return await self._request(
            "GET",
            "/users",
            params={"state": "ready", "limit": limit, "offset": offset},
            headers={"Accept": "application/jupyterhub-pagination+json"},
        )

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            async with self._http.stream(method, path, **options) as streamed:
                content = await read_up_to(MAX_ANSWER_BYTES, streamed)
                status = streamed.status_code
        except httpx.HTTPError as error:
            message = f"JupyterHub does not answer {method} {path}: {type(error).__name__}."
            raise HubUnavailable(message) from error
        if content is None:
            raise _too_large(f"{method} {path}")
        response = httpx.Response(status, content=content)
        if response.status_code in _REFUSED:
            message = (
                f"JupyterHub refuses {method} {path} with the culler's token ({response.status_code})."
                " A hub reads tokens and roles when it starts: if GPU Commons was installed or changed"
                " since, restart the hub."
            )
            raise HubUnavailable(message)
        if not response.is_success and response.status_code != _GONE:
            message = f"JupyterHub answered {method} {path} with {response.status_code}."
            raise HubUnavailable(message)
        return response

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _page(response: httpx.Response) -> tuple[list[HubServer], int | None]:
    """The servers of a page, and where the next one begins."""
    with _understood("the list of users"):
        page = response.json()
        servers = [
            _server(user["name"], name, model)
            for user in page["items"]
            for name, model in (user.get("servers") or {}).items()
        ]
        following = page["_pagination"]["next"]
        return servers, int(following["offset"]) if following else None


def _too_large(what: str) -> AnswerTooLarge:
    return AnswerTooLarge(
        f"JupyterHub's answer to {what} is larger than {MAX_ANSWER_BYTES >> 20} MiB, so it is not read:"
        " ask for fewer users at once (api_page_size), or delete servers whose options are that large."
    )


@contextmanager
def _understood(what: str) -> Iterator[None]:
    """Anything else than the hub's documented answer means: this is not a hub we can talk to."""
    try:
        yield
    except RecursionError as error:
        # The hub's own limit lies elsewhere: what it took, and tells, may be too deep for us.
        message = f"JupyterHub's answer about {what} lies in too many brackets to be read."
        raise AnswerTooLarge(message) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"JupyterHub's answer about {what} cannot be read ({error!r})."
        raise HubUnavailable(message) from error


def _server(user: str, name: str, model: dict[str, Any]) -> HubServer:
    return HubServer(
        user=user,
        server_name=name,
        ready=bool(model.get("ready")),
        pending=model.get("pending"),
        started_ms=_millis(model.get("started")),
        last_activity_ms=_millis(model.get("last_activity")),
        model=model,
    )


def _millis(text: str | None) -> int | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)

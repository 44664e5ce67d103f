"""The few calls that the scheduler makes to JupyterHub's REST API.

Who is behind a token, in which groups is a user, start and stop this server. JupyterHub itself is
never imported: another version, or none at all, is the administrator's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.errors import HubRefusesToken, Unavailable
from gpucommons.scheduler.hub.addresses import address_of_server, address_of_user
from gpucommons.scheduler.hub.bounded_answers import read_up_to

#: The hub answers a start after 10 s at the latest (``slow_spawn_timeout``), a busy one later.
_START_TIMEOUT_S = 60.0
#: All that is read is of one user; its servers have options of whatever size its owner posted.
_MAX_ANSWER_BYTES = 1 << 20
_REFUSED = (401, 403)
_NOT_FOUND = 404
_ALREADY = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class HubUser:
    """The owner of a token, as the hub describes it."""

    name: str
    is_service: bool
    groups: frozenset[str]
    scopes: frozenset[str]


class HubRefused(Exception):
    """The hub refuses for good; its words say why."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(Unavailable):
    """The hub's answer is larger than any that is of use here: it is not read to its end."""


class Hub:
    """JupyterHub's REST API, with the scheduler's service token. Safe for one asyncio loop."""

    def __init__(
        self, api_url: str, *, token: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._token = token
        self._http = httpx.AsyncClient(
            base_url=api_url.rstrip("/"),
            timeout=httpx.Timeout(10.0, connect=5.0),
            transport=transport,
            trust_env=False,
            verify=trusted_at(api_url),
        )

    async def owner_of(self, token: str) -> HubUser | None:
        """Who is behind a token; None when the hub does not know it."""
        response = await self._request("GET", "/user", token=token)
        if response.status_code in _REFUSED:
            return None
        model = self._model(response, "/user")
        return HubUser(
            name=str(model["name"]),
            is_service=model.get("kind") == "service",
            groups=frozenset(model.get("groups") or ()),
            scopes=frozenset(model.get("scopes") or ()),
        )

    async def groups_of(self, user: str) -> frozenset[str] | None:
        """A user's groups; None for a user the hub does not know."""
        path = address_of_user(user)
        response = await self._request("GET", path, token=self._token)
        if response.status_code == _NOT_FOUND:
            return None
        return frozenset(self._model(response, path).get("groups") or ())

    async def has_server(self, user: str, server_name: str) -> bool:
        """Whether the hub has such a server, in any state."""
        return server_name in await self._servers(address_of_user(user))

    async def _servers(self, path: str) -> Mapping[str, Any]:
        """The servers of a user's model, by name; none for a user the hub does not know."""
        response = await self._request("GET", path)
        if response.status_code == _NOT_FOUND:
            return {}
        servers: Mapping[str, Any] | None = self._model(response, path).get("servers")
        if servers is None:
            message = "JupyterHub does not tell us of servers: the service lacks read:servers."
            raise Unavailable(message)
        return servers

    async def options_of(self, user: str, server_name: str) -> Mapping[str, Any]:
        """The ``user_options`` of a server's last start; none where it never ran.

        Raises
        ------
        TooLarge
            When the options of all the user's servers together are more than can be read.
        Unavailable
            When trying again may help.
        """
        path = f"{address_of_user(user)}?include_stopped_servers=1"
        servers = await self._servers(path)
        options = (servers.get(server_name) or {}).get("user_options")
        return options if isinstance(options, dict) else {}

    async def start_server(self, user: str, server_name: str, options: Mapping[str, Any]) -> bool:
        """Start a server with these options; False where one runs already.

        The options are posted flat, without ``user_options`` or ``display_name``: JupyterHub 5 and
        6 both take that form.

        Raises
        ------
        Unavailable
            When trying again may help: no hub, 429, 5xx, the last server is still going down.
        HubRefused
            When it will not.
        """
        path = address_of_server(user, server_name)
        response = await self._request("POST", path, json=dict(options))
        if response.is_success:
            return True
        message = _message_of(response)
        if response.status_code == _ALREADY and "already" in message:
            return False
        if response.status_code == _ALREADY and "is pending" in message:
            raise Unavailable(message)
        raise HubRefused(message, status=response.status_code)

    async def stop_server(self, user: str, server_name: str) -> bool:
        """Stop a server; True once it is down, False while it is still going down.

        Raises
        ------
        Unavailable
            When trying again may help: no hub, 429, 5xx.
        HubRefused
            When it will not.
        """
        response = await self._request("DELETE", address_of_server(user, server_name))
        if response.status_code in (204, _NOT_FOUND):
            return True
        message = _message_of(response)
        if response.status_code == _ALREADY and "not running" in message:
            return True
        if response.is_success or response.status_code == _ALREADY:
            return False
        raise HubRefused(message, status=response.status_code)

    async def _request(
        self, method: str, path: str, *, token: str | None = None, json: Any = None
    ) -> httpx.Response:
        timeout: Any = _START_TIMEOUT_S if method != "GET" else httpx.USE_CLIENT_DEFAULT
        try:
            async with self._http.stream(
                method,
                path,
                headers={"Authorization": f"token {token or self._token}"},
                json=json,
                timeout=timeout,
            ) as streamed:
                content = await read_up_to(_MAX_ANSWER_BYTES, streamed)
                status = streamed.status_code
        except httpx.HTTPError as error:
            message = f"JupyterHub does not answer {method} {path} ({type(error).__name__})."
            raise Unavailable(message) from error
        if content is None:
            raise _too_large(f"{method} {path}")
        response = httpx.Response(status, content=content)
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error:
            message = f"JupyterHub answered {method} {path} with {response.status_code}."
            raise Unavailable(message)
        return response

    def _model(self, response: httpx.Response, path: str) -> Any:
        if response.status_code in _REFUSED:
            raise _refused(response, path)
        try:
            if response.is_success:
                model = response.json()
                if isinstance(model, dict) and "name" in model:
                    return model
        except (ValueError, RecursionError):
            pass
        message = f"JupyterHub's answer to GET {path} cannot be used ({response.status_code})."
        raise Unavailable(message)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _refused(response: httpx.Response, path: str) -> HubRefusesToken:
    return HubRefusesToken(
        f"JupyterHub refuses GET {path} with the scheduler's token ({response.status_code}:"
        f" {_message_of(response)}) A hub reads tokens and roles when it starts: if GPU Commons was"
        " installed or changed since, restart the hub."
    )


def _too_large(what: str) -> TooLarge:
    return TooLarge(
        f"JupyterHub's answer to {what} is larger than {_MAX_ANSWER_BYTES >> 20} MiB: start that user's"
        " servers with fewer options, or delete those no longer needed."
    )


def _message_of(response: httpx.Response) -> str:
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    words = body.get("message") if isinstance(body, dict) else None
    return str(words or f"JupyterHub answered {response.status_code}.")

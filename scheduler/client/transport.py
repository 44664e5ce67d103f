"""The two transports of calls: blocking and asyncio. Both raise the server's own errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.gpu.connections.unix_sockets import short_name
from gpucommons.scheduler.client.calls import Call
from gpucommons.scheduler.errors import SchedulerError, Unavailable, Unreachable, error_classes
from gpucommons.scheduler.models import ErrorView

R = TypeVar("R", bound=BaseModel)

_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}
_UNIX = "unix:"


def _arguments(call: Call[R]) -> dict[str, Any]:
    headers = {"Idempotency-Key": call.idempotency_key} if call.idempotency_key else {}
    body: bytes | None = call.content
    if call.body is not None:
        body = call.body.model_dump_json(exclude_unset=True).encode()
        headers["Content-Type"] = "application/json"
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.query),
        "content": body,
        "headers": headers,
        "timeout": httpx.Timeout(10.0 + call.wait_s, connect=5.0),
    }


def _read(call: Call[R], response: httpx.Response) -> R:
    if response.is_success:
        try:
            return call.answer.model_validate_json(response.content)
        except ValidationError as error:
            message = f"The scheduler's answer to {call.method} {call.path} cannot be read: {error}"
            raise Unavailable(message) from None
    raise _refusal(f"{call.method} {call.path}", response)


def _refusal(asked: str, response: httpx.Response) -> SchedulerError:
    try:
        refusal = ErrorView.model_validate_json(response.content)
    except (ValidationError, json.JSONDecodeError):
        return Unavailable(f"{asked} failed with status {response.status_code}.")
    return error_classes().get(refusal.error, SchedulerError)(refusal.message)


def _unreachable(url: str, error: httpx.HTTPError) -> Unreachable:
    # On this machine `gpucommons up` runs it; elsewhere, as in a cluster, nobody knows that name.
    ask = (
        "Is `gpucommons up` running?"
        if url.startswith(_UNIX) or urlsplit(url).hostname in _THIS_MACHINE
        else "Is it running, and may it be reached from here?"
    )
    return Unreachable(f"The scheduler at {url} cannot be reached ({type(error).__name__}). {ask}")


def _authorization(token: str) -> dict[str, str]:
    return {"Authorization": f"token {token}"}


def _options(url: str, token: str | None) -> tuple[dict[str, Any], str | None]:
    headers = _authorization(token) if token else {}
    if url.startswith(_UNIX):
        return {"base_url": "http://gpucommons", "headers": headers}, url.removeprefix(_UNIX)
    return {"base_url": url, "headers": headers}, None


def _short(path: str, until_closed: ExitStack) -> str:
    """A name for a socket's path that fits the kernel's limit; a missing folder is said on use."""
    try:
        return until_closed.enter_context(short_name(Path(path)))
    except OSError:
        return path


class SchedulerClient:
    """Blocking transport. ``url`` is ``http://…`` or ``unix:/path`` (peer credentials, no token)."""

    def __init__(
        self, url: str, *, token: str | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = url
        options, socket_path = _options(url, token)
        self._until_closed = ExitStack()
        if socket_path is not None:
            transport = httpx.HTTPTransport(
                uds=_short(socket_path, self._until_closed), verify=trusted_at(url)
            )
        self._http = httpx.Client(
            **options, transport=transport, trust_env=False, verify=trusted_at(url)
        )

    def send(self, call: Call[R]) -> R:
        """Send a call; raises the error of :mod:`gpucommons.scheduler.errors` it was refused with."""
        try:
            response = self._http.request(**_arguments(call))
        except httpx.HTTPError as error:
            raise _unreachable(self.url, error) from error
        return _read(call, response)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[bytes]]:
        """A body that is no view, piece by piece; raises what it was refused with."""
        timeout = httpx.Timeout(60.0, connect=5.0)
        try:
            with self._http.stream("GET", path, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise _refusal(f"GET {path}", response)
                yield response.iter_bytes()
        except httpx.HTTPError as error:
            raise _unreachable(self.url, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        self._until_closed.close()


class AsyncSchedulerClient:
    """The same for asyncio."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url
        options, socket_path = _options(url, token)
        self._until_closed = ExitStack()
        if socket_path is not None:
            transport = httpx.AsyncHTTPTransport(
                uds=_short(socket_path, self._until_closed), verify=trusted_at(url)
            )
        self._http = httpx.AsyncClient(
            **options, transport=transport, trust_env=False, verify=trusted_at(url)
        )

    async def send(self, call: Call[R], *, token: str | None = None) -> R:
        """Send a call; raises the error of :mod:`gpucommons.scheduler.errors` it was refused with.

        ``token`` is sent instead of the client's own, by whoever asks for many people.
        """
        arguments = _arguments(call)
        if token:
            arguments["headers"] |= _authorization(token)
        try:
            response = await self._http.request(**arguments)
        except httpx.HTTPError as error:
            raise _unreachable(self.url, error) from error
        return _read(call, response)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
        self._until_closed.close()

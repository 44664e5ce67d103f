"""Questions to the metadata service of a cloud, which answers each machine at a link-local address.

It is asked by a process with many rights, and whoever holds that address can answer. So an answer is short,
soon there, and leads nowhere else: no redirects, no proxies, no names to be looked up.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message

from gpucommons.gpu.clouds.notice_source import LINK_LOCAL, host_and_port

TIMEOUT_S = 2.0
MAX_BYTES = 64 << 10
_OK, _UNAUTHORIZED, _NOT_FOUND = 200, 401, 404


class MetadataError(Exception):
    """The cloud's metadata service gives no answer that could be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What it says."""

    status: int
    text: str
    headers: Message

    @property
    def found(self) -> bool:
        """Whether there is such a thing."""
        return self.status == _OK

    @property
    def refused(self) -> bool:
        """Whether it wants another token."""
        return self.status == _UNAUTHORIZED


class Metadata:
    """One such service. Safe from one thread."""

    def __init__(self, url: str = LINK_LOCAL, *, timeout_s: float = TIMEOUT_S) -> None:
        self._host, self._port = host_and_port(url)
        self._timeout_s = timeout_s

    def ask(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        """Ask once.

        Raises
        ------
        MetadataError
            When the answer does not come in time, is too long, or is neither a yes nor a no.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            body = self._body(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            message = f"{method} {path} gave no answer ({error!r})."
            raise MetadataError(message) from error
        finally:
            connection.close()
        if response.status not in (_OK, _UNAUTHORIZED, _NOT_FOUND):
            raise MetadataError(f"{method} {path} was answered with {response.status}.")
        text = body.decode("utf-8", "replace").strip()
        return Answer(status=response.status, text=text, headers=response.headers)

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """All of it; one that comes in drops ends with the time that it has."""
        body, until_s = bytearray(), time.monotonic() + self._timeout_s
        while chunk := response.read1(MAX_BYTES):
            body += chunk
            if len(body) > MAX_BYTES or time.monotonic() > until_s:
                raise ValueError("it is too long, or too slow")
        return bytes(body)

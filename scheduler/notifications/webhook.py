"""Messages by webhook: one signed POST of JSON, no redirects, little read of the answer."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from gpucommons.scheduler.core.model.types import UserName
from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.notifications.addresses import Address, Target, read_target, resolve
from gpucommons.scheduler.notifications.preferences import Choice, Notification
from gpucommons.scheduler.notifications.settings import WebhookSettings

#: All of it together, however slowly an answer comes.
_TIMEOUT_S = 10.0
_ANSWER_BYTES = 1024
#: Of those that say that it will never be taken, these may pass.
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def signing_key(key: bytes, owner: UserName, number: int) -> str:
    """What signs a user's messages: derived, so that it lies nowhere. A new number is a new key."""
    named = f"webhook\0{owner}\0{number}".encode()
    return hmac.new(key, named, hashlib.sha256).hexdigest()


def signature(signing: str, at_s: int, body: bytes) -> str:
    """Over the time and the body: an old message cannot be sent again as a new one."""
    signed = f"{at_s}.".encode() + body
    return "sha256=" + hmac.new(signing.encode(), signed, hashlib.sha256).hexdigest()


def body_of(message: Notification) -> bytes:
    """What is posted."""
    telling = message.telling
    value = {
        "id": message.notification_id,
        "about": telling.about.value,
        "user": telling.owner,
        "at_ms": telling.at_ms,
        "subject": telling.subject,
        "text": telling.text,
        "facts": dict(telling.facts),
    }
    return json.dumps(value, ensure_ascii=False).encode()


def send(
    settings: WebhookSettings, message: Notification, choice: Choice, signing: str, now_s: int
) -> None:
    """Post one message.

    Raises
    ------
    BadRequest
        When it will never be taken.
    Unavailable
        When it may be later.
    """
    target = read_target(choice.url, settings)
    address = resolve(target, settings)
    body = body_of(message)
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "GPU-Commons",
        "X-GPUCommons-Id": message.notification_id,
        "X-GPUCommons-Time": str(now_s),
        "X-GPUCommons-Signature": signature(signing, now_s, body),
        "Connection": "close",
    }
    try:
        with _connected(target, address) as connection:
            connection.request("POST", target.path, body=body, headers=headers)
            answer = connection.getresponse()
            status = answer.status
            answer.read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as error:
        text = f"{target.host} did not take it: {type(error).__name__}"
        raise Unavailable(text) from None
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return
    later = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER
    text = f"{target.host} answered with status {status}"
    raise Unavailable(text) if later else BadRequest(text)


@contextmanager
def _connected(target: Target, address: Address) -> Iterator[http.client.HTTPConnection]:
    """A connection to this very address, in the name of the host, for so long at most."""
    plain = socket.create_connection((str(address), target.port), timeout=_TIMEOUT_S)
    connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
    # Timeouts of sockets are of one call: an answer that comes byte by byte would never be over. TLS
    # takes the socket over, so the end is brought about through another handle on it.
    handle = plain.dup()
    timer = threading.Timer(_TIMEOUT_S, _cut, [handle])
    timer.daemon = True
    timer.start()
    try:
        connection.sock = plain
        if target.tls:
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(plain, server_hostname=target.host)
        yield connection
    finally:
        timer.cancel()
        timer.join()
        connection.close()
        plain.close()
        handle.close()


def _cut(handle: socket.socket) -> None:
    try:
        handle.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is over already

"""Whose certificates a connection trusts; where none are shown, none are read.

httpx reads all that it trusts anew for each client: 30 ms of processor, which a probe that asks twenty
times a second would spend on nothing else.
"""

from __future__ import annotations

import ssl
from functools import cache

import httpx


def trusted_at(url: str) -> ssl.SSLContext:
    """What httpx takes as ``verify``: known authorities for ``https://``, for everything else nobody."""
    return _known() if url[:6].lower() == "https:" else _nobody()


@cache
def _nobody() -> ssl.SSLContext:
    """For connections without TLS: a server that shows a certificate all the same is refused."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def _known() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)

"""Answers of others that are read to a measure: nobody's may fill the memory of who asked."""

from __future__ import annotations

import httpx


async def read_up_to(most_bytes: int, response: httpx.Response) -> bytes | None:
    """The body of a streamed answer; None where it is larger, and the rest of it is not read."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > most_bytes:
            return None
    return bytes(content)

"""Bytes that come piece by piece, read like a file."""

from __future__ import annotations

import io
from collections.abc import Iterator


class Pieces(io.RawIOBase):
    """A file that ends where the pieces do."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # narrower
        """The next bytes."""
        if not self._left:
            self._left = next(self._chunks, b"")
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

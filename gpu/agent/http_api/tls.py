"""The HTTP API's certificate: read when it starts to listen, and anew when whoever keeps it has renewed it."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

logger = logging.getLogger(__name__)


class Certificate:
    """A certificate and its key, in files that may be replaced."""

    def __init__(self, cert_file: Path, key_file: Path | None) -> None:
        """Read both.

        Raises
        ------
        OSError
            When they cannot be read or do not belong together.
        """
        self._cert_file, self._key_file = cert_file, key_file
        self._lock = threading.Lock()
        self._seen = self._written()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """What new connections speak."""
        with self._lock:
            try:
                written = self._written()
                if written != self._seen:
                    self._context = self._read()
                    self._seen = written
            except OSError as error:
                # Half replaced: the old one is good until the new one is whole.
                logger.warning("the HTTP API's certificate cannot be read anew: %s", error)
            return self._context

    def _written(self) -> tuple[int, ...]:
        files = (self._cert_file, self._key_file or self._cert_file)
        return tuple(n for one in map(Path.stat, files) for n in (one.st_mtime_ns, one.st_ino))

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._cert_file, self._key_file)
        return context

"""A bucket in memory, whose links lead to a small server of ours."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from obstore.store import MemoryStore

from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.file_storage.bucket import BucketStorage


class LinkedMemory(BucketStorage):
    """Makes links as S3 does."""

    def __init__(self, address: str = "http://storage.test") -> None:
        super().__init__(MemoryStore())
        self.address = address

    def links(self, method: Literal["GET", "PUT"], keys: Sequence[str]) -> list[str] | None:
        return [f"{self.address}/{method}/{quote(key)}?signature=secret" for key in keys]

    def fill(self, files: dict[str, bytes]) -> None:
        """Put objects."""
        with tempfile.TemporaryDirectory() as folder:
            for key, content in files.items():
                source = Path(folder, "source")
                source.write_bytes(content)
                self.put(key, source)

    def content(self, prefix: str) -> dict[str, bytes]:
        """All objects below a folder."""
        return {one.key: b"".join(self.chunks(one.key)) for one in self.below(prefix)}


class _Server(ThreadingHTTPServer):
    storage: LinkedMemory
    failures = 0


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _key(self, method: str) -> str | None:
        if self.server.failures:
            self.server.failures -= 1
            self.send_error(503)
            return None
        allowed, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        if allowed != method:
            self.send_error(403)
            return None
        return key

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if (key := self._key("PUT")) is not None:
            self.server.storage.fill({key: content})
            self._answer(b"")

    def do_GET(self) -> None:
        if (key := self._key("GET")) is None:
            return
        try:
            self._answer(b"".join(self.server.storage.chunks(key)))
        except NotFound:
            self.send_error(404)

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving_links(*, failures: int = 0) -> Iterator[LinkedMemory]:
    """A bucket behind real addresses; the first requests fail as often as said."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.failures = failures
    server.storage = LinkedMemory(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.storage
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

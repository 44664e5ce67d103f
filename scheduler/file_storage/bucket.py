"""Storage in a bucket: S3 and what speaks like it, Google Cloud Storage, Azure.

Credentials come from the scheduler's environment and stay in it: neither messages nor logs name
them, and what a job gets is an address that is good for one object and one hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from gpucommons.scheduler.errors import BadRequest, NotFound, Unavailable
from gpucommons.scheduler.file_storage.base import LINK_S, Changed, Stored, checked_key

_LISTED = 1000
_RETRY = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}


def open_bucket(url: str, environ: Mapping[str, str] = os.environ) -> BucketStorage:
    """Open ``s3://BUCKET/PREFIX``, ``gs://…`` or ``az://…``; nothing is asked of it yet.

    Raises
    ------
    BadRequest
        When the address or the environment's settings cannot be used.
    """
    endpoints = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")
    plain = any(environ.get(name, "").startswith("http://") for name in endpoints)
    try:
        # The type stubs know the settings by scheme; ours come from the environment.
        store: Any = from_url(  # type: ignore[call-overload]
            url,
            client_options={"allow_http": plain, "timeout": "60s", "connect_timeout": "5s"},
            retry_config=_RETRY,
        )
    except (BaseError, ValueError) as error:
        message = f"The storage {_shown(url)} cannot be opened: {_first_line(error)}"
        raise BadRequest(message) from None
    return BucketStorage(store, blob_header=urlsplit(url).scheme == "az")


class BucketStorage:
    """See :class:`gpucommons.scheduler.file_storage.base.Storage`."""

    def __init__(self, store: ObjectStore, *, blob_header: bool = False) -> None:
        self._store = store
        #: What an upload with a link must say besides its bytes.
        self.upload_headers = {"x-ms-blob-type": "BlockBlob"} if blob_header else {}

    def put(self, key: str, source: Path) -> None:
        """Store a file; large ones go in parts and appear with the last."""
        with _answering():
            obstore.put(self._store, checked_key(key), source)

    def write(self, key: str, content: bytes, *, version: str | None) -> str:
        """Store something small on a condition that the storage itself checks."""
        mode: Any = "create" if version is None else {"e_tag": version}
        try:
            with _answering():
                result = obstore.put(
                    self._store, checked_key(key), content, mode=mode, use_multipart=False
                )
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            # The last: what was to be replaced is gone.
            raise Changed from None
        return str(result["e_tag"])

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Something small."""
        try:
            with _answering():
                found = obstore.get(self._store, checked_key(key))
                return bytes(found.bytes()), str(found.meta["e_tag"])
        except FileNotFoundError:
            return None

    def chunks(self, key: str) -> Iterator[bytes]:
        """An object piece by piece."""
        try:
            with _answering():
                found = obstore.get(self._store, checked_key(key))
        except FileNotFoundError:
            message = f"There is nothing stored as {key}."
            raise NotFound(message) from None
        with _answering():
            for chunk in found.stream():
                yield bytes(chunk)

    def head(self, key: str) -> Stored | None:
        """What is known of an object."""
        try:
            with _answering():
                return _stored(obstore.head(self._store, checked_key(key)))
        except FileNotFoundError:
            return None

    def below(self, prefix: str) -> Iterator[Stored]:
        """Everything below a folder."""
        with _answering():
            # A prefix of obstore is whole segments: "attempts/1" does not find "attempts/12".
            for chunk in obstore.list(self._store, checked_key(prefix), chunk_size=_LISTED):
                yield from (_stored(meta) for meta in chunk)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete."""
        for start in range(0, len(keys), _LISTED):
            try:
                with _answering():
                    obstore.delete(self._store, list(keys[start : start + _LISTED]))
            except FileNotFoundError:
                continue

    def links(self, method: Literal["GET", "PUT"], keys: Sequence[str]) -> list[str] | None:
        """Signed addresses; made here, without asking the storage."""
        if not keys:
            return []
        try:
            with _answering():
                named = [checked_key(key) for key in keys]
                # The stub knows only the three stores that can sign; others say so when asked.
                store: Any = self._store
                return list(obstore.sign(store, method, named, timedelta(seconds=LINK_S)))
        except (TypeError, NotImplementedError):
            return None


def _stored(meta: Any) -> Stored:
    return Stored(
        key=meta["path"],
        size_bytes=meta["size"],
        modified_s=meta["last_modified"].timestamp(),
    )


@contextmanager
def _answering() -> Iterator[None]:
    """Say what is wrong in one line, without what the client library adds for its developers."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError):
        raise
    except BaseError as error:
        message = f"The jobs' storage does not answer: {_first_line(error)}"
        raise Unavailable(message) from None


def _first_line(error: Exception) -> str:
    """Without queries of addresses, which may hold signatures."""
    line = str(error).partition("\n")[0]
    return " ".join(word.partition("?")[0] for word in line.split(" "))[:300]


def _shown(url: str) -> str:
    """An address without what somebody may have put before its host."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"[:200]

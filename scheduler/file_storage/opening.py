"""From an address to a storage."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.file_storage.base import Storage
from gpucommons.scheduler.file_storage.folder import FolderStorage

BUCKETS = ("s3", "gs", "az")


def folder_of(url: str) -> Path | None:
    """The folder of ``folder:PATH``; None for other addresses.

    Raises
    ------
    BadRequest
        When the path is not absolute.
    """
    scheme, _, path = url.partition(":")
    if scheme != "folder":
        return None
    if not path.startswith("/"):
        message = f"{url!r}: write the storage's folder as folder:/absolute/path."
        raise BadRequest(message)
    return Path(path)


def open_storage(url: str) -> Storage:
    """Open ``folder:/PATH``, ``s3://BUCKET/PREFIX``, ``gs://…`` or ``az://…``.

    Raises
    ------
    BadRequest
        When that is no storage, or its client is not installed.
    """
    folder = folder_of(url)
    if folder is not None:
        return FolderStorage(folder)
    scheme = urlsplit(url).scheme
    if scheme not in BUCKETS:
        message = f"{scheme or url[:40]!r} is no storage: use folder:/PATH, s3://, gs:// or az://."
        raise BadRequest(message)
    try:
        from gpucommons.scheduler.file_storage.bucket import open_bucket  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = (
            f"Object storage needs its client ({error}): pip install 'gpucommons[kubernetes]'."
        )
        raise BadRequest(message) from error
    return open_bucket(url)

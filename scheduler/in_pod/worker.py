"""What a job's pod asks of the scheduler and hands over, in any image that has Python.

The init container copies this file and :mod:`.command` into the pod, so a training image needs nothing
of ours in it: only the standard library is imported. No credentials of the storage are known here: the
scheduler gives links, each for one object of this attempt.
"""

from __future__ import annotations

import copy
import http.client
import json
import os
import stat
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

R = TypeVar("R")

#: What leaves a pod because its files could not be handed over (EX_IOERR).
NOT_KEPT = 74
NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: With one of these the kubelet's record of the end begins so, and goes on with the reason.
NOT_BEGUN = "gpucommons could not run the command: "
#: What leaves because it was told to: a shell's status for SIGTERM.
STOPPED = 143
#: What lies there when a container ends, its pod's status shows.
TERMINATION_LOG = Path("/dev/termination-log")
#: A scheduler that restarts, or a change of leader, takes seconds; a rolled node some minutes.
PATIENCE_S = 300.0
ORDERS_WAIT_S = 25
ANSWER_S = 60.0
_CHUNK_BYTES = 1 << 20
#: Asked for at once.
_BATCH = 500
#: What is sent within the hour that a batch's links hold; a larger file goes alone.
_BATCH_BYTES = 256 << 30
#: Folders in one another; a walk cannot go much deeper, and nobody reads results that do.
_MAX_DEPTH = 100
_REFUSED = 400
_OUR_FAILURE = 500
_LATER = (429,)


class Refused(Exception):
    """The scheduler says no, with this sentence; trying again does not help."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Unreachable(Exception):
    """Nobody answers, or not in time."""


class Api:
    """The scheduler, as an attempt sees it."""

    def __init__(
        self, url: str, token: str, *, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"token {token}"}
        self._patience_s = patience_s
        self._answer_s = answer_s
        # No proxy of the image's: tokens go to the scheduler alone.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def hasty(self, answer_s: float) -> Api:
        """The same, asked by who cannot wait longer for an answer."""
        other = copy.copy(self)
        other._answer_s = answer_s
        return other

    def get(self, path: str) -> Any:
        """Ask until there is an answer or patience ends."""
        return patiently(lambda: self.once("GET", path), self._patience_s)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The same with a body."""
        return patiently(lambda: self.once("POST", path, body), self._patience_s)

    def once(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request."""
        try:
            with self.open(method, path, body) as response:
                return json.load(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # An answer that was cut off, or a page of somebody's in between.
            raise Unreachable(f"the answer of the scheduler cannot be read: {error!r}") from None

    def open(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One request whose answer is read by the caller."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        request = urllib.request.Request(  # noqa: S310 - the scheduler's own address
            self._url + path, data=data, headers=headers, method=method
        )
        try:
            return self._opener.open(request, timeout=self._answer_s)
        except urllib.error.HTTPError as error:
            with error:
                raise _as_refusal(error.code, error.read(1 << 16)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the scheduler at {self._url} does not answer: {error}") from None


def _as_refusal(status: int, content: bytes) -> Exception:
    try:
        document = json.loads(content)
        message, code = str(document["message"]), str(document["error"])
    except (ValueError, KeyError, TypeError):
        message, code = f"it answers with status {status}", ""
    if status >= _OUR_FAILURE or status in _LATER:
        return Unreachable(message)
    return Refused(status, message, code)


def patiently(
    action: Callable[[], R], patience_s: float, *, wait: Callable[[float], object] = time.sleep
) -> R:
    """Try again while nobody answers, with growing pauses.

    Raises
    ------
    Refused
        At once.
    Unreachable
        When patience ends.
    """
    until_s, pause_s = time.monotonic() + patience_s, 0.2
    while True:
        try:
            return action()
        except Unreachable as error:
            if time.monotonic() + pause_s > until_s:
                raise
            say(f"{error}; trying again in {pause_s:.1f} s")
            wait(pause_s)
            pause_s = min(10.0, pause_s * 2)


def say(text: str) -> None:
    """A line for the job's log, in which no link is named."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} gpucommons: {text}\n")
    sys.stderr.flush()


def tell_kubelet(text: str) -> None:
    """Leave the message that the pod's status shows."""
    place = TERMINATION_LOG
    if place.is_file() and not place.is_symlink() and os.access(place, os.W_OK):
        place.write_text(text[:2000])


# --- handing files over ------------------------------------------------------------------------


def upload(
    api: Api, root: Path, folder: str, *, to: str | None = None, patience_s: float = PATIENCE_S
) -> int:
    """Hand over every regular file of ``root/folder``, as ``to`` if given; returns how many bytes.

    Raises
    ------
    Refused, Unreachable
        When not all of it is stored.
    """
    sizes = {path: (root / folder / path).lstat().st_size for path in files_below(root / folder)}
    return send(api, root / folder, to or folder, sizes, patience_s)


def send(
    api: Api, root: Path, to: str, sizes: Mapping[str, int], patience_s: float = PATIENCE_S
) -> int:
    """Hand over these files of ``root``."""
    for names in batches(sizes):
        files = [{"path": name, "size_bytes": sizes[name]} for name in names]
        answer = api.post("/v1/attempt/uploads", {"folder": to, "files": files})
        for entry in answer["files"]:
            source = root / entry["path"]
            for number, link in enumerate(entry["links"]):
                first = number * entry["part_bytes"]
                part = (first, min(entry["part_bytes"], sizes[entry["path"]] - first))
                headers = answer.get("headers", {})
                patiently(partial(send_part, link, source, part, headers), patience_s)
    return sum(sizes.values())


def batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The files in order, as many at once as the scheduler gives links for."""
    batch: list[str] = []
    left = _BATCH_BYTES
    for name in sorted(sizes):
        left -= sizes[name]
        if batch and (left < 0 or len(batch) == _BATCH):
            yield batch
            batch, left = [], _BATCH_BYTES - sizes[name]
        batch.append(name)
    if batch:
        yield batch


def files_below(folder: Path) -> Iterator[str]:
    """Paths of all regular files, following no link."""
    # Unlike ``os.walk``, this follows no link at the top either.
    for root, below, names, opened in os.fwalk(folder):
        if below and len(Path(root).relative_to(folder).parts) >= _MAX_DEPTH:
            message = f"{folder.name} has more than {_MAX_DEPTH} folders in one another"
            raise OSError(message)
        for name in names:
            found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield Path(root, name).relative_to(folder).as_posix()


def send_part(link: str, source: Path, part: tuple[int, int], headers: Mapping[str, str]) -> None:
    """Put some bytes of a file to where a link says."""
    first, size = part
    with os.fdopen(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        file.seek(first)
        connection = _connection(link)
        try:
            connection.request(
                "PUT", _target(link), _limited(file, size), {**headers, "Content-Length": str(size)}
            )
            _check(connection.getresponse(), source.name)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{source.name} could not be stored: {_plain(error)}") from None
        finally:
            connection.close()


def fetch(links: list[str], target: Path) -> int:
    """Fetch the parts of a file, in order; returns how many bytes."""
    size = 0
    with target.open("wb") as file:
        for link in links:
            connection = _connection(link)
            try:
                connection.request("GET", _target(link))
                response = connection.getresponse()
                _check(response, target.name)
                while chunk := response.read(_CHUNK_BYTES):
                    size += file.write(chunk)
                if response.length:
                    raise Unreachable(f"{target.name} came only in part")
            except (OSError, http.client.HTTPException) as error:
                raise Unreachable(f"{target.name} could not be fetched: {_plain(error)}") from None
            finally:
                connection.close()
    return size


def _connection(link: str) -> http.client.HTTPConnection:
    address = urlsplit(link)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    return kind(address.netloc, timeout=ANSWER_S)


def _target(link: str) -> str:
    address = urlsplit(link)
    return f"{address.path}?{address.query}" if address.query else address.path


def _check(response: http.client.HTTPResponse, name: str) -> None:
    if response.status < _REFUSED:
        return
    response.read(1 << 16)
    text = f"the storage answers {response.status} for {name}"
    if response.status >= _OUR_FAILURE or response.status in _LATER:
        raise Unreachable(text)
    raise Refused(response.status, text)


def _plain(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else repr(error)


def _limited(file: Any, left: int) -> Iterator[bytes]:
    while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
        left -= len(chunk)
        yield chunk

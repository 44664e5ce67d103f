"""What stands above a job's command in its pod, as one file for any image that has Python.

The init container copies this file into the pod, so a training image needs nothing of ours in it:
only the standard library is imported. It hands SIGTERM on, reaps what the command leaves behind,
writes the notice of an announced stop, and uploads the results before it leaves. It knows no
credentials of the storage: the scheduler gives links, each for one object of this attempt.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

R = TypeVar("R")

#: What leaves a pod because its files could not be handed over (EX_IOERR).
NOT_KEPT = 74
NOT_FOUND, NOT_EXECUTABLE = 127, 126
#: A scheduler that restarts, or a change of leader, takes seconds; a rolled node some minutes.
PATIENCE_S = 300.0
ORDERS_WAIT_S = 25
_ANSWER_S = 60.0
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

    def __init__(self, url: str, token: str, *, patience_s: float = PATIENCE_S) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"token {token}"}
        self._patience_s = patience_s
        # No proxy of the image's: tokens go to the scheduler alone.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

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
            return self._opener.open(request, timeout=_ANSWER_S)
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
    sizes = {path: (root / folder / path).lstat().st_size for path in _files(root / folder)}
    for names in batches(sizes):
        files = [{"path": name, "size_bytes": sizes[name]} for name in names]
        answer = api.post("/v1/attempt/uploads", {"folder": to or folder, "files": files})
        for entry in answer["files"]:
            source = root / folder / entry["path"]
            for number, link in enumerate(entry["links"]):
                first = number * entry["part_bytes"]
                part = (first, min(entry["part_bytes"], sizes[entry["path"]] - first))
                patiently(_sending(link, source, part, answer.get("headers", {})), patience_s)
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


def _files(folder: Path) -> Iterator[str]:
    # Unlike ``os.walk``, this follows no link at the top either.
    for root, below, names, opened in os.fwalk(folder):
        if below and len(Path(root).relative_to(folder).parts) >= _MAX_DEPTH:
            message = f"{folder.name} has more than {_MAX_DEPTH} folders in one another"
            raise OSError(message)
        for name in names:
            found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield Path(root, name).relative_to(folder).as_posix()


def _sending(
    link: str, source: Path, part: tuple[int, int], headers: Mapping[str, str]
) -> Callable[[], None]:
    return lambda: send_part(link, source, part, headers)


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
    return kind(address.netloc, timeout=_ANSWER_S)


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


# --- the announced stop ------------------------------------------------------------------------


def watch_orders(api: Api, notice: Path, over: threading.Event) -> None:
    """Keep the notice file as the scheduler says, until the attempt is over."""
    while not over.is_set():
        announced = "true" if notice.exists() else "false"
        path = f"/v1/attempt/orders?announced={announced}&wait_s={ORDERS_WAIT_S}"
        try:
            note(notice, api.once("GET", path)["stop"])
        except Refused as error:
            if error.code == "StaleAttempt":
                return
            over.wait(ORDERS_WAIT_S)
        except Unreachable:
            over.wait(5.0)
        except Exception as error:  # noqa: BLE001 - without this thread no stop is announced
            say(f"orders cannot be followed: {error!r}; trying again")
            over.wait(5.0)
        else:
            # One that was announced is answered at once while a stop goes on.
            over.wait(1.0)


def note(notice: Path, stop: Mapping[str, Any] | None) -> None:
    """Write the notice whole, or take it back."""
    if stop is None:
        notice.unlink(missing_ok=True)
        return
    aside = notice.with_name(".notice.partial")
    aside.write_text(json.dumps(stop))
    aside.replace(notice)


# --- running -----------------------------------------------------------------------------------


class Running:
    """The command, and the signals meant for it."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hand_on)
        # A session of its own: everything that the command starts hears the signal, too.
        self._process = subprocess.Popen(command, cwd=cwd, start_new_session=True)
        if self._stopping:
            self._hand_on(signal.SIGTERM, None)

    def _hand_on(self, number: int, _frame: object) -> None:
        self._stopping = True
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return

    def wait(self) -> int:
        """The exit code; orphans of the command, which are ours as process 1, are collected."""
        assert self._process is not None  # noqa: S101 - made before
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                return self._process.wait()
            if pid == self._process.pid:
                code = os.waitstatus_to_exitcode(status)
                self._process.returncode = code
                return code if code >= 0 else 128 - code


def main() -> int:
    """Run a command and keep what it leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--working-dir", default=".")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    environ = os.environ
    api = Api(environ["GPUCOMMONS_URL"], environ["GPUCOMMONS_TOKEN"])
    over = threading.Event()
    notice = Path(environ["GPUCOMMONS_NOTICE_FILE"])
    watching = threading.Thread(target=watch_orders, args=(api, notice, over), daemon=True)
    watching.start()
    root = Path(environ["GPUCOMMONS_ATTEMPT_DIR"])
    try:
        running = Running(
            arguments.command, Path(environ["GPUCOMMONS_WORK_DIR"], arguments.working_dir)
        )
    except FileNotFoundError as error:
        say(f"there is no {error.filename!r} in this environment")
        return NOT_FOUND
    except OSError as error:
        say(f"{arguments.command[0]!r} cannot be run: {error.strerror}")
        return NOT_EXECUTABLE
    code = running.wait()
    if code == 0 and environ.get("GPUCOMMONS_STORAGE") == "links":
        code = _hand_over_results(api, root)
    over.set()
    return code


def _hand_over_results(api: Api, root: Path) -> int:
    """Success is posted by leaving with 0, so results are stored before."""
    results = root / "results"
    if not os.path.lexists(results):
        return 0
    if results.is_symlink() or not results.is_dir():
        say("the results could not be kept: 'results' is a link or a file, no folder")
        return NOT_KEPT
    try:
        upload(api, root, "results")
    except (Refused, Unreachable, OSError) as error:
        say(f"the results could not be kept: {error}")
        return NOT_KEPT
    return 0


if __name__ == "__main__":
    socket.setdefaulttimeout(_ANSWER_S)
    sys.exit(main())

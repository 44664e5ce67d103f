"""One kind of object, followed: listed once, then watched, each in a thread of its own.

A watch that breaks goes on where it was; one whose place is forgotten (410) lists anew. Bookmarks keep
that place fresh while nothing happens, and every so often everything is listed again, because an event
that was lost would otherwise be missed for ever.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    GONE,
    ApiError,
    Connection,
    Streaming,
)

_LOG = logging.getLogger(__name__)

Document = Mapping[str, Any]

#: Objects in one answer of a list: thousands at once would be parsed in one go.
_PAGE = 500
#: The server ends a watch after so long; it goes on at once.
_WATCH_S = 110
#: Longer silence is a dead connection.
_IDLE_S = 120
RESYNC_S = 900
#: So many objects that cannot be read are named in the log.
_SAID = 100
_BACK_OFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class Sink(Protocol):
    """Takes what a watch sees; called from the watch's thread."""

    def reset(self, found: list[Any]) -> None:
        """All there is now; whatever is missing is gone."""
        ...

    def event(self, kind: str, found: Any) -> None:
        """``ADDED``, ``MODIFIED`` or ``DELETED``."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is followed."""

    path: str
    #: From an object of the API to what is kept; None = not of interest.
    read: Callable[[Document], Any]
    query: Mapping[str, str] = field(default_factory=dict)
    #: Events of the cluster are only of interest from now on.
    from_now: bool = False


class Watch:
    """Follows one subject until it is closed."""

    def __init__(
        self, connection: Connection, subject: Subject, sink: Sink, *, resync_s: float = RESYNC_S
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._sink = sink
        self._resync_s = resync_s
        self._closed = threading.Event()
        self._streaming: Streaming | None = None
        #: Where it goes on, however the last request ended; None = everything is to be listed.
        self._version: str | None = None
        self._listed_s = 0.0
        #: In a row, without anything seen between them.
        self._failures = 0
        #: Objects that could not be read, by their ids: each is said once.
        self._unread: set[str] = set()
        #: Everything was seen once.
        self.synced = threading.Event()
        #: How often everything was listed.
        self.lists = 0
        self._thread = threading.Thread(target=self._run, name=f"watch {subject.path}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Have the thread end; nobody waits for that."""
        self._closed.set()
        streaming = self._streaming
        if streaming is not None:
            streaming.close()

    def close(self) -> None:
        """End the thread."""
        self.end()
        self._thread.join(2)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                # Also where every watch breaks: a balancer that cuts them must not keep this from us.
                if self._version is None or self._is_old():
                    self._version = self._list()
                    self._listed_s = time.monotonic()
                self._watch(self._version)
                self._failures = 0
            except ApiError as error:
                if self._closed.is_set():
                    return
                if error.status == GONE or error.reason == "Expired":
                    self._version = None
                self._say(error)
                self._pause()
            except Exception:  # noqa: BLE001 - one object must not end the watch for all others
                _LOG.exception(
                    "the watch of %s failed; everything is listed again", self._subject.path
                )
                self._version = None
                self._pause()

    def _is_old(self) -> bool:
        return time.monotonic() - self._listed_s > self._resync_s

    def _pause(self) -> None:
        longest = _BACK_OFF_S[min(self._failures, len(_BACK_OFF_S) - 1)]
        self._failures += 1
        # Many watches lose the same server at once.
        self._closed.wait(longest * (0.5 + random.random() / 2))  # noqa: S311 - no secret

    def _say(self, error: ApiError) -> None:
        if self._failures == 1:
            _LOG.warning("%s is not watched for now: %s", self._subject.path, error)

    def _read(self, document: Document) -> Any:
        """What is kept of an object; one that we do not understand must not hide all others."""
        try:
            return self._subject.read(document)
        except Exception:  # noqa: BLE001 - whatever somebody wrote into it
            meta = document.get("metadata") or {}
            uid = str(meta.get("uid"))
            if uid not in self._unread and len(self._unread) < _SAID:
                self._unread.add(uid)
                where = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
                _LOG.exception("%s: %s is left out", self._subject.path, where)
            return None

    def _list(self) -> str:
        subject, found, query = self._subject, [], dict(self._subject.query)
        query["limit"] = str(1 if subject.from_now else _PAGE)
        while True:
            page = self._connection.get(subject.path, **query)
            for one in page["items"] if not subject.from_now else ():
                read = self._read(one)
                if read is not None:
                    found.append(read)
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"] or subject.from_now:
                break
        if not self._closed.is_set():
            self._sink.reset(found)
        self.lists += 1
        self.synced.set()
        return str(page["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        """Follow from a version, and keep in mind which one to go on from."""
        subject = self._subject
        self._streaming = self._connection.stream(
            subject.path,
            idle_s=_IDLE_S,
            **subject.query,
            watch=1,
            allowWatchBookmarks="true",
            resourceVersion=version,
            timeoutSeconds=int(min(_WATCH_S, self._resync_s)),
        )
        with self._streaming as lines:
            for line in lines:
                if self._closed.is_set():
                    return
                event = _event(line)
                document = event["object"]
                if event["type"] == "ERROR":
                    code = int(document.get("code") or 0)
                    raise ApiError(code, document.get("reason", ""), document.get("message", ""))
                if event["type"] != "BOOKMARK":
                    found = self._read(document)
                    if found is not None:
                        self._sink.event(event["type"], found)
                # Only now: what the sink could not take has not been seen.
                self._version = document["metadata"]["resourceVersion"]
                self._failures = 0


def close_all(watches: Iterable[Watch]) -> None:
    """End several at once: a scheduler that hands its lead over does not wait for one after the other."""
    ending = tuple(watches)
    for watch in ending:
        watch.end()
    for watch in ending:
        watch.close()


def _event(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ApiError(
            0, "Interrupted", "The watch broke off in the middle of an event."
        ) from error

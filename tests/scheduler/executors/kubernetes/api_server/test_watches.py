"""A watch that breaks goes on where it was: not at the beginning of its request, nor after the break."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from launches import until

from gpucommons.scheduler.executors.kubernetes.api_server import watching
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.watching import Subject, Watch


def seen(kind: str, version: str) -> bytes:
    document = {"metadata": {"resourceVersion": version}}
    return json.dumps({"type": kind, "object": document}).encode()


class Stream:
    """Some events; then it breaks, or is silent until it is closed."""

    def __init__(self, events: list[bytes], error: Exception | None) -> None:
        self._events, self._error = events, error
        self._closed = threading.Event()

    def __enter__(self) -> Iterator[bytes]:
        def lines() -> Iterator[bytes]:
            yield from self._events
            if self._error is not None:
                raise self._error
            self._closed.wait()

        return lines()

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        self._closed.set()


class Server:
    """Lists nothing, at version 10; the first watch of it breaks."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked: list[str] = []

    def get(self, _path: str, **_query: object) -> dict[str, Any]:
        return {"items": [], "metadata": {"resourceVersion": "10"}}

    def stream(self, _path: str, **query: Any) -> Stream:
        self.asked.append(query["resourceVersion"])
        if len(self.asked) > 1:
            return Stream([], None)
        events = [seen("ADDED", "11"), seen("BOOKMARK", "12"), seen("DELETED", "13")]
        return Stream(events, self.error)


class Sink:
    def __init__(self) -> None:
        self.events: list[str] = []

    def reset(self, found: list[Any]) -> None: ...

    def event(self, kind: str, found: Any) -> None:
        self.events.append(f"{kind} {found}")


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ApiError(0, "Interrupted", "reset by peer"), ["10", "13"]),
        (ApiError(410, "Gone", "too old"), ["10", "10"]),
        (ValueError("a bug"), ["10", "10"]),
    ],
)
def test_what_was_seen_is_seen_once(
    error: Exception, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_BACK_OFF_S", (0.0,))
    server, sink = Server(error), Sink()
    read = Subject(path="/pods", read=lambda document: document["metadata"]["resourceVersion"])
    watch = Watch(cast("Any", server), read, sink)
    until(lambda: len(server.asked) == 2)
    watch.close()
    assert server.asked == asked
    assert sink.events == ["ADDED 11", "DELETED 13"]


class Cut(Server):
    """A balancer that ends every watch after one event."""

    def stream(self, _path: str, **query: Any) -> Stream:
        self.asked.append(query["resourceVersion"])
        return Stream([seen("BOOKMARK", "11")], self.error)


CUT = ApiError(0, "Interrupted", "reset by peer")


def test_everything_is_listed_again_though_no_watch_ends_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "_BACK_OFF_S", (0.0,))
    subject = Subject(path="/pods", read=lambda document: document)
    watch = Watch(cast("Any", Cut(CUT)), subject, Sink(), resync_s=0.0)
    until(lambda: watch.lists >= 3)
    watch.close()


def test_a_watch_that_saw_something_is_taken_up_again_without_a_growing_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "_BACK_OFF_S", (0.0, 3600.0))
    server = Cut(CUT)
    watch = Watch(
        cast("Any", server), Subject(path="/pods", read=lambda document: document), Sink()
    )
    until(lambda: len(server.asked) >= 5)
    watch.close()


class Odd(Server):
    """Lists an object that cannot be read among others, and tells of another such one."""

    def get(self, _path: str, **_query: object) -> dict[str, Any]:
        items = [{"metadata": {"name": name, "uid": name}} for name in ("fine", "odd", "good")]
        return {"items": items, "metadata": {"resourceVersion": "10"}}

    def stream(self, _path: str, **query: Any) -> Stream:
        self.asked.append(query["resourceVersion"])
        events = [
            {
                "type": "MODIFIED",
                "object": {
                    "metadata": {"name": name, "uid": name, "resourceVersion": str(version)}
                },
            }
            for version, name in enumerate(("odd", "odd", "fine"), 11)
        ]
        return Stream([json.dumps(one).encode() for one in events], None)


def test_an_object_that_cannot_be_read_hides_no_other_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read(document: Any) -> str:
        name = str(document["metadata"]["name"])
        if name == "odd":
            message = "1k"
            raise ValueError(message)
        return name

    class Keeping(Sink):
        found: tuple[str, ...] = ()

        def reset(self, found: list[Any]) -> None:
            self.found = tuple(found)

    sink = Keeping()
    server = Odd(CUT)
    watch = Watch(cast("Any", server), Subject(path="/pods", read=read), sink)
    until(lambda: sink.events)
    watch.close()
    assert sink.found == ("fine", "good")
    assert sink.events == ["MODIFIED fine"]
    assert [one.getMessage() for one in caplog.records] == ["/pods: /odd is left out"]
    assert watch.lists == 1

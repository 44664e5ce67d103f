"""What a pod writes is kept within bounds, however it writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import urllib3

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.kubernetes import logs
from gpucommons.scheduler.executors.kubernetes.api_server import connection as connections
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    ApiError,
    Connection,
    Streaming,
)
from gpucommons.scheduler.executors.kubernetes.logs import PodLogs
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen

ATTEMPT = AttemptId("a")
POD = PodSeen(name="p", namespace="n", uid="u", attempt_id=ATTEMPT, job="j", index=0)


class Pieces:
    """An answer that comes as it was cut."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def read1(self, _size: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    def close(self) -> None:
        pass

    def release_conn(self) -> None:
        pass


def streaming(*pieces: bytes) -> Streaming:
    return Streaming("/x", cast("urllib3.BaseHTTPResponse", Pieces(*pieces)))


class Cluster:
    """Answers for one pod's log, and remembers what it was asked for."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.asked: list[int] = []

    def stream(self, _path: str, **_query: Any) -> Streaming:
        return streaming(*self.pieces)

    def text(self, _path: str, *, limitBytes: int, **_query: Any) -> bytes:  # noqa: N803 - the API's name
        self.asked.append(limitBytes)
        return b"".join(self.pieces)[:limitBytes]


def kept(cluster: Cluster, folder: Path) -> bytes:
    """The copy of a log, once the pod ended."""
    found = PodLogs(cast("Connection", cluster), folder)
    found.keep(ATTEMPT, 0, POD)
    found._pool.shutdown(wait=True)
    return (folder / ATTEMPT / "0.log").read_bytes()


def lines_of(*pieces: bytes) -> Iterator[bytes]:
    with streaming(*pieces) as lines:
        yield from lines


def test_lines_are_whole_wherever_the_network_cuts_them() -> None:
    assert list(lines_of(b"on", b"e\ntw", b"o\n\nth", b"r", b"ee")) == [
        b"one",
        b"two",
        b"",
        b"three",
    ]
    assert list(lines_of(b"one\n", b"two\n")) == [b"one", b"two"]


def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_LINE_BYTES", 100)
    found = lines_of(b"one\n", b"x" * 60, b"x" * 60, b"never read\n")
    assert next(found) == b"one"
    with pytest.raises(ApiError, match="more than") as error:
        next(found)
    assert error.value.try_again


def test_a_log_is_kept_as_it_was_written(tmp_path: Path) -> None:
    assert kept(Cluster(b"one\ntw", b"o\r", b"three"), tmp_path) == b"one\ntwo\rthree"


def test_of_a_log_without_a_line_feed_no_more_is_kept_than_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_MAX_BYTES", 100)
    assert kept(Cluster(*[b"x" * 30] * 50), tmp_path) == b"x" * 100


def test_the_api_is_not_asked_for_a_whole_log_by_who_names_an_offset_beyond_all(
    tmp_path: Path,
) -> None:
    cluster = Cluster(b"one\n")
    found = PodLogs(cast("Connection", cluster), tmp_path)
    chunk = found.read((ATTEMPT, 0), POD, offset=10**15, limit_bytes=100)
    assert (chunk.lines, chunk.end, cluster.asked) == ((), True, [])
    assert found.read((ATTEMPT, 0), POD, offset=0, limit_bytes=100).lines == ("one",)


def test_those_who_wait_at_the_end_of_a_long_log_do_not_fetch_it_with_every_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_AGAIN_BYTES_PER_S", 4)
    now_s = [100.0]
    cluster = Cluster(b"one\ntwo\n")
    found = PodLogs(cast("Connection", cluster), tmp_path, lambda: now_s[0])

    def look(pod: PodSeen = POD, offset: int = 8) -> tuple[tuple[str, ...], bool]:
        chunk = found.read((ATTEMPT, 0), pod, offset=offset, limit_bytes=100)
        return chunk.lines, chunk.end

    assert [look(), look(), look(offset=9)] == [((), False)] * 3
    assert len(cluster.asked) == 1
    # Who is not so far reads all the same, and that it has ended is seen at once.
    assert look(offset=4) == (("two",), False)
    assert look(replace(POD, exit_code=0, phase="Succeeded")) == ((), True)
    cluster.pieces = (b"one\ntwo\nthree\n",)
    assert look() == ((), False)
    now_s[0] += 2
    assert look() == (("three",), False)

"""Logs of workers: from the API while their pods are there, from our own copy of what was stopped.

A pod that is stopped is removed at once, and its log with it, so it is read to its end meanwhile. A pod
that ended by itself stays, with its log, for as long as ended Jobs are kept.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen
from gpucommons.scheduler.files.log_reader import LogChunk, cut_log, read_log

_LOG = logging.getLogger(__name__)

#: Followed at a time; further ones wait for their turn and may come too late.
_AT_ONCE = 16
#: Kept of one log, and read of it; kubelets keep less.
_MAX_BYTES = 64 << 20
_SILENT_S = 3600
#: Fetched again of one log for those who wait at its end: a longer one is looked at less often.
_AGAIN_BYTES_PER_S = 4 << 20
#: Logs of which the last such look is remembered.
_MAX_LOOKS = 1024


class PodLogs:
    """Reads logs, and keeps those that would be lost."""

    def __init__(
        self,
        connection: Connection,
        folder: Path | None,
        now_s: Callable[[], float] = time.monotonic,
        *,
        container: str = names.CONTAINER,
    ) -> None:
        self._connection = connection
        self._container = container
        self._now_s = now_s
        #: By pod and whether it had ended: from which offset there was nothing, and until when that holds.
        self._nothing: dict[tuple[str, bool], tuple[int, float]] = {}
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: set[str] = set()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="log")
        self._closed = False

    # --- keeping -----------------------------------------------------------------------------

    def keep(self, attempt_id: AttemptId, rank: int, pod: PodSeen) -> None:
        """Read a log to its end while the pod ends; returns at once."""
        path = self._path(attempt_id, rank)
        with self._lock:
            if path is None or pod.uid in self._kept or self._closed:
                return
            self._kept.add(pod.uid)
            self._pool.submit(self._follow, path, pod)

    def _path(self, attempt_id: AttemptId, rank: int) -> Path | None:
        return None if self._folder is None else self._folder / attempt_id / f"{rank}.log"

    def _follow(self, path: Path, pod: PodSeen) -> None:
        left = _MAX_BYTES
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            streaming = self._connection.stream(
                _log_path(pod), idle_s=_SILENT_S, container=self._container, follow="true"
            )
            with path.open("wb") as file, streaming:
                # Not by lines: a program may never end one.
                for chunk in streaming.chunks():
                    left -= file.write(chunk[:left])
                    # Whoever looks at the log meanwhile reads this copy.
                    file.flush()
                    if not left or self._closed:
                        break
        except (ApiError, OSError) as error:
            _LOG.info("the log of %s is not kept to its end: %s", pod.name, error)

    # --- reading -----------------------------------------------------------------------------

    def read(
        self, place: tuple[AttemptId, int], pod: PodSeen | None, *, offset: int, limit_bytes: int
    ) -> LogChunk:
        """Whole lines from an offset; ``pod`` is None where it is gone from the API."""
        path = self._path(*place)
        over = pod is None or pod.terminal
        nothing = LogChunk(lines=(), next_offset=offset, end=over)
        if offset >= _MAX_BYTES:
            # Nobody came there by reading: the whole log would be fetched for nothing.
            return replace(nothing, end=True)
        if pod is not None:
            if self._is_early(pod, offset):
                return nothing
            try:
                # The API knows no offset: what was read before is sent again, and cut off here.
                asked = offset + limit_bytes + 1
                content = self._connection.text(
                    _log_path(pod), container=self._container, limitBytes=asked
                )
            except ApiError as error:
                _LOG.info("the log of %s cannot be read: %s", pod.name, error)
            else:
                chunk = cut_log(
                    content[offset : offset + limit_bytes],
                    more=len(content) >= asked,
                    offset=offset,
                    over=over,
                    limit_bytes=limit_bytes,
                )
                if not chunk.lines:
                    self._note_nothing(pod, offset, fetched_bytes=len(content))
                return chunk
        if path is not None and path.exists():
            return read_log(path, offset=offset, limit_bytes=limit_bytes, over=over)
        return nothing

    def _is_early(self, pod: PodSeen, offset: int) -> bool:
        """There was nothing from here on, a moment ago."""
        with self._lock:
            since, until_s = self._nothing.get((pod.uid, pod.terminal), (offset + 1, 0.0))
        return offset >= since and self._now_s() < until_s

    def _note_nothing(self, pod: PodSeen, offset: int, *, fetched_bytes: int) -> None:
        until_s = self._now_s() + fetched_bytes / _AGAIN_BYTES_PER_S
        with self._lock:
            self._nothing.pop((pod.uid, pod.terminal), None)
            self._nothing[pod.uid, pod.terminal] = (offset, until_s)
            if len(self._nothing) > _MAX_LOOKS:
                del self._nothing[next(iter(self._nothing))]

    def close(self) -> None:
        """Let go."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


def _log_path(pod: PodSeen) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"

"""All runs of cells that some page may have to be shown yet; they outlive the server as a file.

A run is dropped when its own page was there to its end, when a page has saved the notebook with it,
or when its cell is run anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from gpucommons.labextension.outputs.cell_run import CellRun
from gpucommons.labextension.private_files import write_private

log = logging.getLogger("gpucommons.labextension")

FILE = "outputs.json"
#: Who never opens a notebook again does not fill memory and disk: the oldest go first.
MOST_RUNS, MOST_BYTES = 500, 32 << 20
_KEPT_MS = 30 * 24 * 3600 * 1000


class _File(BaseModel):
    runs: list[CellRun]


class CellRuns:
    """By their requests; ``is_there`` tells whether a page is connected to a kernel."""

    def __init__(self, folder: Path, is_there: Callable[[str, str], bool], now_ms: int) -> None:
        self._path = folder / FILE
        self._is_there = is_there
        #: Changed since it was written, or was last on its way to the disk.
        self.is_dirty = False
        #: A cell was run of which the file knows nothing yet.
        self.has_begun = asyncio.Event()
        #: One writes at a time. Which state is in the file, of how many that were to be written.
        self._writing = threading.Lock()
        self._in_file = self._to_write = 0
        self._runs: dict[str, CellRun] = {}
        try:
            found = _File.model_validate_json(self._path.read_bytes()).runs
        except FileNotFoundError:
            found = []
        except (OSError, ValidationError):
            log.exception("outputs that no page has shown cannot be read")
            found = []
        self._runs = {one.id: one for one in found if one.begun_ms > now_ms - _KEPT_MS}

    def __iter__(self) -> Iterator[CellRun]:
        return iter(list(self._runs.values()))

    def has(self, request: str) -> bool:
        """Whether a cell was run by this request."""
        return request in self._runs

    def of(self, kernel_id: str, path: str) -> list[CellRun]:
        """What a page of this notebook may have to show."""
        return [one for one in self if kernel_id == one.kernel_id or (path and path == one.path)]

    def begin(self, run: CellRun) -> None:
        """A page runs a cell; what the same cell printed before is over."""
        for one in self.of(run.kernel_id, run.path):
            if one.cell_id == run.cell_id:
                del self._runs[one.id]
        self._runs[run.id] = run
        self.is_dirty = True
        self.has_begun.set()
        self._make_room()

    def take(self, request: str, header: Mapping[str, Any], content: Any, metadata: Any) -> None:
        """Something that a kernel said for this request."""
        run = self._runs.get(request)
        if run is None or run.state == "ended":
            return
        run.take(header, content, metadata)
        run.is_unseen = run.is_unseen or not self._is_there(run.kernel_id, run.session)
        if run.state == "done" and not run.is_unseen:
            del self._runs[request]
        self.is_dirty = True
        if run.is_unseen:
            self._make_room()

    def page_is_back(self, kernel_id: str, session: str) -> None:
        """The page that ran them is given by Jupyter what came while it was away."""
        for one in self:
            if (one.kernel_id, one.session) == (kernel_id, session):
                one.is_unseen = False
                if one.state == "done":
                    self.forget([one.id])

    def forget(self, requests: Collection[str]) -> None:
        """They are in the notebook's file."""
        for request in requests:
            run = self._runs.get(request)
            if run is not None and run.state != "running":
                del self._runs[request]
                self.is_dirty = True

    def end_where_not(self, is_alive: Callable[[str], bool]) -> None:
        """Of a kernel that is gone nothing more comes."""
        for one in self:
            if one.state == "running" and not is_alive(one.kernel_id):
                one.state, one.is_unseen, self.is_dirty = "ended", True, True

    def write(self) -> None:
        """For the next server.

        Raises
        ------
        OSError
            When the disk refuses.
        """
        self.writing()()

    def writing(self) -> Callable[[], None]:
        """The same for another thread, as disks can be slow: what is called there writes what is kept now.

        It leaves alone what is newer and already in the file.
        """
        text = _written(_File(runs=list(self))) if self._runs or self._path.exists() else None
        self.is_dirty = False
        self.has_begun.clear()
        self._to_write += 1
        return partial(self._put, text, self._to_write)

    def _put(self, text: str | None, number: int) -> None:
        with self._writing:
            if text is None or number < self._in_file:
                return
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(self._path, text)
            except OSError:
                self.is_dirty = True
                raise
            self._in_file = number

    def _make_room(self) -> None:
        while len(self._runs) > 1 and (
            len(self._runs) > MOST_RUNS
            or sum(one.bytes + len(one.code) for one in self) > MOST_BYTES
        ):
            del self._runs[next(iter(self._runs))]


def _written(file: _File) -> str:
    try:
        return file.model_dump_json()
    except PydanticSerializationError:
        # Half a sign, which a kernel can say and no file can hold.
        text = json.dumps(file.model_dump(), ensure_ascii=False)
        return text.encode("utf-8", "replace").decode()

"""What an errand answers, heard with bounds: it runs as a user who can make it say anything.

Whoever has the same account can stop it, trace it or leave code where it looks for modules. So it gets
no variables of the service, and it may neither fill the memory of who listens, nor keep them waiting
with a pipe that a child of it holds open, nor end them with an answer that is none.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from typing import IO, Any, Self

import psutil

#: Far more than the longest list of files takes.
MAX_BYTES = 8 << 20
_PIECE_BYTES = 1 << 16
_SHOWN = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """What became of an errand."""

    said: bytes = b""
    #: What went wrong; None = nothing.
    problem: str | None = None

    def document(self) -> dict[str, Any]:
        """What it answered; empty where that is no answer."""
        try:
            return dict(json.loads(self.said))
        except (RecursionError, TypeError, ValueError):
            return {}


class Answer:
    """Hears an errand out; leaving the block ends it."""

    def __init__(self, errand: subprocess.Popen[bytes]) -> None:
        self._errand = errand
        self._said = {pipe: bytearray() for pipe in (errand.stdout, errand.stderr) if pipe}
        self._too_long = False
        self._ended = os.pidfd_open(errand.pid)
        self._heard = selectors.DefaultSelector()
        self._heard.register(self._ended, selectors.EVENT_READ)
        for pipe in self._said:
            os.set_blocking(pipe.fileno(), False)
            self._heard.register(pipe, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.cut_off()
        self._errand.wait()
        self._heard.close()
        os.close(self._ended)
        for pipe in self._said:
            pipe.close()

    def cut_off(self) -> None:
        """End the errand, if it has not."""
        self._errand.kill()

    def is_stopped(self) -> bool:
        """Whether somebody holds it: a signal, or another program that traces it."""
        try:
            status = psutil.Process(self._errand.pid).status()
        except psutil.Error:
            return False
        return status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)

    def hear(self, patience_s: float) -> Done | None:
        """Listen for at most so long; None while it has not ended."""
        until_s = time.monotonic() + patience_s
        while self._errand.poll() is None:
            left_s = until_s - time.monotonic()
            events = self._heard.select(max(0.0, left_s))
            for key, _ in events:
                if key.fileobj in self._said:
                    self._take(key.fileobj)
            if left_s <= 0 and self._errand.poll() is None:
                return None
        for pipe in self._said:
            # Only what is there: a child of it may hold the pipe open.
            while self._take(pipe):
                pass
        return self._done()

    def _take(self, pipe: Any) -> bool:
        """Read a piece; False where there is none."""
        said = self._said[pipe]
        try:
            piece = os.read(pipe.fileno(), _PIECE_BYTES)
        except BlockingIOError:
            return False
        if len(said) + len(piece) > MAX_BYTES:
            self._too_long = True
            self.cut_off()
            return False
        said += piece
        if not piece and pipe in self._heard.get_map():
            self._heard.unregister(pipe)
        return bool(piece)

    def _done(self) -> Done:
        if self._too_long:
            return Done(problem="it said more than is listened to")
        if self._errand.returncode == 0:
            return Done(said=self._all(self._errand.stdout))
        complained = self._all(self._errand.stderr).decode(errors="replace")
        return Done(problem=complained.strip()[-_SHOWN:] or "it was killed")

    def _all(self, pipe: IO[bytes] | None) -> bytes:
        return b"" if pipe is None else bytes(self._said[pipe])

"""A line that a service says over and over is said once, and then how often.

Whoever can make a service complain can fill its disk with the complaint. The same line is written once
a minute, with a count of the others; lines that differ only in what was filled in, so many a minute.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from gpucommons.gpu.log_lines import COUNT_MARK, FORMAT, JsonLines

WINDOW_S = 60.0
#: Of lines that differ only in what was filled in.
MOST_OF_A_KIND = 200
#: Texts that were put together before they were logged make a kind each: of those, so many.
_MOST_KINDS = 500


@dataclass(slots=True)
class _Said:
    """One line of the present minute."""

    record: logging.LogRecord
    again: int = 0


@dataclass(slots=True)
class _Kind:
    """The lines of one sentence, in the present minute."""

    since_s: float
    said: dict[Hashable, _Said] = field(default_factory=dict)
    #: How many were beyond the bound, and one of them.
    beyond: _Said | None = None


class SaidOnce(logging.Filter):
    """For a handler or a logger; ``say`` is where the counts go."""

    def __init__(
        self,
        say: Callable[[logging.LogRecord], object],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._say = say
        self._now_s = now_s
        self._kinds: dict[Hashable, _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is said."""
        if hasattr(record, COUNT_MARK):
            return True
        now_s = self._now_s()
        self._tell_counts(now_s - WINDOW_S)
        kind_key: Hashable = (record.name, record.levelno, str(record.msg))
        if kind_key not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind_key = None
        kind = self._kinds.setdefault(kind_key, _Kind(since_s=now_s))
        line = _line(record)
        known = kind.said.get(line)
        if known is not None:
            known.again += 1
            return False
        if len(kind.said) >= MOST_OF_A_KIND:
            kind.beyond = kind.beyond or _Said(record)
            kind.beyond.again += 1
            return False
        kind.said[line] = _Said(record)
        return True

    def tell_counts(self) -> None:
        """Say at once how often what was said came again."""
        self._tell_counts(float("inf"))

    def _tell_counts(self, before_s: float) -> None:
        over = [key for key, kind in self._kinds.items() if kind.since_s <= before_s]
        for kind in [self._kinds.pop(key) for key in over]:
            for said in kind.said.values():
                if said.again:
                    self._tell(said.record, f"said {said.again} more times: ")
            if kind.beyond is not None:
                self._tell(kind.beyond.record, f"{kind.beyond.again} more lines like this one: ")

    def _tell(self, record: logging.LogRecord, how_often: str) -> None:
        document = {
            **record.__dict__,
            "msg": f"{how_often}{record.getMessage()}",
            "args": None,
            "exc_info": None,
            "exc_text": None,
            "stack_info": None,
            COUNT_MARK: True,
        }
        self._say(logging.makeLogRecord(document))


def _line(record: logging.LogRecord) -> Hashable:
    """What makes two records the same: the text, and of an error where it was raised."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return record.getMessage()
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = (place.tb_frame.f_code.co_filename, place.tb_lineno) if place is not None else None
    return (record.getMessage(), type(error), where)


def log_to_stderr(line: str, *, level: int | str = logging.INFO) -> None:
    """Log like this to standard error, or as JSON where that is asked for; each line once."""
    handler = logging.StreamHandler()
    if os.environ.get(FORMAT) == "json":
        handler.setFormatter(JsonLines())
    once = SaidOnce(handler.handle)
    handler.addFilter(once)
    atexit.register(once.tell_counts)
    logging.basicConfig(level=level, format=line, handlers=[handler])


def quiet_down(*names: str) -> None:
    """Let these loggers, whose handlers are another program's, say each line once."""
    for name in names:
        logger = logging.getLogger(name)
        once = SaidOnce(logger.handle)
        logger.addFilter(once)
        atexit.register(once.tell_counts)

"""What kept runs teach, worked out once for all who ask the same, until there are more runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from gpucommons.scheduler.service.in_memory.newest import keep

T = TypeVar("T")

#: Pools, teams and environments that are asked about side by side.
_MOST = 64


class Lessons:
    """Of a hundred runs it takes a second. May be used from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._known: dict[str, Any] = {}

    def of(self, question: str, work_out: Callable[[], T]) -> T:
        """The answer to this question; who asks the same meanwhile waits for the first one's."""
        with self._turn:
            answer: T = self._known[question] if question in self._known else work_out()
            keep(self._known, question, answer, most=_MOST)
        return answer

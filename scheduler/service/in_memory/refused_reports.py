"""Attempts whose reports are refused because this scheduler did not make their token.

That happens where an installation was made anew without its old key: what still runs trains on, and
nothing it says is recorded. Whose attempt it is says the token alone, which proves nothing here; so
an attempt is named only until it reports with a token of ours.
"""

from __future__ import annotations

import threading

from gpucommons.scheduler.core.model.types import AttemptId, Workload
from gpucommons.scheduler.service.in_memory.newest import keep

#: Anybody who reaches the API can bring such tokens.
_REMEMBERED = 1_000
_LONGEST_ID = 64
_SENTENCE = (
    "The scheduler refuses what this run reports, because it was started with a key that the scheduler"
    " does not have any more. Progress and checkpoints of it are not recorded. Cancel it and run it"
    " again, or ask your admin for the old key."
)


class RefusedReports:
    """Which they are. May be used from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._found: dict[AttemptId, None] = {}

    def refused(self, claimed: str) -> None:
        """A report in the name of this attempt was refused."""
        if len(claimed) > _LONGEST_ID:
            return
        with self._turn:
            keep(self._found, AttemptId(claimed), None, most=_REMEMBERED)

    def taken(self, attempt_id: AttemptId) -> None:
        """One with a token of ours came."""
        if attempt_id in self._found:
            with self._turn:
                self._found.pop(attempt_id, None)

    def told_of(self, workload: Workload) -> str | None:
        """What its page says of it; None where nothing is refused."""
        attempt = workload.current
        return _SENTENCE if attempt is not None and attempt.attempt_id in self._found else None

    def __len__(self) -> int:
        return len(self._found)

"""Whether nothing of a worker runs any more: the API's word alone is not enough.

A pod that is deleted by force is out of the books at once, whatever its node still runs, and so is one
that somebody removed while no scheduler looked. The agent of its node sees processes: it is asked, then
and there. Where there is none, the place is held for as long as a kubelet takes to end a pod.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, NodeId
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import Remains

_LOG = logging.getLogger(__name__)

#: Processes of a slice at its node, asked now; None where no agent knows of the slice. Raises
#: ``AgentUnavailable`` where there is one that does not answer.
Reading = Callable[[NodeId, SliceId], int | None]

#: Beside what else the cluster is asked: an agent that is away takes its time.
_AT_ONCE = 4
_AGAIN_MS = 1_000


class Said(Enum):
    """What a node's agent says of a worker's slice."""

    EMPTY = "nothing runs"
    LIVE = "something runs"
    SILENT = "it does not answer"
    NOTHING = "there is no agent, or it does not know the slice"


def is_believed(remains: Remains, said: Said, *, waited_ms: int, hold_ms: int) -> bool:
    """Whether a worker counts as dead: seen so, or after what no processes outlive."""
    if said is Said.LIVE:
        return False
    waited = waited_ms >= remains.grace_s * 1000 + hold_ms
    if said is Said.EMPTY:
        return _is_settled(remains, said) or waited
    if remains.ended and said is Said.NOTHING:
        return True
    # One that answers no more proves nothing: only the kubelet's own word stands against that.
    return waited and (remains.ended or said is Said.NOTHING)


def _is_settled(remains: Remains, said: Said | None) -> bool:
    """Whether no later answer can be another.

    A container that was just being made may come up once more before it is ended.
    """
    return said is Said.EMPTY and (remains.ended or remains.started)


@dataclass(kw_only=True, slots=True)
class _Inquiry:
    since_ms: int
    said: Said | None = None
    asked_ms: int = 0
    complained: bool = False


class Witnesses:
    """Asks for what is to be known, and remembers it. Used with the lock of the view held."""

    def __init__(
        self,
        reading: Reading | None,
        *,
        hold_ms: int,
        now_ms: Callable[[], int],
        leading: Callable[[], bool],
        heard: Callable[[AttemptId], None],
    ) -> None:
        """``heard`` is called, without the lock, when an answer may have settled something."""
        self._reading = reading
        self._hold_ms = hold_ms
        self._now_ms = now_ms
        self._heard = heard
        self._orders = Orders(at_once=_AT_ONCE, leading=leading)
        self._inquiries: dict[AttemptId, dict[int, _Inquiry]] = {}

    def believe(self, attempt: Attempt, remains: Remains) -> bool:
        """Whether nothing of a worker runs; asks where that is not known yet."""
        slice_id = attempt.placements[remains.rank].slice_id
        inquiry, now_ms = self._inquiry(attempt, remains), self._now_ms()
        if self._reading is None or slice_id is None:
            inquiry.said = Said.NOTHING
        elif not _is_settled(remains, inquiry.said) and now_ms - inquiry.asked_ms >= _AGAIN_MS:
            self._ask(attempt.attempt_id, inquiry, remains, slice_id)
        if inquiry.said is None:
            return False
        waited_ms = now_ms - inquiry.since_ms
        self._complain(attempt, inquiry, remains, waited_ms)
        return is_believed(remains, inquiry.said, waited_ms=waited_ms, hold_ms=self._hold_ms)

    def _inquiry(self, attempt: Attempt, remains: Remains) -> _Inquiry:
        of_attempt = self._inquiries.setdefault(attempt.attempt_id, {})
        found = of_attempt.get(remains.rank)
        if found is None:
            found = of_attempt[remains.rank] = _Inquiry(since_ms=self._now_ms())
        return found

    def _ask(
        self, attempt_id: AttemptId, inquiry: _Inquiry, remains: Remains, slice_id: SliceId
    ) -> None:
        reading, node = self._reading, NodeId(remains.node)

        def work() -> None:
            if reading is None:
                return
            try:
                live = reading(node, slice_id)
            except AgentUnavailable:
                inquiry.said = Said.SILENT
            else:
                known = Said.LIVE if live else Said.EMPTY
                inquiry.said = Said.NOTHING if live is None else known

        inquiry.asked_ms = self._now_ms()
        self._orders.give((attempt_id, remains.rank), work, partial(self._done, attempt_id))

    def _done(self, attempt_id: AttemptId, _error: ApiError | None) -> None:
        self._heard(attempt_id)

    def _complain(
        self, attempt: Attempt, inquiry: _Inquiry, remains: Remains, waited_ms: int
    ) -> None:
        late_ms = remains.grace_s * 1000 + self._hold_ms
        if inquiry.complained or inquiry.said is Said.EMPTY or waited_ms < late_ms:
            return
        inquiry.complained = True
        if inquiry.said is Said.LIVE or (inquiry.said is Said.SILENT and not remains.ended):
            _LOG.warning(
                "worker %d of attempt %s is gone from the cluster's books, but on %s %s: what it "
                "holds stays held until that changes, or the node is fenced",
                remains.rank,
                attempt.attempt_id,
                remains.node,
                "something of it runs"
                if inquiry.said is Said.LIVE
                else "the agent does not answer",
            )

    def forget(self, attempt_id: AttemptId) -> None:
        """Its end is on record."""
        self._inquiries.pop(attempt_id, None)

    def clear(self) -> None:
        """What is to be believed is the leader's matter."""
        self._inquiries.clear()

    def close(self) -> None:
        """Let go of the threads."""
        self._orders.close()

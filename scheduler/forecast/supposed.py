"""Waits of jobs that nobody has submitted: asked by whoever looks for a plan, played by the forecaster.

A supposed job joins a copy of the cluster, in a line of its own: it changes nobody's forecast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, Workload
from gpucommons.scheduler.forecast.arrivals import Arriving
from gpucommons.scheduler.forecast.estimating import Budget, Lengths, estimate
from gpucommons.scheduler.forecast.forecast import Forecast, foreseen, told_of
from gpucommons.scheduler.forecast.runs import History
from gpucommons.scheduler.forecast.windows import Calibration, wait_class

Play = Callable[[Generator[None, None, Lengths]], Lengths | None]
Told = Callable[[str], Calibration]


@dataclass(frozen=True, kw_only=True, slots=True)
class Playing:
    """What a round knows, and how it plays."""

    history: History
    budget: Budget
    arriving: Arriving
    #: Paces; None when it is to stop.
    play: Play
    #: How right past windows of a class were.
    told: Told


#: So many questions wait at most; the oldest is given up.
_MOST_ASKED = 100
#: An answer is good for so long.
FRESH_MS = 30_000


class Supposed:
    """Questions that wait, and answers that are fresh. Asked from any thread, answered from one."""

    def __init__(self) -> None:
        self._asked: deque[tuple[str, Workload]] = deque(maxlen=_MOST_ASKED)
        self._answers: dict[str, tuple[Millis, Forecast]] = {}

    @property
    def pending(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._asked)

    def answer(self, key: str, job: Workload, now_ms: Millis) -> Forecast | None:
        """What is likely; None as long as that is being worked out."""
        found = self._answers.get(key)
        if found is not None and now_ms - found[0] <= FRESH_MS:
            return found[1]
        if all(key != other for other, _ in tuple(self._asked)):
            self._asked.append((key, job))
        return None

    def work(self, cluster: Cluster, playing: Playing, now_ms: Millis) -> None:
        """Answer everybody who waits."""
        kept = {key: one for key, one in self._answers.items() if now_ms - one[0] <= FRESH_MS}
        while self._asked:
            key, job = self._asked[0]
            if key not in kept:
                said = _said(cluster, job, playing)
                if said is None:
                    return
                kept[key] = (now_ms, said)
                self._answers = dict(kept)
            self._asked.popleft()
        self._answers = kept


def _said(cluster: Cluster, job: Workload, playing: Playing) -> Forecast | None:
    joined = {**cluster.workloads, job.workload_id: job}
    trial = replace(cluster.apart(), workloads=joined)
    lengths = playing.play(
        estimate(
            trial,
            playing.history,
            playing.budget,
            wanted=(job.workload_id,),
            arriving=playing.arriving,
        )
    )
    if lengths is None:
        return None
    _, thin = foreseen(lengths, job.workload_id)
    return told_of(lengths, job.workload_id, playing.told(wait_class(job, thin=thin)))

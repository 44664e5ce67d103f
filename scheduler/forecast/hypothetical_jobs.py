"""Waits of jobs that nobody has submitted: asked by whoever looks for a plan, played by the forecaster.

A supposed job joins a copy of the cluster, in a line of its own: it changes nobody's forecast.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, UserName, Workload
from gpucommons.scheduler.forecast.arrivals import Arriving
from gpucommons.scheduler.forecast.estimating import Budget, Lengths, UpcomingNode, estimate
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
    #: Nodes that were asked for.
    upcoming: Sequence[UpcomingNode] = ()
    #: Paces; None when it is to stop.
    play: Play
    #: How right past windows of a class were.
    told: Told


#: Of one owner so many questions are open; a further one takes the place of that owner's oldest.
_OF_ONE = 8
#: So many are answered in a round: those who really wait are forecast anew in between.
_A_ROUND = 4
#: Nobody waits for the answer any more to what was not asked again for so long.
_ASKED_FOR_MS = 15_000
#: An answer is good for so long.
FRESH_MS = 30_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    job: Workload
    #: Asked last.
    at_ms: Millis


class Supposed:
    """Questions that wait, and answers that are fresh. Asked from any thread, answered from one."""

    def __init__(self) -> None:
        #: By owner and key, oldest first. The owner whose question was answered last comes last.
        self._asked: dict[UserName, dict[str, _Question]] = {}
        self._turn = threading.Lock()
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
        with self._turn:
            own = self._asked.setdefault(job.spec.owner, {})
            if key not in own and len(own) >= _OF_ONE:
                del own[next(iter(own))]
            own[key] = _Question(job=job, at_ms=now_ms)
        return None

    def work(self, cluster: Cluster, playing: Playing, now_ms: Millis) -> None:
        """Answer a few of those who still wait, owners in turn."""
        kept = {key: one for key, one in self._answers.items() if now_ms - one[0] <= FRESH_MS}
        self._answers = kept
        for _ in range(_A_ROUND):
            taken = self._next(now_ms)
            if taken is None:
                return
            owner, key, question = taken
            if key not in kept:
                said = _said(cluster, question.job, playing)
                if said is None:
                    return
                self._answers = kept = {**kept, key: (now_ms, said)}
            with self._turn:
                self._drop(owner, key)

    def _next(self, now_ms: Millis) -> tuple[UserName, str, _Question] | None:
        """The oldest question of the owner whose turn it is; what nobody asks any more is dropped."""
        with self._turn:
            for owner, key, question in self._open():
                if now_ms - question.at_ms > _ASKED_FOR_MS:
                    self._drop(owner, key)
            if not self._asked:
                return None
            owner = next(iter(self._asked))
            # Whoever is next stands behind all others from now on.
            own = self._asked[owner] = self._asked.pop(owner)
            key = next(iter(own))
            return owner, key, own[key]

    def _open(self) -> list[tuple[UserName, str, _Question]]:
        return [
            (owner, key, question)
            for owner, own in self._asked.items()
            for key, question in own.items()
        ]

    def _drop(self, owner: UserName, key: str) -> None:
        own = self._asked.get(owner, {})
        own.pop(key, None)
        if not own:
            self._asked.pop(owner, None)


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
            upcoming=playing.upcoming,
        )
    )
    if lengths is None:
        return None
    _, thin = foreseen(lengths, job.workload_id)
    return told_of(lengths, job.workload_id, playing.told(wait_class(job, thin=thin)))

"""The forecasts of a running scheduler: beside the loop, never in it, in a thread of its own.

It plays one cycle at a time and rests after each for as long as that took, so that the loop and
the API are never held up for longer than one cycle of the core; a full round is followed by a rest
ten times as long. What it says lives in memory; what it said at the start of a wait, and at a few
ages of it, is stored and compared with what happened.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from gpucommons.scheduler.core.explain.blockers import still_blocks
from gpucommons.scheduler.core.model.demand import WhyNoSlices
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.core.queue.ordering import by_age
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual, ways
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.forecast import words
from gpucommons.scheduler.forecast.arrivals import the_past_again
from gpucommons.scheduler.forecast.estimating import (
    Budget,
    Lengths,
    UpcomingNode,
    at_a_limit,
    budget_for,
    endless_notebooks,
    estimate,
    if_nothing_ends_early,
    returns,
    waiting,
)
from gpucommons.scheduler.forecast.forecast import (
    Bound,
    Forecast,
    bounded,
    foreseen,
    in_view_of,
    told_of,
)
from gpucommons.scheduler.forecast.forecast_records import EstimateLedger
from gpucommons.scheduler.forecast.hypothetical_jobs import Playing, Supposed
from gpucommons.scheduler.forecast.past_runs import PastRuns
from gpucommons.scheduler.forecast.runs import History
from gpucommons.scheduler.forecast.windows import Basis, Calibration, Unknown, wait_class
from gpucommons.scheduler.store.base import Epoch, Store
from gpucommons.scheduler.store.estimates import Estimate

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

#: Time alone changes what is likely: at least so often while something waits.
REFRESH_S = 30.0
#: Changes that come together are answered together.
_GATHER_S = 0.2
#: So many ends of limits are looked at: one by one, for a limit is a moment.
_LIMITS = 60
#: A round may take one part in so many of the time.
_REST = 10
#: So many of those who wait longest are told what would start them; the others may ask.
_WITH_WAYS = 20
#: So many questions wait at most; the oldest is given up.
_MOST_ASKED = 50
#: What would start something is asked anew after so long.
FRESH_MS = 30_000
#: Older than this, and than a few rounds, nothing is said: the thread has died.
STALE_MS = 300_000


class Leads(Protocol):
    """The loop, as the forecaster sees it."""

    @property
    def cluster(self) -> Cluster:
        """What the last cycle committed."""
        ...

    @property
    def epoch(self) -> Epoch:
        """Under which this scheduler leads."""
        ...

    @property
    def leading(self) -> bool:
        """Whether it does: of several replicas all forecast, and one keeps the books."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each commit."""
        ...


class Forecaster:
    """Keeps a forecast of everybody who waits. :meth:`start` runs it, :meth:`round` by hand."""

    def __init__(  # noqa: PLR0913 - what it looks at, and by which rules
        self,
        loop: Leads,
        store: Store,
        *,
        now_ms: Callable[[], Millis],
        why_not: WhyNoSlices,
        budget: Budget | None = None,
        idle_after_ms: int | None = None,
        upcoming: Callable[[], Sequence[UpcomingNode]] = tuple,
    ) -> None:
        self._upcoming = upcoming
        self._why_not = why_not
        self._loop = loop
        self._now_ms = now_ms
        self._budget = budget
        self._idle_after_ms = idle_after_ms
        self._past = PastRuns(store)
        self._ledger = EstimateLedger(store)
        self._forecasts: Mapping[WorkloadId, Forecast] = {}
        self._calibrations: Mapping[str, Calibration] = {}
        self._seen: Cluster | None = None
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._slowest_ms = 0
        #: Who was asked about, and what was found, with its time.
        self._asked: deque[WorkloadId] = deque(maxlen=_MOST_ASKED)
        self._answers: dict[WorkloadId, tuple[Millis, tuple[Counterfactual, ...]]] = {}
        self._supposed = Supposed()

    # --- for everyone else, from any thread --------------------------------------------------

    def of(self, workload: Workload) -> Forecast | None:
        """What is likely; None where nothing waits or nothing was worked out yet."""
        if workload.state not in WAITING_STATES:
            return None
        found = self._forecasts.get(workload.workload_id)
        if found is None or self._now_ms() - found.made_ms > max(STALE_MS, self._slowest_ms):
            return None
        return in_view_of(self._with_ways_of_now(found, workload), workload.reason)

    def _with_ways_of_now(self, found: Forecast, workload: Workload) -> Forecast:
        return replace(found, ways=self._of_now(found.ways, workload))

    def _of_now(
        self, ways: tuple[Counterfactual, ...], workload: Workload
    ) -> tuple[Counterfactual, ...]:
        """A notebook that was idle when ways were tried may be used again: nobody is to ask for it."""
        cluster = self._loop.cluster
        return tuple(
            one
            for one in ways
            if one.blocker is None or still_blocks(cluster, workload, one.blocker)
        )

    def ways(self, workload: Workload) -> tuple[Counterfactual, ...] | None:
        """What would start it now; None where that was not worked out lately: it is, next.

        For clusters on which a cycle takes long: whoever asks waits for this thread, which rests after
        each cycle, and does not decide a dozen of them between two of the loop's.
        """
        found = self._answers.get(workload.workload_id)
        if found is not None and self._now_ms() - found[0] <= FRESH_MS:
            return self._of_now(found[1], workload)
        if workload.workload_id not in self._asked:
            self._asked.append(workload.workload_id)
        self._changed.set()
        return None

    def if_submitted(self, key: str, job: Workload) -> Forecast | None:
        """What is likely for a job that is not submitted; None where that was not worked out: it is, next.

        Jobs with one key are alike.
        """
        found = self._supposed.answer(key, job, self._now_ms())
        if found is None:
            self._changed.set()
        return found

    def calibration(self, workload: Workload) -> Calibration:
        """How right past windows of such waits were."""
        return self._calibrations.get(wait_class(workload), Calibration())

    # --- running -----------------------------------------------------------------------------

    def start(self) -> None:
        """Forecast from now on, in a thread."""
        self._loop.subscribe(self._changed.set)
        self._changed.set()
        self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current cycle."""
        self._stopping.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait(REFRESH_S)
            if self._stopping.wait(_GATHER_S):
                return
            self._changed.clear()
            began = time.monotonic()
            try:
                self.round()
            except LeaderLost:
                _LOG.info("Another replica leads: it keeps the books of forecasts.")
            except Exception:  # noqa: BLE001 - a forecast is never worth a scheduler
                _LOG.exception("This round of forecasts failed; the next one tries again.")
            spent_s = time.monotonic() - began
            self._slowest_ms = round(3 * (1 + _REST) * spent_s * 1000)
            self._rest(spent_s)

    def _rest(self, spent_s: float) -> None:
        """Leave the processor to others; who has just come into line waits for less of it."""
        until_s, again = time.monotonic() + spent_s * _REST, False
        self._stopping.wait(spent_s)
        while (left_s := until_s - time.monotonic()) > 0 and not self._stopping.is_set():
            if self._changed.wait(left_s):
                again = True
                if self._has_news():
                    break
                self._changed.clear()
                self._stopping.wait(_GATHER_S)
        if again:
            self._changed.set()

    def _has_news(self) -> bool:
        return (
            bool(self._asked)
            or self._supposed.pending
            or any(one not in self._forecasts for one in waiting(self._loop.cluster))
        )

    def round(self) -> None:
        """Look once at everybody who waits."""
        cluster = self._loop.cluster
        self._answer(cluster)
        self._past.look(cluster)
        written = self._ledger.settle(cluster)
        self._calibrations = self._ledger.calibrations(cluster.now_ms)
        asked, budget = waiting(cluster), self._budget or budget_for(cluster)
        known = self._playing(cluster, budget) if asked or self._supposed.pending else None
        if asked and known is not None:
            said = self._forecast(cluster, known, asked)
            if said is None:
                return
            written += said
        else:
            self._forecasts = {}
        if self._loop.leading:
            self._ledger.write(self._loop.epoch, written)
        if known is not None:
            self._supposed.work(cluster, known, self._now_ms())
        self._find_ways(cluster)

    def _playing(self, cluster: Cluster, budget: Budget) -> Playing:
        runs = self._past.runs(cluster)
        history = History(runs)
        again = the_past_again(
            runs, history, cluster.now_ms, budget.futures, self._past.forgotten_ms
        )
        return Playing(
            history=history,
            budget=budget,
            arriving=again,
            upcoming=self._upcoming(),
            play=self._pace,
            told=lambda name: self._calibrations.get(name, Calibration()),
        )

    def _forecast(
        self, cluster: Cluster, known: Playing, asked: tuple[WorkloadId, ...]
    ) -> list[Estimate] | None:
        """Look at those who wait; what the books take of it, None when it is to stop."""
        budget = known.budget
        lengths = self._pace(
            estimate(
                cluster,
                known.history,
                budget,
                wanted=asked,
                arriving=known.arriving,
                upcoming=known.upcoming,
            )
        )
        if lengths is None:
            return None
        found = self._bounded(cluster, self._told(cluster, lengths), budget)
        if found is None:
            return None
        self._forecasts = found
        return self._ledger.note(cluster, lengths, self._forecasts, self._calibrations)

    def _answer(self, cluster: Cluster) -> None:
        """What would start those who were asked about."""
        now_ms = self._now_ms()
        kept = {i: one for i, one in self._answers.items() if now_ms - one[0] <= FRESH_MS}
        while self._asked:
            workload_id = self._asked.popleft()
            if workload_id in kept:
                continue
            found = self._pace(_listed(cluster, workload_id, self._why_not))
            if found is None:
                return
            kept[workload_id] = (now_ms, found)
            self._answers = dict(kept)
        self._answers = kept

    def _find_ways(self, cluster: Cluster) -> None:
        """What would start those who have waited longest, one after the other."""
        in_line = [cluster.workloads[one] for one in self._forecasts]
        for one in [each.workload_id for each in sorted(in_line, key=by_age)[:_WITH_WAYS]]:
            found = self._pace(_listed(cluster, one, self._why_not))
            if found is None:
                return
            if (known := self._forecasts.get(one)) is not None:
                self._forecasts = {**self._forecasts, one: replace(known, ways=found)}

    def _pace(self, playing: Generator[None, None, T]) -> T | None:
        """Play with a rest after each cycle; None when it is to stop."""
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                next(playing)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return] # what the generator returns
            if self._thread is not None:
                self._stopping.wait(time.monotonic() - began)
        return None

    def _told(self, cluster: Cluster, lengths: Lengths) -> dict[WorkloadId, Forecast]:
        found = {}
        for one in lengths.waits:
            _, thin = foreseen(lengths, one)
            name = wait_class(cluster.workloads[one], thin=thin)
            said = told_of(lengths, one, self._calibrations.get(name, Calibration()))
            if said.basis is Basis.THIN or said.unknown is Unknown.HISTORY:
                said = replace(said, notebooks_of=endless_notebooks(cluster, one, lengths))
            before = self._forecasts.get(one)
            found[one] = said if before is None else replace(said, ways=before.ways)
        return found

    def _bounded(
        self, cluster: Cluster, found: dict[WorkloadId, Forecast], budget: Budget
    ) -> dict[WorkloadId, Forecast] | None:
        """What little is known of gets what time limits say; None when it is to stop."""
        unknown = [one for one, said in found.items() if _is_vague(said)]
        one_by_one = replace(budget, cycles=min(_LIMITS, budget.cycles), coarse=0, finest_ms=0)
        starts = self._pace(
            if_nothing_ends_early(cluster, unknown, one_by_one, upcoming=self._upcoming())
        )
        if starts is None:
            return None
        for one, holder in at_a_limit(cluster, starts).items():
            length_ms = words.rounded_up(starts[one] - cluster.now_ms)
            spec, theirs = cluster.workloads[one].spec, cluster.workloads[holder].spec
            # Who may read this forecast is of its team: names of others are by policy.
            name = theirs.name if theirs.team == spec.team else None
            found[one] = bounded(found[one], Bound(length_ms=length_ms, holder=name))
        return self._if_idle_stays(cluster, found, one_by_one)

    def _if_idle_stays(
        self, cluster: Cluster, found: dict[WorkloadId, Forecast], one_by_one: Budget
    ) -> dict[WorkloadId, Forecast] | None:
        """What is still vague gets what the return of idle notebooks would give."""
        rule_ms = self._idle_after_ms
        unknown = [one for one, said in found.items() if _is_vague(said) and not said.bound]
        if not unknown or rule_ms is None or not returns(cluster, rule_ms):
            return found
        playing = if_nothing_ends_early(cluster, unknown, one_by_one, idle_after_ms=rule_ms)
        starts = self._pace(playing)
        if starts is None:
            return None
        for one in at_a_limit(cluster, starts, idle_after_ms=rule_ms):
            length_ms = words.rounded_up(starts[one] - cluster.now_ms)
            found[one] = replace(found[one], if_idle_ms=length_ms)
        return found


def _is_vague(said: Forecast) -> bool:
    return said.window is None or said.basis is not Basis.KNOWN


def _listed(
    cluster: Cluster, workload_id: WorkloadId, why_not: WhyNoSlices
) -> Generator[None, None, tuple[Counterfactual, ...]]:
    """All ways, with a pause after each."""
    listed = []
    for way in ways(cluster, workload_id, cluster.now_ms, why_not):
        listed.append(way)
        yield
    return tuple(listed)

"""What the executor keeps of an attempt that it was told to run, beside what the cluster shows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptSignalled,
    AttemptStarted,
    Observation,
)
from gpucommons.scheduler.core.model.types import Attempt, Millis
from gpucommons.scheduler.executors.kubernetes.attempts import endings, observed_state
from gpucommons.scheduler.executors.kubernetes.attempts.observed_state import (
    Believes,
    Expected,
    Failing,
    Seen,
)
from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import Trace
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import PodSeen, Why

#: What has outlived its kill time is looked at so often though nothing of it changes.
_PRESS_EVERY_MS = 10_000
#: Steps of a start: all pods of the gang are there; kube-scheduler has given each its node. Then come
#: images, volumes and containers.
PODS_MADE, PODS_BOUND = "pods made", "pods bound"


@dataclass(kw_only=True, slots=True)
class Record:
    """One attempt, from the moment it is named to us until it is forgotten."""

    attempt: Attempt
    now_ms: Callable[[], int]
    #: From SIGTERM to SIGKILL, as its pool has it.
    grace_s: int = 30
    namespace: str | None = None
    expected: Expected | None = None
    #: Job, Secret and Service are made: nothing is missing that its pods need.
    laid_out: bool = False
    #: Pods whose gate we opened.
    lifted: set[str] = field(default_factory=set)
    #: We were told to stop it.
    stopped: bool = False
    signalled: bool = False
    kill_ms: int | None = None
    #: When what outlives its kill time was last pressed for.
    pressed_ms: int | None = None
    #: Why its start is given up.
    failing: Failing | None = None
    #: What the cluster last complained of.
    warning: Why = Why()
    #: Since when it waits for something that may never come.
    uncertain_since_ms: int | None = None
    absent: set[str] = field(default_factory=set)
    ranks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    started: bool = False
    #: How far its start has come, as we saw it; None where a scheduler before us saw some of it.
    steps: dict[str, Millis] | None = field(default_factory=dict)
    #: An order failed for the moment, or waits for a reservation: it is due again.
    due_again: bool = True
    #: Its work is over though its pods are not, and since when.
    lingers: bool = False
    lingers_since_ms: int | None = None
    #: Its work is over: what is left in its pods is to end.
    finished: bool = False
    #: What keeps its start, as it looks now.
    doubt: Failing | None = None
    #: A worker is over or gone in the API's books: only time or its node can settle it.
    unsettled: bool = False
    #: Pods that were ordered to end, in time and past it.
    hurried: set[tuple[str, bool]] = field(default_factory=set)
    #: Nothing of it was found by a scheduler that came back: it was never made, or ran and vanished.
    doubtful: bool = False
    #: What the cluster refuses to do for it, by the order's key.
    refused: dict[tuple[object, ...], str] = field(default_factory=dict)
    #: Its pods were removed and nothing says why: its Jobs are to be read once more, and were.
    to_ask: bool = False
    asked: bool = False
    ended: AttemptEnded | None = None
    #: What is told, made once.
    told: tuple[Observation, ...] = ()

    def take_over(self, trace: Trace) -> None:
        """Go on where a scheduler before us left off."""
        for job in trace.jobs.values():
            self.namespace = job.namespace
        self.steps = None
        stop = self.attempt.stop
        if stop is not None and any(job.suspended for job in trace.jobs.values()):
            self.stopped = self.signalled = True
            self.kill_ms = stop.kill_ms
        # Once one pod was let go, everything that pods need had been made.
        self.laid_out = any(pod.placed for pod in trace.pods.values())

    def seen(self, trace: Trace | None) -> Seen:
        """Everything known of it."""
        jobs, pods, gone = {}, {}, frozenset[str]()
        if trace is not None:
            jobs, gone = trace.jobs, frozenset(trace.gone)
            if not self.ranks:
                self.ranks = observed_state.of_ranks(self.attempt)
            ranks = self.ranks
            pods = {ranks[place]: pod for place, pod in trace.pods.items() if place in ranks}
        return Seen(
            attempt=self.attempt,
            jobs=jobs,
            pods=pods,
            gone=gone,
            stopped=self.stopped,
            ran=self.started or self.attempt.started_ms is not None or self.doubtful,
            failing=self.failing,
            absent=frozenset(self.absent),
            warning=self.warning,
            grace_s=self.grace_s,
        )

    @property
    def to_suspend(self) -> bool:
        """It is to end."""
        given_up = self.failing is not None
        return self.ended is None and (self.stopped or self.finished or given_up)

    @property
    def may_be_made(self) -> bool:
        """Nothing says that its objects are there, or were."""
        begun = self.laid_out or self.attempt.started_ms is not None
        return not (begun or self.doubtful or self.to_suspend) and self.ended is None

    def waits_for_time(self, now_ms: int) -> bool:
        """Whether it is to be looked at again though nothing happened."""
        if self.ended is not None:
            return False
        waits = self.doubt is not None or self.unsettled or self.lingers or self.doubtful
        return waits or self.is_late(now_ms) or bool(self.refused)

    def is_late(self, now_ms: int) -> bool:
        """Its kill time has come, and it was not pressed for since, or long ago.

        Whatever changes is looked at anyway, and thousands may be past their time for minutes.
        """
        if not self.to_suspend or self.kill_ms is None or now_ms < self.kill_ms:
            return False
        pressed_ms = self.pressed_ms
        return pressed_ms is None or not 0 <= now_ms - pressed_ms < _PRESS_EVERY_MS

    def look(self, seen: Seen, believes: Believes, *, busy: bool) -> None:
        """Bring what is told up to date; ``busy``: an order that may make something is under way."""
        if self.ended is not None:
            return
        if self.doubtful:
            self.doubtful = observed_state.may_have_run(seen, believes)
            if self.doubtful:
                return
            # Now it is made, or was stopped before it ran.
            self.absent.clear()
            self.due_again = True
            seen = replace(seen, ran=False, absent=frozenset())
        self._note_steps(seen)
        self.started = self.started or observed_state.has_started(seen)
        if not self.to_suspend and not self.started:
            self.failing = observed_state.why_give_up(seen, self.expected, self.lifted)
            self.doubt = observed_state.why_uncertain(seen)
            if self.doubt is None:
                self.uncertain_since_ms = None
        self.lingers = self.started and observed_state.is_lingering(seen)
        if self.failing is None and any(
            observed_state.is_stand_in(p, seen) for p in seen.pods.values()
        ):
            self.failing = Failing("Somebody deleted a pod of it while it ran", again=True)
        missing = seen.ran and observed_state.pods_of_its_own(seen) < seen.workers
        self.unsettled = bool(seen.gone) or missing or any(p.terminal for p in seen.pods.values())
        is_over = (
            not busy
            and bool(seen.pods or seen.jobs or self.absent)
            and observed_state.is_over(seen, believes)
        )
        self.to_ask = is_over and not self.asked and endings.is_unexplained(seen)
        if is_over and not self.to_ask:
            self.ended = endings.end_of(seen)
        self._tell()

    def drop_refused(self, seen: Seen) -> None:
        """Forget refusals of what is not due any more: others did it, or it was taken back."""
        self.refused = {
            key: message for key, message in self.refused.items() if self._is_due(key, seen)
        }

    def _is_due(self, key: tuple[object, ...], seen: Seen) -> bool:
        match key:
            case ("suspend", str(name)):
                job = seen.jobs.get(name)
                if job is None:
                    return name not in self.absent
                return not (job.suspended or job.finished or job.deleting)
        return any(pod.uid == key[1] for pod in self.living(seen))

    def lose_patience(self, now_ms: int, *, patience_ms: int, linger_ms: int) -> None:
        """Give up a start that waited too long, or what outlives the work for too long."""
        if self.to_suspend:
            return
        if self.lingers:
            if self.lingers_since_ms is None:
                self.lingers_since_ms = now_ms
            self.finished = now_ms - self.lingers_since_ms >= linger_ms
        if self.started or self.doubt is None:
            return
        if self.uncertain_since_ms is None:
            self.uncertain_since_ms = now_ms
        elif now_ms - self.uncertain_since_ms >= patience_ms:
            self.failing = self.doubt

    def _note_steps(self, seen: Seen) -> None:
        if self.steps is None or self.started or len(seen.pods) < seen.workers:
            return
        if PODS_MADE not in self.steps:
            self.steps[PODS_MADE] = Millis(self.now_ms())
        if PODS_BOUND not in self.steps and all(pod.node for pod in seen.pods.values()):
            self.steps[PODS_BOUND] = Millis(self.now_ms())

    def _tell(self) -> None:
        attempt_id = self.attempt.attempt_id
        told: list[Observation] = []
        if self.started:
            steps = tuple((self.steps or {}).items())
            told.append(AttemptStarted(attempt_id=attempt_id, steps=steps))
        if self.signalled:
            told.append(AttemptSignalled(attempt_id=attempt_id))
        if self.ended is not None:
            told.append(self.ended)
        self.told = tuple(told)

    def living(self, seen: Seen) -> list[PodSeen]:
        """Pods that the API still has and that are not over."""
        return [pod for pod in seen.pods.values() if not pod.terminal and pod.uid not in seen.gone]

"""Playing the real core forward in virtual time, on what workloads are known or expected to do.

Nothing here decides: every step is `advance`; this module plays people, nodes and processes. The
same input gives the same record everywhere. All that is due at one instant is one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import ceil

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.actions import (
    SignalAttempt,
    StartAttempt,
    StartServer,
    StopServer,
)
from gpucommons.scheduler.core.model.demand import elastic, placed_milli_gpu
from gpucommons.scheduler.core.model.intents import Action, Intent, Started, Submit
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    CheckpointReported,
    Cluster,
    Observation,
    Outcome,
    ProgressReported,
)
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Checkpoint,
    IntentId,
    Millis,
    Spec,
    State,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.processes import Processes, Vacated
from gpucommons.scheduler.simulation.record import Record, Story, asked_milli_gpu
from gpucommons.scheduler.threads import garbage

_STOPPED = 143  # the exit status of a process that SIGTERM ended
_NOBODY = UserName("simulation")


@dataclass(frozen=True, slots=True)
class _Start:
    attempt_id: AttemptId


@dataclass(frozen=True, slots=True)
class _End:
    attempt_id: AttemptId
    stopped: bool


_Event = Action | Observation | _Start | _End | Node


class Simulation:
    """A cluster whose people, nodes and processes are played."""

    def __init__(  # noqa: PLR0913 - what is played, and by which rules
        self,
        cluster: Cluster,
        *,
        now_ms: Millis,
        conditions: Conditions | None = None,
        left_ms: Mapping[WorkloadId, int | None] | None = None,
        clock_ms: Callable[[], float] = lambda: 0.0,
        speed_permille: Callable[[WorkloadId, int], int] = lambda _, __: 0,
    ) -> None:
        """``left_ms``: work left of live workloads, at the size they asked for; one that is not
        named (or None) runs until it is stopped. ``clock_ms``: what deciding really takes by this
        clock passes in virtual time too. ``speed_permille``: how fast a workload is with so many
        milli-GPU, of 1000 at the size it asked for; 0 = as its share of that.
        """
        self.cluster = cluster
        self.now_ms = now_ms
        self.record = Record()
        self._conditions = conditions or Conditions()
        self._clock_ms = clock_ms
        self._speed_permille = speed_permille
        self._left: dict[WorkloadId, int | None] = dict(left_ms or {})
        self._events: list[tuple[int, int, _Event]] = []
        self._saves: list[tuple[int, int, AttemptId]] = []
        self._order = count()
        self._attempt_ids, self._intent_ids = _ids("sim-attempt"), _ids("sim-intent")
        self._processes: dict[AttemptId, Processes] = {}
        self.vacated = Vacated()
        self._submits: dict[IntentId, WorkloadId] = {}
        self._due_ms: Millis | None = now_ms
        for workload in cluster.workloads.values():
            self._adopt(workload)

    # --- what will happen --------------------------------------------------------------------

    def submit(
        self, at_ms: int, spec: Spec, run_ms: int | None, workload_id: WorkloadId | None = None
    ) -> WorkloadId:
        """Have a workload submitted; it works for ``run_ms`` at the size it asks for."""
        workload_id = workload_id or WorkloadId(f"sim-{next(self._order):09d}")
        self._left[workload_id] = run_ms
        self.at(at_ms, Submit(workload_id=workload_id, spec=spec))
        return workload_id

    def at(self, at_ms: int, event: Action | Observation | Node) -> None:
        """Have something asked for, or reported by a node, or one more node there, at a time."""
        if isinstance(event, Submit):
            self._expect(Millis(at_ms), event)
        self._push(at_ms, event)

    # --- going on ----------------------------------------------------------------------------

    def next_ms(self) -> Millis | None:
        """When the next step is due; None when nothing will ever change again."""
        due = [] if self._due_ms is None else [self._due_ms]
        if self._events:
            due.append(Millis(self._events[0][0]))
        return max(self.now_ms, min(due)) if due else None

    def run(
        self,
        until_ms: int | None = None,
        enough: Callable[[Simulation], bool] = lambda _: False,
    ) -> Record:
        """Go on to a time, to the end, or until somebody has seen enough."""
        while not enough(self):
            due = self.next_ms()
            if due is None or (until_ms is not None and due > until_ms):
                break
            self.step(due)
        return self.record

    def step(self, now_ms: Millis) -> Outcome:
        """One step of the core on everything that has come due by now."""
        self.now_ms = now_ms
        began_ms = self._clock_ms()
        self.vacated.nothing(now_ms)
        intents, observations = self._come_due()
        with garbage.left_for_later():
            outcome = advance(
                self.cluster,
                intents,
                observations,
                now_ms=now_ms,
                new_ids=self._attempt_ids,
                explain=False,
            )
        self.cluster = outcome.cluster
        self._due_ms = outcome.wake_ms
        self.record.cycles += 1
        self._note(outcome)
        self.now_ms = Millis(now_ms + ceil(self._clock_ms() - began_ms))
        started = {
            one.current.attempt_id: one
            for one in outcome.changes.workloads
            if one.current is not None
        }
        for act in outcome.actions:
            match act:
                case StartAttempt():
                    self._start(act.attempt_id, started)
                case SignalAttempt():
                    self._stop(act.attempt_id)
                case StartServer():
                    self._serve(act.workload_id)
                case StopServer():
                    self._close(act.workload_id)
        return outcome

    # --- events ------------------------------------------------------------------------------

    def _come_due(self) -> tuple[list[Intent], list[Observation]]:
        """What is asked for and reported by now."""
        intents: list[Intent] = []
        observations: list[Observation] = []
        while self._events and self._events[0][0] <= self.now_ms:
            at_ms, _, event = heappop(self._events)
            seen = self._happen(Millis(at_ms), event)
            if isinstance(seen, Intent):
                intents.append(seen)
            elif seen is not None:
                observations.append(seen)
        if intents or not _only_starts(observations):
            # Who started frees nothing: such a step is cheap as long as nothing else is told.
            observations[:0] = self._saved()
        return intents, observations

    def _push(self, at_ms: int, event: _Event) -> None:
        heappush(self._events, (at_ms, next(self._order), event))

    def _happen(self, at_ms: Millis, event: _Event) -> Intent | Observation | None:
        if isinstance(event, _Start):
            return self._started(at_ms, event.attempt_id)
        if isinstance(event, _End):
            return self._ended(at_ms, event)
        if isinstance(event, Node):
            more = {**self.cluster.nodes, event.node_id: event}
            self.cluster = replace(self.cluster.apart(), nodes=more)
            return None
        if isinstance(event, Action):
            by, intent_id = _NOBODY, IntentId(next(self._intent_ids))
            if isinstance(event, Submit):
                by, self._submits[intent_id] = event.spec.owner, event.workload_id
                after = self.record.not_over(event.spec.after)
                event = replace(event, spec=replace(event.spec, after=after))
            return Intent(intent_id=intent_id, action=event, by=by, at_ms=at_ms)
        return event

    def _expect(self, at_ms: Millis, event: Submit) -> None:
        spec = event.spec
        self.record.stories[event.workload_id] = Story(
            event.workload_id,
            spec.team,
            asked_milli_gpu(spec),
            at_ms,
            self._left.get(event.workload_id),
        )

    def _started(self, at_ms: Millis, attempt_id: AttemptId) -> Observation | None:
        one = self._processes.get(attempt_id)
        if one is None or one.started_ms is not None:
            return None
        one.started_ms = at_ms
        story = self.record.stories[one.workload_id]
        story.started_ms = at_ms if story.started_ms is None else story.started_ms
        self._plan(one)
        return AttemptStarted(attempt_id=attempt_id)

    def _plan(self, one: Processes) -> None:
        if one.end_ms is not None:
            self._push(one.end_ms, _End(one.attempt_id, stopped=False))
        if one.started_ms is not None:
            every = self._conditions.checkpoint_every_ms
            first = one.started_ms + one.loading_ms + every - one.unsaved_ms % every
            if one.end_ms is None or first < one.end_ms:
                heappush(self._saves, (first, next(self._order), one.attempt_id))

    def _ended(self, at_ms: Millis, event: _End) -> Observation | None:
        one = self._processes.pop(event.attempt_id, None)
        if one is None:
            return None
        self.vacated.left(self.cluster.workloads.get(one.workload_id), at_ms)
        story = self.record.stories[one.workload_id]
        held = one.held_milli_gpu
        story.held_milli_gpu_ms += held * (at_ms - one.since_ms)
        self.record.levels.append((at_ms, story.team, -held))
        if event.stopped:
            every = self._conditions.checkpoint_every_ms
            story.lost_milli_gpu_ms += held * one.lost_ms(at_ms, every)
            self._left[one.workload_id] = one.left_after_stop_ms(at_ms, every)
        if one.started_ms is not None and story.attempts > 1:
            story.lost_milli_gpu_ms += held * min(one.loading_ms, at_ms - one.started_ms)
        return AttemptEnded(attempt_id=event.attempt_id, exit_code=_STOPPED if event.stopped else 0)

    def _saved(self) -> list[Observation]:
        """Checkpoints made since the last step: told along with it, no reason for one of their own."""
        found: list[Observation] = []
        every = self._conditions.checkpoint_every_ms
        while self._saves and self._saves[0][0] <= self.now_ms:
            at_ms, _, attempt_id = heappop(self._saves)
            one = self._processes.get(attempt_id)
            if one is None:
                continue
            at_ms += (self.now_ms - at_ms) // every * every
            heappush(self._saves, (at_ms + every, next(self._order), attempt_id))
            if elastic(self.cluster.workloads[one.workload_id].spec):
                told = one.progress(at_ms, self.record.stories[one.workload_id].run_ms)
                found.extend(
                    ProgressReported(attempt_id=attempt_id, progress=report) for report in told
                )
            checkpoint = Checkpoint(
                attempt_id=attempt_id,
                step=at_ms,
                path="",
                size_bytes=0,
                sha256="",
                at_ms=Millis(at_ms),
            )
            found.append(CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint))
        return found

    # --- acts of the core --------------------------------------------------------------------

    def _begin(self, workload: Workload, attempt: Attempt, at_ms: Millis) -> Processes:
        held = sum(placed_milli_gpu(one) for one in attempt.placements)
        story = self.record.stories[workload.workload_id]
        story.attempts += 1
        one = Processes(
            attempt.attempt_id,
            workload.workload_id,
            held,
            story.milli_gpu,
            at_ms,
            self._left.get(workload.workload_id),
            self._conditions.restart_ms if attempt.number > 1 else 0,
            speed_permille=self._speed_permille(workload.workload_id, held),
        )
        self._processes[attempt.attempt_id] = one
        self.record.levels.append((at_ms, story.team, held))
        return one

    def _start(self, attempt_id: AttemptId, started: Mapping[AttemptId, Workload]) -> None:
        if attempt_id in self._processes:
            return
        workload = started[attempt_id]
        if workload.current is not None:
            at_ms = self.vacated.begun_ms(workload, self.now_ms, self.record.stories)
            self._begin(workload, workload.current, at_ms)
            self._push(at_ms + self._conditions.start_ms, _Start(attempt_id))

    def _stop(self, attempt_id: AttemptId) -> None:
        one = self._processes.get(attempt_id)
        if one is not None and not one.told_to_stop:
            one.told_to_stop = True
            self._push(self.now_ms + self._conditions.leave_ms, _End(attempt_id, stopped=True))

    def _serve(self, workload_id: WorkloadId) -> None:
        workload = self.cluster.workloads[workload_id]
        attempt = workload.current
        if attempt is None or attempt.attempt_id in self._processes:
            return
        one = self._begin(workload, attempt, self.now_ms)
        one.started_ms = Millis(self.now_ms + self._conditions.server_ms)
        story = self.record.stories[workload_id]
        story.started_ms = one.started_ms if story.started_ms is None else story.started_ms
        self._push(one.started_ms, Started(workload_id=workload_id))
        if one.end_ms is not None:
            self._push(one.end_ms, _End(one.attempt_id, stopped=False))

    def _close(self, workload_id: WorkloadId) -> None:
        attempt = self.cluster.workloads[workload_id].current
        if attempt is not None:
            self._stop(attempt.attempt_id)

    # --- beginnings and ends -----------------------------------------------------------------

    def _adopt(self, workload: Workload) -> None:
        """Take over a live workload of the cluster one starts from."""
        if is_final(workload):
            return
        workload_id, attempt = workload.workload_id, workload.current
        self.record.stories[workload_id] = story = Story(
            workload_id,
            workload.spec.team,
            asked_milli_gpu(workload.spec),
            workload.submitted_ms,
            self._left.get(workload_id),
        )
        story.attempts = max(0, len(workload.attempts) - 1)
        began = [one.started_ms for one in workload.attempts if one.started_ms is not None]
        story.started_ms = min(began, default=None)
        if attempt is None or workload.state is State.GRANTED:
            return
        one = self._begin(workload, attempt, self.now_ms)
        one.since_ms = attempt.reserved_ms
        if attempt.started_ms is None and not is_lease(workload):
            self._push(self.now_ms + self._conditions.start_ms, _Start(attempt.attempt_id))
            return
        one.loading_ms, one.started_ms = 0, self.now_ms
        if attempt.started_ms is not None:
            saved = workload.checkpoint
            ours = saved is not None and saved.attempt_id == attempt.attempt_id
            last = saved.at_ms if saved is not None and ours else attempt.started_ms
            one.unsaved_ms = max(0, self.now_ms - last) % self._conditions.checkpoint_every_ms
        if is_lease(workload):
            if one.end_ms is not None:
                self._push(one.end_ms, _End(one.attempt_id, stopped=False))
        else:
            self._plan(one)

    def _note(self, outcome: Outcome) -> None:
        changes = outcome.changes
        for verdict in changes.verdicts:
            submitted = self._submits.pop(verdict.intent_id, None)
            if verdict.error is not None and submitted is not None:
                self.record.stories[submitted].refused = verdict.text
        for workload in changes.workloads:
            if is_final(workload) and workload.workload_id in self.record.stories:
                self.record.stories[workload.workload_id].ended_ms = changes.now_ms
        self.record.note_evictions(changes)


def _ids(prefix: str) -> Iterator[str]:
    return (f"{prefix}-{number:09d}" for number in count(1))


def _only_starts(observations: list[Observation]) -> bool:
    return bool(observations) and all(isinstance(one, AttemptStarted) for one in observations)

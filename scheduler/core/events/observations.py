"""What executors and nodes report, applied: stale and repeated reports change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.elastic.gain import paced
from gpucommons.scheduler.core.events import drill_records, parking
from gpucommons.scheduler.core.events.endings import end_attempt
from gpucommons.scheduler.core.events.nodes import new_and_lost
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.hibernating import kept_image
from gpucommons.scheduler.core.going_on.ways import step_word
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import is_lease, move, move_attempt, with_attempt
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptFinished,
    AttemptStarted,
    CheckpointReported,
    FilesKept,
    MemoryReported,
    NodesObserved,
    Observation,
    ProgressReported,
    SliceCleared,
    TreeReported,
)
from gpucommons.scheduler.core.model.types import REPORTED, Attempt, AttemptState, State, Workload

#: History names one checkpoint in so long: a job may save as often as it likes.
CHECKPOINT_EVENT_MS = 10_000


def observe(cycle: CycleState, observation: Observation) -> None:
    """Apply one report."""
    if isinstance(observation, NodesObserved):
        new_and_lost.observe_nodes(cycle, observation)
        return
    workload = cycle.holder_of(observation.attempt_id)
    attempt = None if workload is None else workload.current
    if workload is None or attempt is None:
        return  # of an attempt that has ended or was never ours: nothing it says is recorded
    applied = _APPLIED.get(type(observation))
    if applied is not None:  # else that SIGTERM was sent: that it was due is committed before
        applied(cycle, workload, attempt, observation)


def _progress(
    cycle: CycleState, workload: Workload, attempt: Attempt, observation: ProgressReported
) -> None:
    if _is_outranked(workload, attempt, observation):
        return
    before, progress = workload.progress, observation.progress
    same = before is not None and before.source == progress.source
    attempt = paced(attempt, progress, same_source=same)
    if observation.loading is not None:
        attempt = evolve(attempt, loading=observation.loading)
    workload = with_attempt(workload, attempt)
    workload = drill_records.heard(cycle, workload, progress.step, progress.source)
    cycle.put(replace(workload, progress=progress))


def _is_outranked(workload: Workload, attempt: Attempt, observation: ProgressReported) -> bool:
    """What was read of an attempt is nothing beside what the attempt itself has told."""
    known = workload.progress
    if known is None or observation.progress.source == REPORTED:
        return False
    return known.source == REPORTED and known.at_ms >= (attempt.started_ms or attempt.reserved_ms)


def _finished(cycle: CycleState, workload: Workload, attempt: Attempt, _: AttemptFinished) -> None:
    if attempt.finished_ms is not None or is_lease(workload):
        return
    told = replace(attempt, finished_ms=cycle.now_ms)
    workload = cycle.put(with_attempt(workload, told))
    cycle.tell("finished", f"{workload.spec.name} says that its work is done.", workload)


def _files_kept(cycle: CycleState, workload: Workload, attempt: Attempt, report: FilesKept) -> None:
    if attempt.files_kept != report.files:
        cycle.put(with_attempt(workload, evolve(attempt, files_kept=report.files)))


def _tree(cycle: CycleState, workload: Workload, attempt: Attempt, report: TreeReported) -> None:
    """The first word counts. Only what was kept can have been woken, whatever the attempt says."""
    if attempt.hibernation is not None or is_lease(workload):
        return
    kept, told = kept_image(workload), report.hibernation
    same = [one.number for one in workload.attempts if kept and one.image == kept[1]]
    if told.woken_from not in same:
        told = replace(told, woken_from=None)
    cycle.put(with_attempt(workload, evolve(attempt, hibernation=told)))


def _memory(cycle: CycleState, workload: Workload, attempt: Attempt, seen: MemoryReported) -> None:
    known = attempt.hibernation
    if known is None or known.hindrance or is_lease(workload):
        return
    rate = seen.save_mib_per_s or known.save_mib_per_s
    told = replace(known, memory_mib=seen.memory_mib, save_mib_per_s=rate)
    if told != known:
        cycle.put(with_attempt(workload, evolve(attempt, hibernation=told)))


def _started(cycle: CycleState, workload: Workload, attempt: Attempt, seen: AttemptStarted) -> None:
    if attempt.started_ms is not None or is_lease(workload):
        return
    if attempt.state is AttemptState.STARTING:
        known = attempt.hibernation or seen.hibernation
        workload = move_attempt(
            workload,
            AttemptState.RUNNING,
            started_ms=cycle.now_ms,
            hibernation=known,
        )
        workload = cycle.put(move(workload, State.RUNNING, cycle.now_ms))
        cycle.tell("started", words.of_start(workload.spec.name, known), workload)
        drill_records.started(cycle, workload)


def _checkpoint(
    cycle: CycleState, workload: Workload, _: Attempt, report: CheckpointReported
) -> None:
    saved = workload.checkpoint
    if saved is not None and saved == report.checkpoint:
        return
    if report.checkpoint.attempt_id != report.attempt_id:
        return
    workload = drill_records.heard(cycle, workload, report.checkpoint.step, REPORTED)
    workload = cycle.put(replace(workload, checkpoint=report.checkpoint))
    # What a stopped attempt had saved last is in the event of its stop.
    spans = [one.at_ms // CHECKPOINT_EVENT_MS for one in (saved, report.checkpoint) if one]
    if len(set(spans)) < len(spans):
        return
    cycle.tell(
        "checkpoint",
        f"{workload.spec.name} saved {step_word(workload)} {report.checkpoint.step}.",
        workload,
        data={"step": report.checkpoint.step, "size_bytes": report.checkpoint.size_bytes},
    )


#: What follows from a report, given the workload and its current attempt, which it is of.
_APPLIED: Mapping[type, Callable[[CycleState, Workload, Attempt, Any], object]] = {
    AttemptStarted: _started,
    AttemptEnded: lambda cycle, workload, _, end: end_attempt(cycle, workload, end),
    AttemptFinished: _finished,
    SliceCleared: lambda cycle, workload, _, __: parking.cleared(cycle, workload),
    ProgressReported: _progress,
    CheckpointReported: _checkpoint,
    FilesKept: _files_kept,
    TreeReported: _tree,
    MemoryReported: _memory,
}

"""The way to go on of a job: the strongest one that its facts prove, never one that is hoped for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpucommons.scheduler.core.model.types import Attempt, Millis, Workload


class Way(StrEnum):
    """How a stopped job goes on, strongest first."""

    #: From its last complete checkpoint.
    CHECKPOINT = "checkpoint"
    #: Its processes are brought back from disk.
    PROCESS_IMAGE = "process_image"
    #: The command starts anew and finds the files that it had changed.
    WORKING_FOLDER = "working_folder"
    #: The command starts anew with nothing but its snapshot.
    START_OVER = "start_over"


@dataclass(frozen=True, kw_only=True, slots=True)
class WayToGoOn:
    """What becomes of a job when it is stopped now, or has been."""

    way: Way
    #: Of the checkpoint, in what the job itself counts (``unit``).
    step: int | None = None
    unit: str = "step"
    #: Why nothing better holds; empty for a checkpoint.
    because: str = ""
    #: Whether files of its own that it finds again could help it after all: not known.
    may_find_files: bool = False
    #: Since when work would have to be done again after a stop now; None where nothing runs. With
    #: files alone it is the most that can be: when the script saved last is not known.
    since_ms: Millis | None = None
    #: So many of its attempts ran without a checkpoint after another one had run.
    began_anew: int = 0


def way_to_go_on(workload: Workload) -> WayToGoOn | None:
    """How it goes on, as far as that is known; None where nothing ran yet and nothing is saved."""
    current = workload.current
    ran = [attempt for attempt in workload.attempts if attempt.started_ms is not None]
    saved = workload.checkpoint
    if saved is None and not ran:
        return None
    began = None if current is None else current.started_ms
    anew = sum(attempt.resumed_from is None for attempt in ran[1:])
    if saved is not None:
        since = began
        if began is not None and current is not None and saved.attempt_id == current.attempt_id:
            since = Millis(max(began, saved.at_ms))
        return WayToGoOn(
            way=Way.CHECKPOINT,
            step=saved.step,
            unit=step_word(workload),
            since_ms=since,
            began_anew=anew,
        )
    kept = any(attempt.files_kept for attempt in ran)
    return WayToGoOn(
        way=Way.WORKING_FOLDER if kept else Way.START_OVER,
        because="it has saved no checkpoint" if kept else _why_nothing_is_kept(ran[-1]),
        may_find_files=not kept and ran[-1].files_kept is None,
        since_ms=began,
        began_anew=anew,
    )


def _why_nothing_is_kept(last: Attempt) -> str:
    if last.files_kept is None:
        return "it has saved no checkpoint"
    return "it has saved no checkpoint and changed no file in its working folder"


def step_word(workload: Workload) -> str:
    """What the job itself counts in: a loop whose metrics say the epoch counts epochs."""
    told = workload.progress
    counts_epochs = told is not None and told.metrics.get("epoch") == told.step
    return "epoch" if counts_epochs else "step"

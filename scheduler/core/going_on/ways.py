"""The way to go on of a job: the strongest one that its facts prove, never one that is hoped for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from gpucommons.scheduler.core.going_on.hibernating import can_be_hibernated, kept_image
from gpucommons.scheduler.core.model.going_on import Drill, ProcessImage
from gpucommons.scheduler.core.model.types import Attempt, Checkpoint, Millis, Workload

#: What checkpoints count where nothing says otherwise.
_STEP = "step"
#: Said of a command that was started anew, found its files, and gave no sign that they helped it.
_NOT_HELPED = "did not go on where it was stopped"
#: A step that comes sooner than in so many quarters of its time was not reached from the start.
_QUARTERS, _OF = 3, 4


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
    unit: str = _STEP
    #: Why nothing better holds, where that is known; empty where it saved anything.
    because: str = ""
    #: Whether files of its own that it finds again could help it after all: not known.
    may_find_files: bool = False
    #: Since when work would have to be done again after a stop now; None where nothing runs. With
    #: files alone it is the most that can be: when the script saved last is not known.
    since_ms: Millis | None = None
    #: What was seen of it with the files that it found again, as a predicate; empty = not known.
    seen: str = ""
    #: So many of its attempts ran without a checkpoint after another one had run.
    began_anew: int = 0
    #: The processes as they lie on disk; None with a process image = they are saved at the stop.
    image: ProcessImage | None = None
    #: Its processes are saved up to so much memory, and how much it has was not seen yet; else None.
    most_mib: int | None = None
    #: Why its processes are not saved now, although they could be when it began; empty = nothing changed.
    not_saved: str = ""
    #: The next weaker way: it is taken where the processes cannot be saved or woken.
    otherwise: WayToGoOn | None = None


def way_to_go_on(
    workload: Workload, hindered: str = "", most_mib: int | None = None
) -> WayToGoOn | None:
    """How it goes on, as far as that is known; None where nothing ran yet and nothing is saved.

    ``hindered``: why its processes are neither saved nor woken, although they could be when it began.
    ``most_mib``: they are saved up to so much memory, and nobody has seen yet how much they have.
    """
    current = workload.current
    ran = [attempt for attempt in workload.attempts if attempt.started_ms is not None]
    saved = workload.checkpoint
    if saved is None and not ran:
        return None
    began = None if current is None else current.started_ms
    anew = sum(_began_anew(attempt) for attempt in ran[1:])
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
    weaker = _without_images(workload, ran, (began, anew), hindered)
    image = kept_image(workload)
    if hindered:
        return weaker
    if image is None and (current is None or not can_be_hibernated(workload, current)):
        return weaker
    return WayToGoOn(
        way=Way.PROCESS_IMAGE,
        since_ms=began,
        began_anew=anew,
        image=None if image is None else image[1],
        most_mib=most_mib,
        otherwise=weaker,
    )


def _began_anew(attempt: Attempt) -> bool:
    woken = attempt.hibernation is not None and attempt.hibernation.woken_from is not None
    return attempt.resumed_from is None and not woken


def _without_images(
    workload: Workload, ran: list[Attempt], times: tuple[Millis | None, int], hindered: str
) -> WayToGoOn:
    began, anew = times
    kept = any(attempt.files_kept for attempt in ran)
    seen = _seen_with_its_files(workload.drill) if kept else ""
    helped = kept and seen != _NOT_HELPED
    return WayToGoOn(
        way=Way.WORKING_FOLDER if helped else Way.START_OVER,
        because="" if helped else _why_nothing_is_kept(ran[-1], hindered, seen),
        not_saved=hindered,
        may_find_files=not kept and ran[-1].files_kept is None,
        seen=seen,
        since_ms=began,
        began_anew=anew,
    )


def _seen_with_its_files(drill: Drill | None) -> str:
    """What its last stop has shown of a command that had its files again.

    A stop after which it starts over is followed, too: until it has gone on, it starts over.
    """
    if drill is None or drill.way not in {Way.WORKING_FOLDER, Way.START_OVER}:
        return ""
    if drill.passed:
        return f"went on after attempt {drill.attempt}"
    step = drill.went_on_step
    if step is None:
        return _NOT_HELPED if drill.way == Way.START_OVER else ""
    if drill.from_files:
        return f"began again at {drill.unit} {step:,} after attempt {drill.attempt}"
    return _NOT_HELPED


def comes_too_soon(took_ms: int, from_start_ms: int) -> bool:
    """What takes so long from the start cannot have been reached from there in this time."""
    return took_ms * _OF < from_start_ms * _QUARTERS


def _why_nothing_is_kept(last: Attempt, hindered: str, seen: str) -> str:
    known = "" if last.hibernation is None else last.hibernation.hindrance
    if last.files_kept is None and not seen:
        return hindered or known
    nothing = ["it has saved no checkpoint", seen or "changed no file in its working folder"]
    if hindered or known:
        nothing.append(hindered or known)
    *first, final = nothing
    return f"{', '.join(first)} and {final}" if first else final


def saved_by(earlier: Workload) -> Checkpoint | None:
    """What this job saved last, as another one takes it over: with the word for what it counts."""
    saved, word = earlier.checkpoint, step_word(earlier)
    return saved if saved is None or word == _STEP else replace(saved, unit=word)


def step_word(workload: Workload) -> str:
    """What the job itself counts in: a loop whose metrics say the epoch counts epochs."""
    told, saved = workload.progress, workload.checkpoint
    if told is None and saved is not None and saved.unit:
        return saved.unit
    counts_epochs = told is not None and told.metrics.get("epoch") == told.step
    return "epoch" if counts_epochs else _STEP

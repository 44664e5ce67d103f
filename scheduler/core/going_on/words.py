"""The way to go on in words: one sentence for each, the same on every screen and in every message."""

from __future__ import annotations

from collections.abc import Sequence

from gpucommons.scheduler.amount_words import size_words
from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn
from gpucommons.scheduler.core.model.going_on import Hibernation, ProcessImage
from gpucommons.scheduler.core.model.types import Attempt

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_MIB = 1 << 20
#: Below so many of a unit, the unit itself; beyond, the next larger one.
_FEW = 120
#: Of ways, without what is known of them.
_WHERE_IT_STOPPED = "goes on where it stopped"
_ANEW = "starts its command anew"
_FINDS_FILES = f"{_ANEW} and finds the files that it wrote"
_TWICE = 2


def goes_on(way: WayToGoOn) -> str:
    """A clause without a subject: ``goes on from step 5,430``."""
    match way.way:
        case Way.CHECKPOINT:
            return f"goes on from {way.unit} {way.step:,}"
        case Way.WORKING_FOLDER:
            return f"{_FINDS_FILES}{_because(way.not_saved)}"
        case Way.START_OVER if way.may_find_files:
            return f"{_FINDS_FILES}, if any are kept{_because(way.because)}"
        case Way.START_OVER:
            return f"starts over{_because(way.because)}"
        case Way.PROCESS_IMAGE:
            return f"{_WHERE_IT_STOPPED}: {_memory(way)}"


def _memory(way: WayToGoOn) -> str:
    """What is kept of its processes, or will be, as far as that is known."""
    if way.image is not None:
        return f"{size_words(way.image.size_bytes)} of its memory is saved"
    if way.otherwise is None:
        return "its memory is saved when it is stopped"
    if way.most_mib is not None:
        most = size_words(way.most_mib * _MIB)
        return (
            f"its memory is saved when it is stopped, unless it is more than {most} or holds what"
            f" cannot be saved; then it {goes_on(way.otherwise)}"
        )
    return f"its memory is saved when it is stopped; if that fails, it {goes_on(way.otherwise)}"


def _because(why: str) -> str:
    return why and f", because {why}"


def _unless(way: WayToGoOn) -> str:
    """It changes files, and they may help it yet: a first stop may have come before its first save."""
    return ", unless its script goes on from files of its own" if way.seen else ""


def with_cost(way: WayToGoOn, now_ms: int) -> str:
    """The same clause, and what a stop now costs: of a job that was just stopped."""
    if way.since_ms is None:
        return goes_on(way)
    spent_ms = max(0, now_ms - way.since_ms)
    work = f"{spent(spent_ms)} of work"
    match way.way:
        case Way.CHECKPOINT if spent_ms >= _SECOND:
            # A script that is told may save once more.
            return f"{goes_on(way)}; at most {work} since then is repeated"
        case Way.START_OVER if not way.may_find_files:
            return f"{goes_on(way)}; {work} is lost{_unless(way)}"
        case Way.WORKING_FOLDER | Way.START_OVER:
            return f"{goes_on(way)}; what it did since it last saved is repeated, {work} at most"
        case Way.PROCESS_IMAGE if way.image is not None:
            return f"{_WHERE_IT_STOPPED}. {saved_words(way.image)}. 0 steps lost"
        case _:
            return goes_on(way)


def is_told(text: str, way: WayToGoOn) -> bool:
    """Whether a text has this way in it already, whatever it says of its cost."""
    match way.way:
        case Way.CHECKPOINT:
            clause = goes_on(way)
        case Way.START_OVER if not way.may_find_files:
            clause = goes_on(way)
        case Way.WORKING_FOLDER | Way.START_OVER:
            clause = _FINDS_FILES
        case Way.PROCESS_IMAGE:
            clause = _WHERE_IT_STOPPED
    return clause in text


def before_start(
    hindrances: Sequence[str], *, files_are_kept: bool, most_mib: int | None = None
) -> str:
    """What a stop would cost a job that has not begun, as far as settings and self-tests tell.

    ``hindrances`` are those of the nodes that it may come to, empty where its memory is saved, on all of
    them up to ``most_mib``, where their speed is known.
    """
    anew = f"it {_FINDS_FILES if files_are_kept else f'{_ANEW} and finds none of its files'}"
    until = "If it is stopped before it saved a checkpoint"
    why = next(filter(None, hindrances), "")
    if why and not all(hindrances):
        return (
            f"{until}: where its memory can be saved, it goes on where it stopped; elsewhere {anew},"
            f" because {why}."
        )
    if why or not hindrances:
        return f"{until}: {anew}{why and f', because {why}'}."
    if most_mib is not None:
        most = size_words(most_mib * _MIB)
        return (
            f"{until}: its memory is saved, unless it is more than {most} or holds what cannot be saved,"
            f" and it goes on where it stopped. Else {anew}."
        )
    return f"{until}: its memory is saved and it goes on where it stopped. If that fails, {anew}."


def of_start(name: str, known: Hibernation | None) -> str:
    """That it runs, and what became of the memory that was saved of it."""
    if known is not None and known.woken_from is not None:
        return f"{name} goes on where attempt {known.woken_from} was stopped."
    if known is not None and known.not_woken:
        return f"{name} runs: its command was started anew. {not_woken(known)}"
    return f"{name} runs."


def of_hibernation(attempt: Attempt) -> str:
    """What became of saving and waking it, as a clause; empty where there is nothing to say."""
    known = attempt.hibernation
    said = []
    if known is not None and known.woken_from is not None:
        said.append(f"woken from attempt {known.woken_from}")
    if known is not None and known.not_woken:
        lost = f"its saved memory could not be woken: {known.not_woken}"
        said.append(lost if attempt.started_ms is None else f"started anew, because {lost}")
    if attempt.image is not None:
        said.append(saved_words(attempt.image))
    return "; ".join(said)


def not_woken(known: Hibernation) -> str:
    """Why it did not go on where it stopped."""
    return f"Its saved memory could not be woken: {known.not_woken}."


def before_a_pause(way: WayToGoOn, now_ms: int) -> str:
    """What a pause now costs, as a sentence."""
    if way.way is Way.START_OVER and not way.may_find_files and way.since_ms is not None:
        lost = spent(max(0, now_ms - way.since_ms))
        because = f" {way.not_saved[:1].upper()}{way.not_saved[1:]}." if way.not_saved else ""
        return f"Starts over when resumed: {lost} of work is lost{_unless(way)}.{because}"
    said = with_cost(way, now_ms)
    return f"{said[:1].upper()}{said[1:]}."


def began_anew(way: WayToGoOn) -> str:
    """How often it began from the start although it had run before; empty where it never did."""
    if not way.began_anew:
        return ""
    times = "once" if way.began_anew == 1 else f"{way.began_anew:,} times"
    if way.began_anew == _TWICE:
        times = "twice"
    if way.seen:
        return f"Its command was started anew {times}; it {way.seen}."
    if way.way is Way.WORKING_FOLDER or way.may_find_files:
        return f"Its command was started anew {times}; whether it went on is not known."
    return f"It has started over {times}."


def saved_words(image: ProcessImage) -> str:
    """What was written and how fast: ``1.4 GiB of memory saved in 3 s``."""
    return f"{size_words(image.size_bytes)} of memory saved in {spent(image.save_ms)}"


def spent(length_ms: int) -> str:
    """Work for people, rounded up so that no loss is made smaller: ``40 s``, ``12 min``, ``3 h``."""
    for unit_ms, name in ((_SECOND, "s"), (_MINUTE, "min")):
        count = -(-length_ms // unit_ms)
        if count < _FEW:
            return f"{count} {name}"
    return f"{-(-length_ms // _HOUR)} h"

"""The way to go on in words: one sentence for each, the same on every screen and in every message."""

from __future__ import annotations

from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
#: Below so many of a unit, the unit itself; beyond, the next larger one.
_FEW = 120
_TWICE = 2


def goes_on(way: WayToGoOn) -> str:
    """A clause without a subject: ``goes on from step 5,430``."""
    match way.way:
        case Way.CHECKPOINT:
            return f"goes on from {way.unit} {way.step:,}"
        case Way.WORKING_FOLDER:
            return "finds its files again and starts the command anew"
        case Way.START_OVER:
            return f"{_starts_over(way)}{_unless(way)}"
        case Way.PROCESS_IMAGE:
            return "goes on where it stopped"


def _starts_over(way: WayToGoOn) -> str:
    return f"starts over, because {way.because}"


def _unless(way: WayToGoOn) -> str:
    return ", unless its script goes on from files of its own" if way.may_find_files else ""


def with_cost(way: WayToGoOn, now_ms: int) -> str:
    """The same clause, and what a stop now costs: of a job that was just stopped."""
    if way.since_ms is None:
        return goes_on(way)
    spent_ms = max(0, now_ms - way.since_ms)
    work = f"{spent(spent_ms)} of work"
    match way.way:
        case Way.CHECKPOINT if spent_ms >= _SECOND:
            return f"{goes_on(way)}; {work} since then is repeated"
        case Way.WORKING_FOLDER:
            return f"{goes_on(way)}; what it did since it last saved is repeated, {work} at most"
        case Way.START_OVER:
            return f"{_starts_over(way)}; {work} is lost{_unless(way)}"
        case _:
            return goes_on(way)


def before_a_pause(way: WayToGoOn, now_ms: int) -> str:
    """What a pause now costs, as a sentence."""
    if way.way is Way.START_OVER and way.since_ms is not None:
        lost = spent(max(0, now_ms - way.since_ms))
        return f"Starts over when resumed: {lost} of work is lost{_unless(way)}."
    said = with_cost(way, now_ms)
    return f"{said[:1].upper()}{said[1:]}."


def began_anew(way: WayToGoOn) -> str:
    """How often it began from the start although it had run before; empty where it never did."""
    if not way.began_anew:
        return ""
    times = "once" if way.began_anew == 1 else f"{way.began_anew:,} times"
    if way.began_anew == _TWICE:
        times = "twice"
    if way.way is Way.WORKING_FOLDER:
        return f"Its command was started anew {times}; whether it went on is not known."
    return f"It has started over {times}."


def spent(length_ms: int) -> str:
    """Work for people, rounded up so that no loss is made smaller: ``40 s``, ``12 min``, ``3 h``."""
    for unit_ms, name in ((_SECOND, "s"), (_MINUTE, "min")):
        count = -(-length_ms // unit_ms)
        if count < _FEW:
            return f"{count} {name}"
    return f"{-(-length_ms // _HOUR)} h"

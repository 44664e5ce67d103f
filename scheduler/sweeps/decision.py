"""What happens next to a sweep: a pure function of its record, its jobs and the time.

Whatever it answers may be carried out in part and asked for again: a trial's values are stored before
its job is submitted, and that under a key made of the sweep and the trial's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.types import Millis, State
from gpucommons.scheduler.sweeps.search_space import all_tried
from gpucommons.scheduler.sweeps.successive_halving import is_held, promotable
from gpucommons.scheduler.sweeps.sweep import OVER, Sweep, Trial, TrialState

#: So many that fail, or tell nothing, before any has told its metric: the rest would as well.
HOPELESS = 3
#: Of a list, so many jobs are submitted at one look.
AT_ONCE = 50
_WAITING = frozenset({State.QUEUED, State.NOMINATED, State.ADMITTED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What to do: by trials' numbers."""

    #: Jobs of trials that are drawn, to be submitted.
    submits: tuple[int, ...] = ()
    #: How many new trials to draw.
    draws: int = 0
    pauses: tuple[int, ...] = ()
    #: May pass their rung; those that are paused are to be resumed.
    promotes: tuple[int, ...] = ()
    resumes: tuple[int, ...] = ()
    cancels: tuple[int, ...] = ()
    #: Why the sweep is over; "" = it goes on.
    ended_text: str = ""


def decide(
    sweep: Sweep,
    trials: Sequence[Trial],
    jobs: Mapping[int, State],
    now_ms: Millis,
    *,
    by_people: frozenset[int] = frozenset(),
) -> Decision:
    """What is next; ``jobs`` are the states of trials' jobs that are not over, by number.

    Those that people have paused (``by_people``) stay so until people resume them.
    """
    ending = _ending(sweep, trials, now_ms)
    if ending:
        return Decision(
            cancels=tuple(one.number for one in trials if one.state not in OVER), ended_text=ending
        )
    drawn = tuple(one.number for one in trials if one.state is TrialState.DRAWN)
    if sweep.given:
        return _of_list(sweep, trials, drawn)
    return _of_search(sweep, trials, jobs, drawn, by_people)


def _of_list(sweep: Sweep, trials: Sequence[Trial], drawn: tuple[int, ...]) -> Decision:
    left_out = frozenset(sweep.left_out)
    live = [one.number for one in trials if one.state not in OVER]
    wanted = [one for one in live if one not in left_out]
    room = max(0, sweep.at_once - len(wanted)) if sweep.at_once else AT_ONCE
    return Decision(
        submits=tuple(one for one in drawn if one not in left_out)[:AT_ONCE],
        draws=0 if drawn else _draws_of_list(sweep, len(trials), left_out, room),
        cancels=tuple(one for one in live if one in left_out),
    )


def _draws_of_list(sweep: Sweep, begun: int, left_out: frozenset[int], room: int) -> int:
    """How many are next: those that are left out are over at once, and take no room."""
    last = min(begun + AT_ONCE, len(sweep.given))
    for number in range(begun + 1, last + 1):
        if number not in left_out:
            if not room:
                return number - 1 - begun
            room -= 1
    return last - begun


def _of_search(
    sweep: Sweep,
    trials: Sequence[Trial],
    jobs: Mapping[int, State],
    drawn: tuple[int, ...],
    by_people: frozenset[int],
) -> Decision:
    passes = promotable(sweep, trials)
    # One that has come to the next rung meanwhile stands there, whatever it may pass.
    able = [one for one in passes if len(one.at_rungs) == one.promoted + 1]
    busy = {number for number, state in jobs.items() if state is not State.PAUSED}
    # It has just come to its rung and is one of the best: it need not stop.
    passing = [one for one in able if one.number in busy]
    going = {one.number for one in passing}
    held = {one.number for one in trials if is_held(one)} - going
    pauses = tuple(sorted(held & {n for n in busy if jobs[n] is not State.PAUSING}))
    waits = sum(1 for number in busy - held if jobs[number] in _WAITING) + len(drawn)
    room = max(0, sweep.max_parallel - len(busy - held))
    begins = min(room, _next_in_line(trials, waits, pauses=len(pauses), runs=len(busy - held)))
    asleep = {n for n, state in jobs.items() if state is State.PAUSED} - by_people
    woken = [one for one in able if one.number in asleep][:begins]
    draws = max(0, min(begins - len(woken), sweep.count - len(trials)))
    # Those that pass without a look at the room, and those whose order to go on was lost.
    resumes = [
        one.number
        for one in trials
        if one.number in asleep and not is_held(one) and one.state not in OVER
    ]
    return Decision(
        submits=drawn,
        draws=draws,
        pauses=pauses,
        promotes=tuple(
            one.number for one in (*(one for one in passes if one not in able), *passing, *woken)
        ),
        resumes=tuple(sorted({*resumes, *(one.number for one in woken)})),
    )


def _next_in_line(trials: Sequence[Trial], waits: int, *, pauses: int, runs: int) -> int:
    """How many may come into line: as many run as get GPUs, so one where none waits, and one for each that
    gives its GPUs up. Before any has told its metric, no values are better than others: so they double.
    """
    nothing_known = not any(one.at_rungs or one.best is not None for one in trials)
    more = 0 if waits else max(1, runs if nothing_known else 1)
    return max(more, pauses - waits)


def _ending(sweep: Sweep, trials: Sequence[Trial], now_ms: Millis) -> str:
    """Why nothing more is begun."""
    budget = sweep.budget
    if sweep.stopped:
        return "It was stopped."
    if budget.until_ms is not None and now_ms >= budget.until_ms:
        return "Its time is over."
    if budget.milli_gpu_s is not None:
        used = sum(one.milli_gpu_s for one in trials)
        if used >= budget.milli_gpu_s:
            return f"Its budget of {budget.milli_gpu_s / 3_600_000:g} GPU-hours is used up."
    if sweep.metric and (why := _hopeless(trials)):
        return why
    if len(trials) < sweep.count or any(_goes_on(one) for one in trials):
        return ""
    return "" if promotable(sweep, trials) else _all_over(sweep, trials)


def _all_over(sweep: Sweep, trials: Sequence[Trial]) -> str:
    if sweep.given:
        return "All its jobs are over."
    return "All of it was tried." if all_tried(sweep, trials) else "All its trials are over."


def _goes_on(trial: Trial) -> bool:
    return trial.state not in OVER and not is_held(trial)


def _hopeless(trials: Sequence[Trial]) -> str:
    failed = [one for one in trials if one.state is TrialState.FAILED]
    if len(failed) < HOPELESS or any(one.best is not None for one in trials):
        return ""
    return f"The first {len(failed)} trials came to nothing: {failed[0].text}"

"""Asynchronous successive halving (Li et al. 2020), where a trial that does not go on keeps what it has.

A trial that comes to a rung goes on at once where it is among the best part of those that have come
there so far; else it pauses and gives its GPU up. Later ones can make it one of the best part: then it
is woken, before anything new is begun. Here is all of it: when a trial has reached a rung, with which
value, and who may pass. One in ``factor`` passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpucommons.scheduler.sweeps.sweep import OVER, Sweep, Trial, TrialState
from gpucommons.scheduler.sweeps.trial_ranking import rank_key


def reached_rungs(sweep: Sweep, trial: Trial, step: int, value: float) -> Trial:
    """The trial after it told ``value`` at ``step``: with its value at each rung that it has reached.

    That is its best value so far; one that is no number (it has diverged) counts as the worst.
    """
    rungs = () if sweep.halving is None else sweep.halving.rungs
    passed = sum(1 for rung in rungs if step >= rung)
    missing = passed - len(trial.at_rungs)
    if missing <= 0:
        return trial
    best = trial.best if math.isfinite(value) and trial.best is not None else value
    return replace(trial, at_rungs=(*trial.at_rungs, *([best] * missing)))


def promotable(sweep: Sweep, trials: Sequence[Trial]) -> list[Trial]:
    """Trials that stand at a rung and may pass it, those at the highest rung first.

    One that ran on while it was being paused may have come to the next rung, too: it passes one after
    the other.
    """
    halving = sweep.halving
    if halving is None:
        return []
    found: list[Trial] = []
    numbered = {one.number: one for one in trials if one.at_rungs}
    for rung in reversed(range(len(halving.rungs))):
        came = [one for one in numbered.values() if len(one.at_rungs) > rung]
        best = sorted([rank_key(sweep, one.at_rungs[rung], one.number) for one in came])
        able = (numbered[number] for _, number in best[: len(came) // halving.factor])
        found += [
            one
            for one in able
            if one.promoted == rung and one.state not in OVER and math.isfinite(one.at_rungs[rung])
        ]
    return found


def is_held(trial: Trial) -> bool:
    """Whether it stands at a rung that it may not pass yet."""
    return trial.state is TrialState.LIVE and len(trial.at_rungs) > trial.promoted

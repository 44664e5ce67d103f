"""Where a trial's values come from: a list, a grid, or Optuna through ask and tell.

Optuna is asked in this process and forgets when it ends; what it drew and what came of it is in our
store, and is told to it anew. Two that draw after a crash may draw differently: only what is stored is
submitted.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.sweeps.grid import MOST, Grid, on_step, points
from gpucommons.scheduler.sweeps.importance import distribution
from gpucommons.scheduler.sweeps.search_space import NO_OPTUNA
from gpucommons.scheduler.sweeps.sweep import (
    OVER,
    Parameter,
    Setting,
    Sweep,
    Trial,
    Values,
    setting,
)

#: What was run already is drawn again so often; then one that nobody ran is looked for. Each draw costs
#: what the model costs: 20 of them took 0.1 s for each of the last trials of a space of a thousand.
_DRAWN_AGAIN = 5
#: Those that are looked for do not come from one corner of the space.
_STRIDE = 7919


class Sampler:
    """Draws for all sweeps that go on."""

    def __init__(self) -> None:
        self._studies: dict[ParentId, _Study] = {}

    def draw(self, sweep: Sweep, trials: Sequence[Trial], count: int) -> list[Trial]:
        """New trials, numbered on from those that there are."""
        first = len(trials) + 1
        if sweep.given:
            values: Iterable[Values] = sweep.given[first - 1 : first - 1 + count]
        elif sweep.sampler == "grid":
            values = islice(Grid(sweep.space).combinations(skipped=first - 1), count)
        else:
            study = self._studies.get(sweep.sweep_id)
            if study is None:
                study = self._studies[sweep.sweep_id] = _Study(sweep)
            study.learn(trials)
            values = [study.draw(first + index) for index in range(count)]
        return [Trial(number=number, values=one) for number, one in enumerate(values, first)]

    def forget(self, keep: Iterable[ParentId]) -> None:
        """Those of sweeps that are over."""
        kept = set(keep)
        self._studies = {one: study for one, study in self._studies.items() if one in kept}


class _Study:
    """What Optuna knows of one sweep."""

    def __init__(self, sweep: Sweep) -> None:
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        seed = int(hashlib.sha256(sweep.sweep_id.encode()).hexdigest()[:8], 16)
        samplers = optuna.samplers
        sampler = (
            samplers.RandomSampler(seed=seed)
            if sweep.sampler == "random"
            else samplers.TPESampler(seed=seed, constant_liar=True)
        )
        self._sweep, self._states = sweep, optuna.trial.TrialState
        self._create = optuna.trial.create_trial
        self._spaces = {one.name: distribution(optuna.distributions, one) for one in sweep.space}
        direction = "maximize" if sweep.maximize else "minimize"
        self._new_study = partial(optuna.create_study, sampler=sampler, direction=direction)
        self._study = self._new_study()
        #: Whose values are told: those that trials had at this rung.
        self._rung = 0
        #: Asked for and not told, by the number of a trial: as Optuna knows it.
        self._open: dict[int, int] = {}
        self._told: set[int] = set()
        #: As they were when they were looked at last: of nearly all of thousands nothing is new.
        self._seen: dict[int, Trial] = {}
        #: Values of so many trials, the first ones: what is drawn stays as it is.
        self._tried: set[Setting] = set()
        self._counted = 0
        #: Drawn since it learned last: they are among the trials of the next look, if they are stored.
        self._drawn: set[Setting] = set()

    def learn(self, trials: Sequence[Trial]) -> None:
        """What came of those that there are."""
        if (rung := _rung_to_learn_from(self._sweep, trials)) != self._rung:
            self._begin_anew(rung, trials)
        for one in trials:
            if one.number not in self._told and self._seen.get(one.number) is not one:
                self._tell(one)
                self._seen[one.number] = one
        if len(trials) < self._counted:  # the last ones were never stored
            self._tried, self._counted = set(), 0
        self._tried.update(setting(one.values) for one in trials[self._counted :])
        self._counted = len(trials)
        self._drawn.clear()

    def draw(self, number: int) -> Values:
        """The values of one more, beside those that it has learned of and those drawn since."""
        asked, values = self._ask()
        for again in range(_DRAWN_AGAIN):
            if self._is_new(values):
                break
            # What was run says nothing new when it runs again.
            self._study.tell(asked, state=self._states.FAIL)
            if again == _DRAWN_AGAIN - 1 and (left := self._untried()):
                self._study.enqueue_trial(dict(left[number * _STRIDE % len(left)]))
            asked, values = self._ask()
        self._open[number] = asked.number
        self._drawn.add(setting(values))
        return values

    def _is_new(self, values: Values) -> bool:
        one = setting(values)
        return one not in self._tried and one not in self._drawn

    def _begin_anew(self, rung: int, trials: Sequence[Trial]) -> None:
        """With what trials had at another rung; of those that run nothing is known yet."""
        self._study, self._rung = self._new_study(), rung
        self._open, self._told, self._seen = {}, set(), {}
        for one in trials:
            if one.state not in OVER and not one.at_rungs:
                self._open[one.number] = self._add(one, self._states.RUNNING)

    def _ask(self) -> tuple[Any, Values]:
        asked = self._study.ask()
        values: dict[str, Any] = {}
        for parameter in self._sweep.space:
            if parameter.applies(values):
                values[parameter.name] = _suggest(asked, parameter)
        return asked, values

    def _untried(self) -> list[Values]:
        """Settings that nobody has run, of a space that can be gone through."""
        if any(points(one) is None for one in self._sweep.space):
            return []
        everything = islice(Grid(self._sweep.space).combinations(), MOST)
        return [one for one in everything if self._is_new(one)]

    def _tell(self, trial: Trial) -> None:
        """What it had at the rung where trials are compared; else how it ended."""
        value = _value(self._sweep, trial, self._rung)
        is_over = trial.state in OVER
        if value is None and not is_over and (not trial.at_rungs or trial.number not in self._open):
            return
        state = self._states.FAIL if value is None else self._states.COMPLETE
        if value is not None or is_over:
            self._told.add(trial.number)
        # One that stands at a rung below may come to this one: it is left out until then.
        mine = self._open.pop(trial.number, None)
        if mine is None:
            self._add(trial, state, value)
        else:
            self._study.tell(mine, value, state=state)

    def _add(self, trial: Trial, state: Any, value: float | None = None) -> int:
        """As a trial that was not asked for; answers with Optuna's number of it."""
        values = {name: one for name, one in trial.values.items() if name in self._spaces}
        spaces = {name: self._spaces[name] for name in values}
        added = self._create(state=state, value=value, params=values, distributions=spaces)
        self._study.add_trial(added)
        return len(self._study.get_trials(deepcopy=False)) - 1


def _rung_to_learn_from(sweep: Sweep, trials: Sequence[Trial]) -> int:
    """The highest rung of which enough is known for a model, as in BOHB (Falkner et al. 2018).

    What is far ahead at the first rung is often what learns fast, not what gets far.
    """
    if sweep.halving is None:
        return 0
    enough = len(sweep.space) + 3
    known = Counter(rung for one in trials for rung in range(len(one.at_rungs)))
    return max((rung for rung, count in known.items() if count >= enough), default=0)


def _value(sweep: Sweep, trial: Trial, rung: int) -> float | None:
    if sweep.halving is None or not trial.at_rungs:
        return trial.best if trial.state in OVER else None
    value = trial.at_rungs[rung] if len(trial.at_rungs) > rung else math.nan
    return value if value == value else None  # noqa: PLR0124 - NaN is not equal to itself


def _suggest(asked: Any, parameter: Parameter) -> Any:
    name = parameter.name
    if parameter.choices:
        return asked.suggest_categorical(name, parameter.choices)
    if parameter.integer:
        step = 1 if parameter.step is None else int(parameter.step)
        low, high = int(parameter.low), int(parameter.high)
        return asked.suggest_int(name, low, high, log=parameter.log, step=step)
    ends = (parameter.low, parameter.high)
    if parameter.step is None:
        return asked.suggest_float(name, *ends, log=parameter.log)
    return on_step(asked.suggest_float(name, *ends, step=parameter.step), parameter)


def _optuna() -> Any:
    try:
        return import_module("optuna")
    except ImportError:
        raise Misconfigured(NO_OPTUNA) from None

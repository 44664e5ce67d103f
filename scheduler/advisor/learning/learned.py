"""Constants of the formula, learnt from runs that were kept; what is left of their error corrects the rest.

The constants are fitted within bounds, held by what is believed of any hardware (`constants.py`), and
by the same rules as the correction (`history.py`): a run counts half after two weeks and nothing in
another environment, and another project speaks with one voice, however many runs it has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpucommons.scheduler.advisor.constants import Constants, looseness, moved
from gpucommons.scheduler.advisor.fitting import Prior, Vector, fit
from gpucommons.scheduler.advisor.history import ABSURD, ENOUGH, Asked, Run, faded
from gpucommons.scheduler.advisor.kinds import Pool
from gpucommons.scheduler.advisor.layout import layouts_of
from gpucommons.scheduler.advisor.learning.training import Training
from gpucommons.scheduler.advisor.signature import network_called
from gpucommons.scheduler.advisor.step import step

#: More runs say little more of ten numbers, and cost an answer's time.
MOST = 150


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """One run that was kept, on the pool as it is known now."""

    training: Training
    pool: Pool
    measured_s: float
    job: str
    project: str
    family: str
    age_s: float = 0.0
    #: Driver and image; runs with another are not counted.
    environment: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What kept runs teach."""

    constants: Constants = field(default_factory=Constants)
    #: The same runs, each beside what these constants say of it.
    runs: tuple[Run, ...] = ()
    #: The constants are these runs'; with few of them they stay as they were.
    fitted: bool = False


def learn(asked: Asked, kept: Sequence[Kept], base: Constants) -> Learned:
    """Constants and runs for whoever asks; the base and none where no run counts."""
    counted = [one for one in kept if _counts(one, asked)]
    if not counted:
        return Learned(constants=base)
    by_base = seconds_of(counted, base)
    measured = np.array([one.measured_s for one in counted])
    sane = np.abs(np.log(measured / by_base)) <= np.log(ABSURD)
    counted = _most([one for one, is_sane in zip(counted, sane, strict=True) if is_sane], asked)
    if not counted:
        return Learned(constants=base)
    weights = _weights(asked, counted)
    fitted = float(np.sum(weights)) >= ENOUGH
    constants = _fitted(counted, weights, base) if fitted else base
    said = seconds_of(counted, constants)
    runs = tuple(_run(one, float(seconds)) for one, seconds in zip(counted, said, strict=True))
    return Learned(constants=constants, runs=runs, fitted=fitted)


def _most(kept: Sequence[Kept], asked: Asked) -> list[Kept]:
    """The newest of the own project, then of each other in turn: no project crowds the others out."""
    if len(kept) <= MOST:
        return list(kept)
    before: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    for index in sorted(range(len(kept)), key=lambda index: kept[index].age_s):
        project = kept[index].project
        turns.append((-1 if project == asked.project else before[project], index))
        before[project] += 1
    # Sorted as it was: of the own project's, and of each turn's, the newest stand first.
    chosen = sorted(index for _, index in sorted(turns, key=lambda one: one[0])[:MOST])
    return [kept[index] for index in chosen]


def seconds_of(kept: Sequence[Kept], known: Constants) -> Vector:
    """Seconds of a step by the formula; runs that differ by their layout alone are computed together."""
    found = np.zeros(len(kept))
    alike: dict[object, list[int]] = defaultdict(list)
    for index, one in enumerate(kept):
        alike[one.training.network, one.training.recipe, id(one.pool)].append(index)
    for indices in alike.values():
        first = kept[indices[0]]
        layouts = layouts_of(*(kept[index].training.layout for index in indices))
        training = first.training
        found[indices] = step(training.network, training.recipe, layouts, first.pool, known).total
    return found


def _weights(asked: Asked, kept: Sequence[Kept]) -> Vector:
    """Of each run by its age; those of another project count as one run together, at most."""
    voices = Counter(one.project for one in kept)
    shares = [1 if one.project == asked.project else voices[one.project] for one in kept]
    return np.array([faded(one.age_s) / share for one, share in zip(kept, shares, strict=True)])


def _fitted(kept: Sequence[Kept], weights: Vector, base: Constants) -> Constants:
    measured = np.array([one.measured_s for one in kept])
    prior = Prior(loose=looseness())
    moves, _ = fit(lambda by: seconds_of(kept, moved(base, by)), measured, weights, prior)
    return moved(base, moves)


def _counts(one: Kept, asked: Asked) -> bool:
    place = one.pool.kind.name == asked.kind and one.environment == asked.environment
    sane = one.measured_s > 0 and one.age_s >= 0
    return place and sane and one.training.layout.gpus <= one.pool.gpus


def _run(one: Kept, formula_s: float) -> Run:
    return Run(
        job=one.job,
        project=one.project,
        family=one.family,
        kind=one.pool.kind.name,
        gpus=one.training.layout.gpus,
        measured_s=one.measured_s,
        formula_s=formula_s,
        age_s=one.age_s,
        environment=one.environment,
        network=network_called(one.training.network),
    )

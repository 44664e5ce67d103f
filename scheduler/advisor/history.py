"""What runs that were kept teach: a correction of the formula, shrunk from near to far.

The ratio of measured to predicted time is believed level by level: this job's own runs, then its
project's, its model family's, its GPU kind's, then the formula (James and Stein's shrinkage with
known variances, Efron and Morris 1975). A network that nobody ran lies as far from those that were
run as they lie from each other, which its range holds as well (the variance of a group that was not
seen in a random effects model, Searle, Casella and McCulloch 1992). Runs count half after two weeks, and not at all where
driver or image are others: what they measured is gone.

What runs report is their scripts' own word. So another project speaks with one voice, however many runs
it has, and the best grade comes of the own project's runs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

#: A run that says more than this of a formula is a mistake: another script, another count of steps.
ABSURD = 3.0
#: Drivers and images change: after so long a run counts half.
HALF_LIFE_S = 14 * 86_400.0
#: No correction goes beyond these factors: a run that says more is a mistake.
_BOUND = np.log(ABSURD)
#: Spread between jobs of a network, networks of a project, projects of a family, families of a kind,
#: kinds (log units), and of one run around its job's typical one.
_SPREADS = {"kind": 0.20, "family": 0.10, "project": 0.08, "network": 0.03, "job": 0.06}
_NOISE = 0.05
#: The same where the formula's constants were fitted to these very runs (`learning`): at this four of
#: five of T9's runs that were held out lie inside (`benchmarks.advisor.coverage`).
_NOISE_FITTED = 0.028
#: Of a level's spread (squared) this part stands between the runs that it was seen by.
_BETWEEN_RUNS = 1 / 12
#: So many like runs of the own project make a grade A.
ENOUGH = 5
#: Beyond so many times the largest scale seen, ranges widen with each doubling.
_FAR, _WIDER = 2.0, 0.12


class Grade(StrEnum):
    """What an answer rests on."""

    #: Like runs, enough of them.
    HISTORY = "A"
    #: Measured links and products, or a few runs.
    PROBE = "B"
    FORMULA = "C"


#: Spread of the formula's error before any run of the hub, by what was measured (log units): at
#: these, four of five published runs lie inside (`benchmarks.advisor.coverage`).
SPREAD = {Grade.PROBE: 0.075, Grade.FORMULA: 0.25}


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run that was kept: where it belongs, what was measured, what the formula says of it."""

    job: str
    project: str
    family: str
    kind: str
    gpus: int
    measured_s: float
    formula_s: float
    age_s: float = 0.0
    #: Driver and image; runs with another are not counted.
    environment: str = ""
    #: Which network, whatever its batch.
    network: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a prediction is wanted for."""

    job: str
    project: str
    family: str
    kind: str
    gpus: int
    environment: str = ""
    network: str = ""
    probed: bool = False
    #: The formula's constants were fitted to the runs.
    fitted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """What to multiply the formula's time by, how sure that is, and what it rests on."""

    factor: float
    spread: float
    grade: Grade
    #: Like runs, each counted by its age; those of another project as one.
    runs: float


_LEVELS = ("kind", "family", "project", "network", "job")


def correction(asked: Asked, runs: Sequence[Run]) -> Correction:
    """The factor that the kept runs bear out; 1 where there are none."""
    usable = [run for run in runs if _counts(run, asked)]
    mean, variance = 0.0, SPREAD[Grade.PROBE if asked.probed else Grade.FORMULA] ** 2
    noise = _NOISE_FITTED if asked.fitted else _NOISE
    for level in _LEVELS:
        like = [run for run in usable if _alike(run, asked, level)]
        if not like:
            break
        mean, variance = _shrunk((mean, variance), level, noise, _voices(asked, like))
    near = [run for run in usable if _alike(run, asked, "family")]
    weight = float(np.sum(_voices(asked, near)[1]))
    own = sum(faded(run.age_s) for run in near if run.project == asked.project)
    if usable and not any(_alike(run, asked, "network") for run in usable):
        variance += _SPREADS["network"] ** 2
    spread = float(np.sqrt(variance + noise**2)) + _beyond(asked, near)
    return Correction(
        factor=float(np.exp(np.clip(mean, -_BOUND, _BOUND))),
        spread=spread,
        grade=_grade(asked, own, usable),
        runs=weight,
    )


def _counts(run: Run, asked: Asked) -> bool:
    sane = run.measured_s > 0 and run.formula_s > 0 and run.age_s >= 0
    return sane and run.environment == asked.environment and run.kind == asked.kind


def _alike(run: Run, asked: Asked, level: str) -> bool:
    depth = _LEVELS.index(level)
    return all(getattr(run, one) == getattr(asked, one) for one in _LEVELS[: depth + 1])


def faded(age_s: float) -> float:
    """What a run of this age counts, beside one of today."""
    return float(0.5 ** (age_s / HALF_LIFE_S))


def _voices(asked: Asked, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Ratios and weights: of each own run, and one of each other project, which weighs a run at most."""
    found: list[tuple[float, float]] = []
    others: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        mine = found if run.project == asked.project else others.setdefault(run.project, [])
        mine.append((float(np.log(run.measured_s / run.formula_s)), faded(run.age_s)))
    for voice in others.values():
        ratios = np.array([ratio for ratio, _ in voice])
        found.append((float(np.median(ratios)), min(1.0, sum(weight for _, weight in voice))))
    return np.array([ratio for ratio, _ in found]), np.array([weight for _, weight in found])


def _shrunk(
    believed: tuple[float, float], level: str, noise: float, seen: tuple[np.ndarray, np.ndarray]
) -> tuple[float, float]:
    """What is believed after a level's runs, from what was believed before."""
    (mean, variance), (ratios, weights) = believed, seen
    spread = _SPREADS[level] ** 2
    typical = float(np.average(_trimmed(ratios), weights=weights))
    of_mean = (noise**2 + spread * _BETWEEN_RUNS) / float(np.sum(weights))
    before = max(variance, spread)
    share = before / (before + of_mean)
    return mean + share * (typical - mean), (1 - share) * before + of_mean * share**2


def _trimmed(ratios: np.ndarray) -> np.ndarray:
    """Strange runs, pulled to where the others are."""
    middle = float(np.median(ratios))
    return np.asarray(np.clip(ratios, middle - 0.3, middle + 0.3))


def _beyond(asked: Asked, near: Sequence[Run]) -> float:
    """How much wider a range is for a scale that nobody has run."""
    largest = max((run.gpus for run in near), default=asked.gpus)
    doublings = np.log2(max(asked.gpus / (_FAR * largest), 1.0))
    return _WIDER * float(doublings + (asked.gpus > _FAR * largest))


def _grade(asked: Asked, own: float, usable: Sequence[Run]) -> Grade:
    if own >= ENOUGH:
        return Grade.HISTORY
    return Grade.PROBE if usable or asked.probed else Grade.FORMULA

"""What a card says of rows that its hub has not run, by what the product learns from all other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.advisor.setting import TENTH, Case
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import Asked, Grade, correction
from gpucommons.scheduler.advisor.learning.learned import Kept, Learned, learn
from gpucommons.scheduler.advisor.learning.learned import seconds_of as seconds_by
from gpucommons.scheduler.advisor.learning.training import Training
from gpucommons.scheduler.advisor.signature import family_of, network_called, signature_of


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a card says of rows that its hub has not run."""

    seconds: np.ndarray
    spread: np.ndarray
    grades: list[Grade]

    def holds(self, measured: np.ndarray) -> np.ndarray:
        """Whether a row's time lies in its range."""
        return np.asarray(np.abs(np.log(measured / self.seconds)) <= TENTH * self.spread)


def held_out(cases: Sequence[Case], groups: Sequence[Sequence[int]]) -> HeldOut:
    """Each group after all other rows of its kind of GPU."""
    kept = [kept_of(case) for case in cases]
    found = HeldOut(np.zeros(len(cases)), np.zeros(len(cases)), [Grade.FORMULA] * len(cases))
    for group in groups:
        others = [one for index, one in enumerate(kept) if index not in set(group)]
        kinds = {kept[index].pool.kind.name: kept[index] for index in group}
        learned = {kind: after(others, first) for kind, first in kinds.items()}
        for index in group:
            said = card(kept[index], learned[kept[index].pool.kind.name])
            found.seconds[index], found.spread[index], found.grades[index] = said
    return found


def after(known: Sequence[Kept], one: Kept) -> Learned:
    """What runs teach a question of this kind."""
    return learn(_asked(one), known, Constants())


def card(one: Kept, learned: Learned) -> tuple[float, float, Grade]:
    """Seconds of a step, how sure they are, and the grade: as a card has them."""
    found = correction(replace(_asked(one), fitted=learned.fitted), learned.runs)
    seconds = float(seconds_by([one], learned.constants)[0]) * found.factor
    return seconds, found.spread, found.grade


def kept_of(case: Case) -> Kept:
    """As a hub keeps a run of its own team."""
    training = Training(network=case.network, recipe=case.recipe, layout=case.layout)
    return Kept(
        training=training,
        pool=case.pool,
        measured_s=case.seconds,
        job=signature_of(case.network, case.recipe),
        project="",
        family=family_of(case.network),
    )


def _asked(one: Kept) -> Asked:
    gpus = one.training.layout.gpus
    kind = one.pool.kind.name
    network = network_called(one.training.network)
    return Asked(job=one.job, project="", family=one.family, kind=kind, gpus=gpus, network=network)

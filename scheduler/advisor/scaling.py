"""How an unknown training scales, from its own few runs: no architecture needed.

The form is that of Qiao et al. 2021 (Pollux, OSDI): computation is affine in the local batch,
communication grows with the number of GPUs, with one pair of numbers inside a node and one between
nodes, joined by a norm. What bandwidth takes of it grows as a ring's, by 2 (K - 1) / K (Patarasuk
and Yuan 2009), and only hops and stragglers by K. All of two nodes' traffic crosses one pair of
ports, that of more nodes several: where single connections are slower than ports, as on TCP in
clouds, two nodes are slower than three. A free fit explodes on few runs, so here it is held by a
prior: what other trainings on this kind of GPU showed, or else weak general beliefs. Beyond twice
the largest scale seen, the answer is declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpucommons.scheduler.advisor.fitting import Prior, fit

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One measured point."""

    gpus: int
    nodes: int
    local_batch: float
    step_s: float
    #: What it counts beside others: old points fade.
    weight: float = 1.0


#: Logarithms of: what a step costs beside its batch, over the batch's own; the same of
#: communication inside a node; between nodes over inside; what each further GPU adds over what the
#: first two cost, inside and between; the norm less 1; more than two nodes over two. Ratios, so that
#: what was seen between nodes tells of the inside, and one size of training of another.
_MIDDLE = np.log(np.array([0.3, 0.15, 3.0, 0.08, 0.05, 1.0, 1.0]))
_LOOSE = np.array([0.8, 0.8, 0.6, 0.6, 0.6, 0.5, 0.5])
#: No training is believed to be further from the usual (log units): what says more is a mistake.
_FARTHEST = 4.0
#: So many nodes have one pair of ports between them.
_PAIR = 2
#: How exactly a step is measured, and how exactly this form holds.
_NOISE = 0.05
#: So many other trainings say what is typical of the links.
_ENOUGH = 2
#: How far a measured order may be wrong.
_SLACK = 1.4


@dataclass(frozen=True, slots=True)
class Believed:
    """What is believed before this training ran: several middles, and how loosely each is held."""

    middles: tuple[Vector, ...]
    loose: Vector


def _general() -> tuple[Vector, ...]:
    """Trainings bound by computation, by fixed costs, by communication, and in between."""
    found = []
    for fixed in (0.1, 1.0, 10.0):
        for wire in (0.05, 1.0):
            middle = _MIDDLE.copy()
            middle[0], middle[1] = np.log(fixed), np.log(wire * (1 + fixed))
            found.append(middle)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Fitted:
    """One hypothesis after it met the runs."""

    logarithms: Vector
    unit_s: float
    weight: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """A fitted training: seconds of a step at any scale near those seen."""

    hypotheses: tuple[Fitted, ...]
    unit_batch: float
    seen: tuple[Seen, ...]

    @property
    def largest_gpus(self) -> int:
        """The largest scale seen."""
        return max(one.gpus for one in self.seen)

    @property
    def best(self) -> Fitted:
        """The hypothesis that meets the runs best."""
        return max(self.hypotheses, key=lambda one: one.weight)

    def step_s(self, gpus: Vector, nodes: Vector, local_batch: Vector) -> Vector:
        """Seconds of one step: the hypotheses' mean, each by how well it met the runs."""
        batch = local_batch / self.unit_batch
        each = [
            one.weight * np.log(one.unit_s * _shares(one.logarithms, gpus, nodes, batch))
            for one in self.hypotheses
        ]
        free = np.asarray(np.exp(np.sum(each, axis=0)))
        low, high = self._bounds(gpus, nodes, local_batch)
        return np.asarray(np.minimum(np.maximum(free, low), np.maximum(low, high)))

    def _bounds(self, gpus: Vector, nodes: Vector, batch: Vector) -> tuple[Vector, Vector]:
        """What seen points rule out: fewer GPUs and nodes do not make a step slower, more do not
        make it faster, and it grows no faster than its batch.
        """
        low, high = np.zeros(len(gpus)), np.full(len(gpus), np.inf)
        for one in self.seen:
            grows = batch / one.local_batch
            smaller = (gpus <= one.gpus) & (nodes <= one.nodes)
            larger = (gpus >= one.gpus) & (nodes >= one.nodes)
            top = one.step_s * np.maximum(1.0, grows) * _SLACK
            floor = one.step_s * np.minimum(1.0, grows) / _SLACK
            high = np.where(smaller, np.minimum(high, top), high)
            low = np.where(larger, np.maximum(low, floor), low)
        return low, high

    def far(self, gpus: int) -> bool:
        """More than twice the largest scale seen."""
        return gpus > 2 * self.largest_gpus


def _shares(logarithms: Vector, gpus: Vector, nodes: Vector, batch: Vector) -> Vector:
    at = np.exp(logarithms)
    compute = at[0] + batch
    more = np.maximum(gpus - 2, 0)
    ring = 2 * (gpus - 1) / np.maximum(gpus, 1)
    inside = at[1] * (ring + at[3] * more)
    between = at[1] * at[2] * (ring + at[4] * more) * np.where(nodes > _PAIR, at[6], 1.0)
    wire = np.where(gpus <= 1, 0.0, np.where(nodes > 1, between, inside))
    power = 1 + at[5]
    most = np.maximum(compute, wire)
    return np.asarray(most * ((compute / most) ** power + (wire / most) ** power) ** (1 / power))


def scaling_of(seen: Sequence[Seen], believed: Believed | None = None) -> Scaling:
    """Fit what was seen, held by what is believed."""
    held = believed or Believed(_general(), _LOOSE)
    batches = np.array([one.local_batch for one in seen], dtype=float)
    unit_batch = float(np.exp(np.mean(np.log(batches))))
    found = [_fitted(seen, unit_batch, middle, held.loose) for middle in held.middles]
    costs = np.array([one.weight for one in found])
    likely = np.exp(-(costs - costs.min()) / 2)
    likely = likely / likely.sum()
    hypotheses = tuple(replace(one, weight=float(w)) for one, w in zip(found, likely, strict=True))
    return Scaling(hypotheses, unit_batch, tuple(seen))


def _fitted(seen: Sequence[Seen], unit_batch: float, middle: Vector, loose: Vector) -> Fitted:
    """One hypothesis, moved by the runs; its weight is its cost for now."""
    gpus = np.array([one.gpus for one in seen], dtype=float)
    nodes = np.array([one.nodes for one in seen], dtype=float)
    batch = np.array([one.local_batch for one in seen], dtype=float) / unit_batch
    seconds = np.array([one.step_s for one in seen], dtype=float)
    unit_s = float(np.exp(np.mean(np.log(seconds / _shares(middle, gpus, nodes, batch)))))

    def predict(moves: Vector) -> Vector:
        return np.asarray(
            unit_s * np.exp(moves[-1]) * _shares(middle + moves[:-1], gpus, nodes, batch)
        )

    prior = Prior(loose=np.append(loose, 1.0), noise=_NOISE, bound=4.0, rounds=40)
    weights = np.array([one.weight for one in seen])
    moves, cost = fit(predict, seconds, weights, prior)
    return Fitted(middle + moves[:-1], unit_s * float(np.exp(moves[-1])), cost)


def believed_from(others: Sequence[Scaling]) -> Believed:
    """What other trainings on the same GPUs showed, beside what is believed in general."""
    if len(others) < _ENOUGH:
        return Believed(_general(), _LOOSE)
    told = np.stack([one.best.logarithms for one in others])
    each = np.clip(told, _MIDDLE - _FARTHEST, _MIDDLE + _FARTHEST)
    # The middle of two is half of each, and one of them may be wrong on purpose: the usual is the third.
    voices = each if len(others) > _ENOUGH else np.vstack([each, _MIDDLE])
    typical = np.median(voices, axis=0)
    # How much slower links between nodes are, and what further GPUs add, the links decide.
    general = []
    for middle in _general():
        mixed = middle.copy()
        mixed[2:] = typical[2:]
        general.append(mixed)
    return Believed((*general, *each), _LOOSE)

"""What is searched: a space and learning curves over it, made up here or fitted to recorded ones (`lcbench`).

There are two made-up shapes, so that what is chosen on one can be looked at on another that nothing was
chosen on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpucommons.scheduler.sweeps.sweep import Parameter, Values

EPOCHS = 27
SPACE = (
    Parameter(name="lr", low=1e-5, high=1.0, log=True),
    Parameter(name="batch", choices=(32, 64, 128, 256)),
    Parameter(name="dropout", low=0.0, high=0.6),
    Parameter(name="depth", low=2, high=12, integer=True),
)
#: Values at the end of each epoch, and the seconds of one.
Curve = Callable[[int, Values], tuple[list[float], float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What the searchers are set; a seed says which one of its kind."""

    name: str
    space: tuple[Parameter, ...]
    epochs: int
    curve: Curve
    #: The last value of a curve alone, where that is less work.
    final: Callable[[int, Values], float] | None = None


def saturating(seed: int, values: Values) -> tuple[list[float], float]:
    """Accuracy after each epoch, and the seconds of one: saturating, with noise; other optima per seed."""
    rng = random.Random(f"{seed}-{sorted(values.items())}")  # noqa: S311 - a simulation
    task = random.Random(seed)  # noqa: S311 - as above
    best_lr, best_drop, best_depth = (
        task.uniform(-4, -2),
        task.uniform(0.1, 0.4),
        task.randint(4, 10),
    )
    lr, batch = math.log10(float(values["lr"])), int(values["batch"])
    off = ((lr - best_lr) / 1.2) ** 2 + ((float(values["dropout"]) - best_drop) / 0.35) ** 2
    off += ((int(values["depth"]) - best_depth) / 6) ** 2 + (math.log2(batch / 128) / 4) ** 2
    final = 0.55 + 0.43 * math.exp(-off) + rng.gauss(0, 0.004)
    speed = 2.0 + 6.0 * math.exp(-((lr + 2) ** 2) / 2) * rng.uniform(0.7, 1.3)
    points = [
        final - (final - 0.1) * math.exp(-epoch * speed / EPOCHS) + rng.gauss(0, 0.004)
        for epoch in range(1, EPOCHS + 1)
    ]
    return points, _epoch_s(values)


def power(seed: int, values: Values) -> tuple[list[float], float]:
    """The same as a power of time, slower and with more noise; with other optima, and other speeds."""
    rng = random.Random(f"power{seed}-{sorted(values.items())}")  # noqa: S311 - a simulation
    task = random.Random(seed * 7 + 1)  # noqa: S311 - as above
    best_lr, best_drop, best_depth = (
        task.uniform(-4.5, -1.5),
        task.uniform(0.05, 0.5),
        task.randint(3, 11),
    )
    best_batch = task.choice((32, 64, 128, 256))
    lr, batch = math.log10(float(values["lr"])), int(values["batch"])
    off = ((lr - best_lr) / 1.5) ** 2 + ((float(values["dropout"]) - best_drop) / 0.4) ** 2
    off += ((int(values["depth"]) - best_depth) / 7) ** 2 + (math.log2(batch / best_batch) / 5) ** 2
    final = 0.3 + 0.6 * math.exp(-off) + rng.gauss(0, 0.006)
    speed = 0.4 + 0.8 * math.exp(-((lr + 2.5) ** 2) / 3) * rng.uniform(0.6, 1.4)
    points = [
        final - (final - 0.05) * (epoch + 0.5) ** -speed + rng.gauss(0, 0.006)
        for epoch in range(1, EPOCHS + 1)
    ]
    return points, _epoch_s(values)


def _epoch_s(values: Values) -> float:
    return 30.0 * (0.5 + int(values["depth"]) / 8) * (256 / int(values["batch"])) ** 0.2


SHAPES = {
    name: Problem(name=name, space=SPACE, epochs=EPOCHS, curve=curve)
    for name, curve in (("saturating", saturating), ("power", power))
}


def threshold(problem: Problem, seed: int) -> float:
    """What one of the best 1 % has at its end."""
    rng = random.Random(seed + 10_000)  # noqa: S311 - a simulation
    final = problem.final or (lambda seed, values: problem.curve(seed, values)[0][-1])
    return sorted(final(seed, drawn(problem.space, rng)) for _ in range(2000))[-20]


def drawn(space: tuple[Parameter, ...], rng: random.Random) -> dict[str, Any]:
    """Values at random, as the space has them."""
    return {one.name: _drawn(one, rng) for one in space}


def _drawn(one: Parameter, rng: random.Random) -> Any:
    if one.choices:
        return rng.choice(one.choices)
    if one.log:
        value = 10 ** rng.uniform(math.log10(one.low), math.log10(one.high))
        return round(value) if one.integer else value
    return (
        rng.randint(int(one.low), int(one.high)) if one.integer else rng.uniform(one.low, one.high)
    )

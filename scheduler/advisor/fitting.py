"""Bounded, regularised least squares: constants move no further than runs bear out.

Levenberg and Marquardt's method with a derivative by differences, on logarithms of times, with
Huber's weights, so that one strange run does not carry all others away. A free fit of few runs can
explode; this one falls back to what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_STEP = 1e-4
_ENOUGH = 1e-6
_STUCK = 1e6
#: Errors beyond so many times the noise count less than by their square.
_HUBER = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """What is believed before any run, and how firmly."""

    #: How loosely each number is held.
    loose: Vector
    #: Error of a single run that is taken for noise.
    noise: float = 0.05
    #: Largest move of any number.
    bound: float = 1.4
    rounds: int = 25


def fit(
    predict: Callable[[Vector], Vector], measured: Vector, weights: Vector, prior: Prior
) -> tuple[Vector, float]:
    """Moves (from 0) at which logarithms of predictions meet those of measurements best; the cost."""
    at = np.zeros(len(prior.loose))
    damping = 1e-2
    cost, error = _cost(predict, measured, weights, prior, at)
    for _ in range(prior.rounds):
        slope = _slope(predict, at, error + np.log(measured))
        robust = weights / np.maximum(1, np.abs(error) / (_HUBER * prior.noise))
        scaled = robust / prior.noise**2
        normal = (slope * scaled[:, None]).T @ slope + np.diag(1 / prior.loose**2)
        downhill = slope.T @ (scaled * error) + at / prior.loose**2
        move = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -downhill)
        tried = np.clip(at + move, -prior.bound, prior.bound)
        new_cost, new_error = _cost(predict, measured, weights, prior, tried)
        if new_cost < cost:
            gained, at, cost, error = cost - new_cost, tried, new_cost, new_error
            damping = max(damping / 5, 1e-8)
            if gained < _ENOUGH * cost:
                break
        else:
            damping *= 5
            if damping > _STUCK:
                break
    return at, cost


def _cost(
    predict: Callable[[Vector], Vector], measured: Vector, weights: Vector, prior: Prior, at: Vector
) -> tuple[float, Vector]:
    error = np.log(predict(at)) - np.log(measured)
    size = np.abs(error) / prior.noise
    huber = np.where(size <= _HUBER, size**2, 2 * _HUBER * size - _HUBER**2)
    return float(np.sum(weights * huber) + np.sum((at / prior.loose) ** 2)), error


def _slope(predict: Callable[[Vector], Vector], at: Vector, here: Vector) -> NDArray[np.float64]:
    columns = []
    for index in range(len(at)):
        beside = np.array(at)
        beside[index] += _STEP
        columns.append((np.log(predict(beside)) - here) / _STEP)
    return np.stack(columns, axis=1)

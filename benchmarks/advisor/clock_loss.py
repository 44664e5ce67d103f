"""How sharp windows of waits are: their pinball loss against quantiles of the hub's own past waits.

The pinball loss of a quantile (Koenker and Bassett 1978) is least, in the mean, at the true one, so
neither windows that are too wide nor such that miss can look good. Below 1 the forecast beats what a
hub could say by looking at its past waits alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpucommons.scheduler.store.estimates import Estimate

#: What a window's beginning, middle and end stand for.
QUANTILES = (0.1, 0.5, 0.9)
#: So many past waits of a class make quantiles of their own; of fewer all classes speak.
_ENOUGH = 8


def pinball(said: Sequence[float], came: float) -> float:
    """Sum over the three quantiles."""
    return sum(
        max(quantile * (came - one), (quantile - 1) * (came - one))
        for quantile, one in zip(QUANTILES, said, strict=True)
    )


def pinball_ratio(
    judged: Sequence[tuple[Estimate, float]],
    known: Sequence[Estimate],
    wait_of: Callable[[Estimate], int],
) -> float | None:
    """Loss of windows ÷ loss of past quantiles, over waits that count as much as is given beside each.

    ``known`` are all waits that were looked at; of them only those that were over when a window was
    made are its past. None where none has a past.
    """
    ours = theirs = 0.0
    for one, count in judged:
        past = _past(one, known)
        if past:
            came = wait_of(one)
            window = one.window
            ours += count * pinball((window.from_ms, window.median_ms, window.to_ms), came)
            theirs += count * pinball(
                np.quantile([wait_of(w) for w in past], QUANTILES).tolist(), came
            )
    return ours / theirs if theirs else None


def _past(one: Estimate, known: Sequence[Estimate]) -> list[Estimate]:
    over = [w for w in known if w.started_ms is not None and w.started_ms <= one.made_ms]
    alike = [w for w in over if w.wait_class == one.wait_class]
    return alike if len(alike) >= _ENOUGH else over

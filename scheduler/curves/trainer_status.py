"""What a trainer posts by itself: the status of Kubeflow's progress protocol, as Transformers speaks it.

A status names a percentage, the time that is left, and metrics as text. The step is among the metrics,
under one of a few names; a trainer that names none is followed by its percentage.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.curves.lines import number
from gpucommons.scheduler.curves.metric_names import tidy
from gpucommons.scheduler.curves.points import MAX_NAMES, Counter, Point, Unit

#: Where it is posted, below the API's address.
TRAINER_STATUS_PATH = "/v1/attempt/trainer-status"
_STEP = ("current_step", "global_step", "step")
_TOTAL = ("total_steps", "max_steps")
_EPOCH = ("current_epoch", "epoch")
_PLACES = frozenset((*_STEP, *_TOTAL, *_EPOCH))
_WHOLE = 100
_MOST = 2**53


def point_of(
    metrics: Mapping[str, str], percent: int | None, before: Counter | None = None
) -> Point | None:
    """How far a trainer is, and its metrics; None where it says neither step nor percentage.

    ``before`` is where it was last: the last status of a run has no step.
    """
    values = {name: value for name, text in metrics.items() if (value := _number(text)) is not None}
    counter = _counter(values, percent, before)
    if counter is None:
        return None
    told = {tidy(name): value for name, value in values.items() if name not in _PLACES}
    told.pop("", None)
    return Point(counter=counter, metrics=dict(list(told.items())[:MAX_NAMES]))


def _counter(
    values: Mapping[str, float], percent: int | None, before: Counter | None
) -> Counter | None:
    step, total = _first(values, _STEP), _first(values, _TOTAL)
    epoch = next((values[name] for name in _EPOCH if name in values), None)
    if step is None and before is not None and before.unit is Unit.STEP:
        done = percent is not None and percent >= _WHOLE
        if done and before.total is None:
            # It is over, and nobody said at which step.
            return None
        step = before.total if done else before.step
        total, epoch = before.total, before.epoch if epoch is None else epoch
    if step is None and total is not None and percent == 0:
        step = 0
    if step is not None:
        fits = total is not None and total >= step
        return Counter(unit=Unit.STEP, step=step, total=total if fits else None, epoch=epoch)
    if percent is None or (before is None and percent >= _WHOLE):
        # The last status names no step: on an axis of steps its percentage would be a false place.
        return None
    return Counter(unit=Unit.PERCENT, step=min(max(percent, 0), _WHOLE), total=_WHOLE, epoch=epoch)


def _first(values: Mapping[str, float], names: tuple[str, ...]) -> int | None:
    found = next((values[name] for name in names if name in values), None)
    return int(found) if found is not None and 0 <= found <= _MOST else None


def _number(text: str) -> float | None:
    try:
        return number(text)
    except (ValueError, OverflowError):
        return None

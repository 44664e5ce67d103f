"""How fast a training is with more or fewer GPUs at the same global batch: as measured, not as fitted."""

from __future__ import annotations

import csv
from bisect import bisect_left
from functools import cache
from itertools import pairwise
from math import ceil, log2
from pathlib import Path

_TABLE = Path(__file__).with_name("step_times.csv")
#: Up to so many GPU hours: two trainings that jobs of that size are taken for, in turn. The classes
#: and what is in them are Pollux's (OSDI 2021, table 1).
_CLASSES = (
    (1, ("cifar10", "ncf")),
    (10, ("deepspeech2", "bert")),
    (100, ("yolov3", "yolov3")),
)
_LARGEST = ("imagenet", "imagenet")

#: By GPUs: local batches in order, with the seconds of a step and of its part that waits for others.
_Times = dict[int, list[tuple[int, float, float]]]


def training_of(gpu_hours: float, number: int) -> str:
    """Which training the job of this number is taken for."""
    kinds = next((found for most, found in _CLASSES if gpu_hours <= most), _LARGEST)
    return kinds[number % 2]


@cache
def speed_permille(training: str, asked: int, gpus: int) -> int:
    """How fast it is on so many GPUs, of 1000 on as many as it asked for.

    There each GPU has the largest batch that it was measured with. The global batch stays: fewer GPUs
    take several micro-steps each, and only the last of them waits for the others.
    """
    times = _table()[training]
    most = max(batch for batch, _, _ in times[1])
    base = _step_s(times, asked, most)
    return max(1, round(1000 * base / _step_s(times, gpus, most * asked / gpus)))


def _step_s(times: _Times, gpus: int, local_batch: float) -> float:
    """Seconds of a step; between numbers of GPUs that were measured, on a line over their logarithm."""
    known = sorted(times)
    gpus = min(gpus, known[-1])
    at = bisect_left(known, gpus)
    if known[at] == gpus:
        return _at(times[gpus], times[1], local_batch)
    low, high = known[at - 1], known[at]
    part = (log2(gpus) - log2(low)) / (log2(high) - log2(low))
    below, above = (_at(times[one], times[1], local_batch) for one in (low, high))
    return below + part * (above - below)


def _at(
    measured: list[tuple[int, float, float]],
    alone: list[tuple[int, float, float]],
    local_batch: float,
) -> float:
    most = max(batch for batch, _, _ in alone)
    micro = max(1, ceil(local_batch / most - 1e-9))
    step, sync = _between(measured, local_batch / micro)
    return micro * step - (micro - 1) * sync


def _between(measured: list[tuple[int, float, float]], batch: float) -> tuple[float, float]:
    """On the line between the nearest batches that were measured; beyond them as the outermost."""
    if batch <= measured[0][0]:
        return measured[0][1:]
    for (low, *below), (high, *above) in pairwise(measured):
        if batch <= high:
            part = (batch - low) / (high - low)
            step, sync = (a + part * (b - a) for a, b in zip(below, above, strict=True))
            return step, sync
    return measured[-1][1:]


@cache
def _table() -> dict[str, _Times]:
    found: dict[str, _Times] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            times = found.setdefault(row["model"], {}).setdefault(int(row["gpus"]), [])
            times.append((int(row["local_batch"]), float(row["step_s"]), float(row["sync_s"])))
    return found

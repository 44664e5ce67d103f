"""T5: how few runs tell how an unknown training scales: Sia's traces of six trainings.

Public data without a licence: read from a checkout, not kept here. Each training on each kind of
cluster is predicted from a few of its own points, drawn at random, and from the other trainings on
that cluster.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.advisor.setting import TENTH, Figure, errors
from gpucommons.scheduler.advisor.choice.advise import spread_after
from gpucommons.scheduler.advisor.learning.scalings import Named, believed_of, few
from gpucommons.scheduler.advisor.scaling import Believed, Scaling, Seen, scaling_of

_CLUSTERS = ("aws", "dgx", "rtx", "quad")
_DRAWS = 6
Key = tuple[str, str]


def figures(folder: Path | None) -> list[Figure]:
    """Median and worst errors after 3, 5 and 10 points, and beyond twice the scale seen."""
    names = (
        "median3_percent",
        "median5_percent",
        "median10_percent",
        "worst5_percent",
        "beyond_ratio",
    )
    root = folder / "sia" / "adaptdl" / "sched" / "traces" if folder else None
    points = _read(root) if root and root.is_dir() else {}
    if not points:
        return [Figure("T5", name, None, 0) for name in names]
    believed = {key: _others(key, points) for key in points}
    found = []
    for count in (3, 5, 10):
        off = [_held_out(seen, believed[key], count) for key, seen in points.items()]
        wrong = [float(np.mean(np.abs(np.expm1(one)))) * 100 for one in off]
        trivial = [_perfect(seen, count) for seen in points.values()]
        n = len(wrong)
        found.append(
            Figure(
                "T5",
                f"median{count}_percent",
                float(np.median(wrong)),
                n,
                float(np.median(trivial)),
                "perfect scaling",
            )
        )
        held = np.abs(np.concatenate(off)) <= TENTH * spread_after(count)
        name = f"points{count}_percent"
        found.append(Figure("coverage", name, 100 * float(np.mean(held)), len(held)))
        if count == 5:
            found.append(
                Figure("T5", "worst5_percent", max(wrong), n, max(trivial), "perfect scaling")
            )
    ratio, n = _beyond(points, believed)
    return [*found, Figure("T5", "beyond_ratio", ratio, n)]


def _read(root: Path) -> dict[Key, list[Seen]]:
    found: dict[Key, list[Seen]] = {}
    for path in sorted(root.glob("*/placements-*.csv")):
        cluster = path.stem.removeprefix("placements-")
        if cluster not in _CLUSTERS:
            continue
        repeats: dict[tuple[int, int, float], list[float]] = defaultdict(list)
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                place = row["placement"].strip()
                gpus = sum(int(one) for one in place)
                repeats[gpus, len(place), float(row["local_bsz"])].append(float(row["step_time"]))
        found[path.parent.name, cluster] = [
            Seen(gpus=gpus, nodes=nodes, local_batch=batch, step_s=float(np.mean(each)))
            for (gpus, nodes, batch), each in repeats.items()
        ]
    return found


def _wrong(scaling: Scaling, seen: Sequence[Seen]) -> float:
    gpus, nodes, batch, seconds = _columns(seen)
    return float(np.mean(errors(scaling.step_s(gpus, nodes, batch), seconds)))


def _columns(seen: Sequence[Seen]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows = np.array([(one.gpus, one.nodes, one.local_batch, one.step_s) for one in seen])
    return rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]


def _others(key: Key, points: dict[Key, list[Seen]]) -> Believed | None:
    """What a hub believes whose cluster ran the other trainings."""
    cluster = {
        Named(project="", name=training): seen
        for (training, where), seen in points.items()
        if where == key[1]
    }
    return believed_of(Named(project="", name=key[0]), cluster)


def _held_out(seen: list[Seen], believed: Believed | None, count: int) -> np.ndarray:
    """Logarithms of predicted over measured, of all draws."""
    random = np.random.default_rng(0)
    wrong = []
    for _ in range(_DRAWS):
        order = random.permutation(len(seen))
        known = [seen[index] for index in order[:count]]
        gpus, nodes, batch, seconds = _columns([seen[index] for index in order[count:]])
        wrong.append(np.log(scaling_of(known, believed).step_s(gpus, nodes, batch) / seconds))
    return np.concatenate(wrong)


def _perfect(seen: list[Seen], count: int) -> float:
    """A step takes what it took at the nearest batch seen, whatever the GPUs."""
    random = np.random.default_rng(0)
    wrong = []
    for _ in range(_DRAWS):
        order = random.permutation(len(seen))
        _, _, known, seconds = _columns([seen[index] for index in order[:count]])
        _, _, batch, measured = _columns([seen[index] for index in order[count:]])
        nearest = np.argmin(np.abs(np.log(batch[:, None] / known[None, :])), axis=1)
        wrong.append(float(np.mean(errors(seconds[nearest] * batch / known[nearest], measured))))
    return float(np.mean(wrong))


def _beyond(
    points: dict[Key, list[Seen]], believed: dict[Key, Believed | None]
) -> tuple[float, int]:
    """From at most a quarter of the GPUs to more than half: error over that of perfect scaling."""
    ours, trivial = [], []
    for key, seen in points.items():
        most = max(one.gpus for one in seen)
        small = [one for one in seen if one.gpus <= most / 4]
        large = [one for one in seen if one.gpus > most / 2]
        alone = {one.local_batch: one.step_s for one in seen if one.gpus == 1}
        large = [one for one in large if one.local_batch in alone]
        if len(small) < 3 or not large:
            continue
        scaling = scaling_of(few(small, 40), believed[key])
        ours.append(_wrong(scaling, large))
        guess = np.array([alone[one.local_batch] for one in large])
        trivial.append(float(np.mean(errors(guess, _columns(large)[3]))))
    return float(np.median(ours) / np.median(trivial)), len(ours)

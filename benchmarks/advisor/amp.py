"""T4: AMP's trials of GPT-2 on 16 T4, ranked by our model. Public data without a licence: not kept here."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.advisor.setting import Case, Figure, gpt, memory_of, pool_of, seconds_of
from gpucommons.scheduler.advisor.choice.pricing import MARGIN, verdict
from gpucommons.scheduler.advisor.choice.question import Verdict
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.history import Grade
from gpucommons.scheduler.advisor.layout import NO_RECOMPUTE, Layout
from gpucommons.scheduler.advisor.recipe import Recipe

_DEGREE = re.compile(r"'(mp|dp|pp)_deg': tensor\(\[(\d+)")
_TRIAL = re.compile(r"\], (\d+), \{.*r_cost: (\S+)")


def figures(folder: Path | None) -> list[Figure]:
    """How good the layouts are that the model would take."""
    names = ("regret1_percent", "regret3_percent", "spearman")
    path = folder / "amp" / "src" / "results" / "homogeneous_results.txt" if folder else None
    if folder is None or path is None or not path.is_file():
        return [Figure("T4", name, None, 0) for name in names]
    trials = _trials(path.read_text(encoding="utf-8"))
    ran = [(case, seconds) for case, seconds in trials if np.isfinite(seconds)]
    measured = np.array([seconds for _, seconds in ran])
    known = _probed(folder / "amp" / "src" / "known_cost")
    said = seconds_of([case for case, _ in ran], known)
    best = measured.min()
    order = np.argsort(said, kind="stable")
    median = (float(np.median(measured)) / best - 1) * 100
    fits = [
        bool(np.isfinite(seconds)) for case, seconds in trials if _verdict(case) is Verdict.FITS
    ]
    wrong_fit = len(fits) - sum(fits)
    wrong_no = sum(_verdict(case) is Verdict.NO for case, _ in ran)
    return [
        Figure(
            "T4", names[0], (measured[order[0]] / best - 1) * 100, len(ran), median, "any layout"
        ),
        Figure(
            "T4",
            names[1],
            (measured[order[:3]].min() / best - 1) * 100,
            len(ran),
            median,
            "any layout",
        ),
        Figure("T4", names[2], _spearman(said, measured), len(ran)),
        Figure("feasibility", "oom_percent", 100 * wrong_fit / max(1, len(fits)), len(fits)),
        Figure("feasibility", "wrong_no_percent", 100 * wrong_no / len(ran), len(ran)),
    ]


def _verdict(case: Case) -> Verdict:
    """What the card says of it where nothing but the formula is known."""
    return verdict(float(memory_of(case).total[0]), case.pool.memory_bytes, MARGIN[Grade.FORMULA])


#: As Megatron of 2021 on PCIe cards: nothing overlaps.
_KNOWN = replace(Constants(), overlap=1.0, overlap_at_end=1.0)


def _probed(folder: Path) -> Constants:
    """Constants after AMP's own probe: forward seconds of each layer on one GPU."""
    alone = float(np.sum(np.load(folder / "gpt2_G4_1.npy")))
    case = replace(
        _case({"dp": 1, "mp": 1, "pp": 1}, 1),
        recipe=Recipe(batch=1, sequence=1024, precision="fp16", flash=False, loss="plain"),
    )
    case = replace(case, layout=Layout())
    factor = float(seconds_of([case], _KNOWN)[0]) / 3 / alone
    return replace(
        _KNOWN,
        products=_KNOWN.products * factor,
        attention=_KNOWN.attention * factor,
        traffic=_KNOWN.traffic * factor,
    )


def _trials(text: str) -> list[tuple[Case, float]]:
    found = []
    for line in text.splitlines():
        trial = _TRIAL.search(line)
        if not line.startswith("rank") and trial:
            degree = {name: int(value) for name, value in _DEGREE.findall(line)}
            found.append((_case(degree, int(trial[1])), float(trial[2])))
    return found


def _case(degree: dict[str, int], micro: int) -> Case:
    data, tensor, pipeline = degree["dp"], degree["mp"], degree["pp"]
    batch = 32
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        micro=micro,
        accumulation=max(1, batch // (data * micro)),
        zero=0,
        # Its script (`examples/ds_pretrain_gpt2_pipe.sh`) asks for no activation checkpointing.
        recompute=NO_RECOMPUTE,
        weighed=1,
    )
    recipe = Recipe(batch=batch, sequence=1024, precision="fp16", flash=False, loss="plain")
    pool = pool_of("T4", 16, "ethernet-50", per_node=4)
    return Case(gpt(24, 1024, 16, 52256), recipe, layout, pool)


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Correlation of ranks; equals share the mean of their ranks."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        return np.asarray((ends - (counts - 1) / 2)[where])

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])

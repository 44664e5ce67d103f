"""Real torch on this machine: six trainings on one process, and what two at the same batch will take.

The machine is a pool of two processors that computes as `gpucommons probe` measures it. *After the pool's
probe* the formula says the rest, as a card does. *After a probe of the training* its step on one
process is known too, at its batch and at half of it, and only communication is predicted.

    python -m benchmarks.advisor --parts torch
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.advisor.setting import Figure
from benchmarks.real_scripts import environment
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import GpuKind, Link, Pool
from gpucommons.scheduler.advisor.layout import Layout, layouts_of
from gpucommons.scheduler.advisor.network import Traced
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.advisor.step import step
from gpucommons.scheduler.cli.plans import probe_program

_PROGRAM = Path(__file__).with_name("torch_program.py")
#: Where the package is found from an environment that it is not installed in.
_OURS = environment.ROOT / "build" / "editable"
_MARK = "gpucommons-torch "
_TRAINING_S, _PROBES = 60.0, 3
#: Of the rounds those count in which others disturbed least.
_QUIET = 1 / 3
#: Where even these waited so long, a step's time is that on processors.
_DISTURBED = 0.1
Measured = Mapping[str, Any]


def figures() -> list[Figure]:
    """How far the ratio of step times is from what was said; None where torch is not there."""
    found = environment.find()
    if found is None:
        sys.stderr.write(f"{environment.HOW_TO_GET}.\n")
        return [Figure("torch", "median_percent", None, 0)]
    known = _probed(found)
    told = _run(found, _PROGRAM, _MARK, str(_TRAINING_S))
    return of_measured(known, told)


def of_measured(known: Mapping[str, float], told: Measured) -> list[Figure]:
    """The figures of what probe and trainings told."""
    waited = float(np.median([_quiet(one["rounds"]["two"])[1] for one in told["models"].values()]))
    column = 2 if waited > _DISTURBED else 0
    by_pool, by_training, trivial = [], [], []
    for name, one in told["models"].items():
        seconds = {kind: _quiet(rounds, column)[0] for kind, rounds in one["rounds"].items()}
        measured = seconds["two"] / seconds["one"]
        alone, both = (_said(one, known, told["copied_bytes_per_s"], count) for count in (1, 2))
        after_probe = (seconds["half"] + both["data links"]) / seconds["probe"]
        by_pool.append(abs(sum(both.values()) / sum(alone.values()) / measured - 1) * 100)
        by_training.append(abs(after_probe / measured - 1) * 100)
        trivial.append(abs(0.5 / measured - 1) * 100)
        sys.stderr.write(f"{name}: measured {measured:.2f}, said {after_probe:.2f}\n")
    n = len(by_pool)
    guess = float(np.median(trivial))
    return [
        Figure(
            "torch", "median_percent", float(np.median(by_training)), n, guess, "perfect scaling"
        ),
        Figure(
            "torch", "pool_probe_percent", float(np.median(by_pool)), n, guess, "perfect scaling"
        ),
        Figure("torch", "waited_percent", 100 * waited, n),
    ]


def _quiet(rounds: Sequence[Sequence[float]], column: int = 0) -> tuple[float, float]:
    """A step's time and the share of it that a processor was waited for, of the quietest rounds."""
    each = np.array(rounds)
    shares = each[:, 1] / each[:, 0]
    calm = np.argsort(shares)[: max(1, round(len(each) * _QUIET))]
    return float(np.median(each[calm, column])), float(np.median(shares[calm]))


def _said(
    one: Measured, known: Mapping[str, float], copied_bytes_per_s: float, processes: int
) -> dict[str, float]:
    """The terms of a step in the formula's words."""
    link = Link(bytes_per_s=known["inside_gb_s"] * 1e9, latency_s=known["inside_us"] * 1e-6)
    kind = GpuKind(
        name="processor",
        memory_bytes=1e10,
        memory_bytes_per_s=copied_bytes_per_s,
        peak={"fp32": known["gemm_tflops"] * 1e12},
        link=link,
    )
    pool = Pool(kind=kind, gpus_per_node=2, nodes=1, inside=link, between=link)
    batch = int(one["batch"])
    recipe = Recipe(batch=batch, precision="fp32", optimizer="sgd", loss="plain")
    layout = Layout(data=processes, micro=batch // processes)
    # Who computes also sends: nothing is hidden.
    constants = replace(
        Constants(), products=1.0, inside=1.0, overlap=1.0, overlap_at_end=1.0, launch_s=1e-6
    )
    terms = step(Traced(**one["network"]), recipe, layouts_of(layout), pool, constants).terms
    return {name: float(values[0]) for name, values in terms.items()}


def _probed(place: Path) -> dict[str, float]:
    """What `gpucommons probe` measures; others only make it slower, so the best of a few."""
    program = Path(str(probe_program.__file__))
    each = [_run(place, program, probe_program.MARK) for _ in range(_PROBES)]
    return {
        name: (min if name.endswith("_us") else max)(one[name] for one in each) for name in each[0]
    }


def _run(place: Path, program: Path, mark: str, *arguments: str) -> Any:
    """What a program on two processes says in its last line."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [place / "bin" / "python", *launch, program, *arguments],
        env=os.environ | {"PYTHONPATH": str(_OURS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(mark)]
    if done.returncode or not said:
        raise RuntimeError(f"{program.name} failed:\n{done.stderr[-2000:]}")
    return json.loads(said[-1].removeprefix(mark))

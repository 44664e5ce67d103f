"""Learning curves of LCBench's 34 data sets, by the model of them that YAHPO Gym publishes.

LCBench (Zimmer, Lindauer, Hutter, 2021) has recorded 2,000 trainings of multilayer perceptrons on each
of them; a search asks for settings that are not among the 2,000, so YAHPO Gym (Pfisterer et al., 2022)
fits a network to all of them: validation accuracy and seconds after each epoch. That network and its
encoding of data sets are read from a folder; ``onnxruntime`` runs it, which is not in our environment.
A seed says which data set: the data sets in turn.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.sweeps.curves import Problem, drawn
from gpucommons.scheduler.sweeps.sweep import Parameter, Values

EPOCHS = 50
SPACE = (
    Parameter(name="batch_size", low=16, high=512, integer=True, log=True),
    Parameter(name="learning_rate", low=1e-4, high=0.1, log=True),
    Parameter(name="momentum", low=0.1, high=0.99),
    Parameter(name="weight_decay", low=1e-5, high=0.1),
    Parameter(name="num_layers", low=1, high=5, integer=True),
    Parameter(name="max_units", low=64, high=1024, integer=True, log=True),
    Parameter(name="max_dropout", low=0.0, high=1.0),
)
#: Its trainings are short. Their seconds are stretched so that an epoch takes this long on average, as
#: in our synthetic curves: else it would be compared who saves and restores least.
EPOCH_S = 40.0
_INPUTS = tuple(one.name for one in SPACE)
_SECONDS, _ACCURACY = 0, 1


class _Model:
    """The published network."""

    def __init__(self, folder: Path) -> None:
        runtime: Any = import_module("onnxruntime")
        self._numpy: Any = import_module("numpy")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = runtime.InferenceSession(str(folder / "model.onnx"), options)
        self._kinds, self._numbers = (one.name for one in self._session.get_inputs())
        codes = json.loads((folder / "encoding.json").read_text(encoding="utf-8"))
        choices = _choices(json.loads((folder / "config_space.json").read_text(encoding="utf-8")))
        self._codes = [codes["OpenML_task_id"][one] for one in choices]
        self._stretch = cache(self._stretch_of)

    def curve(self, seed: int, values: Values) -> tuple[list[float], float]:
        """Validation accuracy after each epoch in percent, and the seconds of one."""
        number = seed % len(self._codes)
        found = self._predicted(number, values, range(1, EPOCHS + 1))
        seconds = max(0.0, float(found[-1][_SECONDS])) / EPOCHS
        return [float(row[_ACCURACY]) for row in found], max(1.0, seconds * self._stretch(number))

    def final(self, seed: int, values: Values) -> float:
        """Validation accuracy after the last epoch."""
        return float(self._last(seed % len(self._codes), values)[_ACCURACY])

    def _last(self, number: int, values: Values) -> Any:
        return self._predicted(number, values, [EPOCHS])[0]

    def _predicted(self, number: int, values: Values, epochs: Sequence[int]) -> Any:
        one = [float(values[name]) for name in _INPUTS]
        numbers = [[float(epoch), *one] for epoch in epochs]
        kinds = [[self._codes[number]]] * len(epochs)
        given = {
            self._kinds: self._numpy.array(kinds, dtype=self._numpy.int32),
            self._numbers: self._numpy.array(numbers, dtype=self._numpy.float32),
        }
        return self._session.run(None, given)[0]

    def _stretch_of(self, number: int) -> float:
        rng = random.Random(number)  # noqa: S311 - a simulation
        ends = [self._last(number, drawn(SPACE, rng))[_SECONDS] for _ in range(300)]
        return EPOCH_S * EPOCHS / statistics.mean(max(0.0, float(one)) for one in ends)


def _choices(config_space: Any) -> list[str]:
    (found,) = (
        one["choices"] for one in config_space["hyperparameters"] if one["name"] == "OpenML_task_id"
    )
    return sorted(found, key=int)


def problem(folder: Path) -> Problem:
    """To be searched; the folder is YAHPO Gym's ``lcbench``."""
    model = _Model(folder)
    return Problem(name="lcbench", space=SPACE, epochs=EPOCHS, curve=model.curve, final=model.final)

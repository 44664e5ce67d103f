"""How long real loaders of torch, Keras and Transformers are waited for, and what is advised for each."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.real_scripts import environment
from gpucommons.scheduler.advisor.data_loading import (
    LoadingAdvice,
    LoadingQuestion,
    advise_loading,
)
from gpucommons.scheduler.data_loading import WORKERS_VARIABLE, Loading
from gpucommons.scheduler.models.jobs.attempts import LoadingReport
from gpucommons.scheduler.training import alone

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

#: Samples are slow by a clock of their own; each training is told where its numbers are to go.
BEGIN = """
import json, os, pathlib, sys, time
os.environ["KERAS_BACKEND"] = "torch"
import torch
torch.set_num_threads(1)
from gpucommons.scheduler import training
run = training.current()
SLOW_S = 0.004

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 240
    def __getitem__(self, i):
        time.sleep(SLOW_S)
        return torch.zeros(4), torch.zeros(1)

def told():
    # What a report would carry, and the scheduler would check.
    pathlib.Path("told.json").write_text(json.dumps(run._loading.report()))
"""
TORCH = """
layer = torch.nn.Linear(4, 1)
for x, y in torch.utils.data.DataLoader(Samples(), batch_size=8):
    torch.nn.functional.mse_loss(layer(x), y).backward()
told()
"""
KERAS = """
import keras, numpy
class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 12
    def __getitem__(self, i):
        time.sleep(8 * SLOW_S)
        return numpy.zeros((8, 4), "float32"), numpy.zeros((8, 1), "float32")
def generated():
    while True:
        yield Batches()[0]
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
# Epochs shorter than the fewest batches that say something.
model.fit(DATA, epochs=3, steps_per_epoch=STEPS, verbose=0)
told()
"""
TRANSFORMERS = """
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 1)
        self.post_init()
    def _init_weights(self, module):
        pass
    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}
class Named(Samples):
    def __getitem__(self, i):
        return dict(zip(("x", "labels"), super().__getitem__(i)))
arguments = TrainingArguments(
    output_dir="out", max_steps=30, report_to="none", use_cpu=True, disable_tqdm=True,
    per_device_train_batch_size=8,
)
Trainer(Model(PretrainedConfig()), arguments, train_dataset=Named()).train()
told()
"""


@pytest.fixture(scope="module")
def python() -> Path:
    found = environment.find()
    if found is None:
        if os.environ.get("REQUIRE_FRAMEWORKS") == "1":
            pytest.fail(environment.HOW_TO_GET)
        pytest.skip(environment.HOW_TO_GET)
    return found / "bin" / "python"


def measured(python: Path, script: str, folder: Path, **more: str) -> Loading:
    """As the scheduler keeps what a script in an environment without ours has told."""
    ours = alone.lay_out(folder / "ours")
    done = subprocess.run(
        [str(python), "-c", BEGIN + script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ours), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return Loading(**LoadingReport.model_validate(told).model_dump())


def keras(data: str, steps: str = "None") -> str:
    return KERAS.replace("DATA", data).replace("STEPS", steps)


def advised(loading: Loading) -> LoadingAdvice:
    return advise_loading(LoadingQuestion(loading=loading, cpu_milli=64_000, memory_mib=1024))


def kinds(advice: LoadingAdvice) -> list[str]:
    return [hint.kind for hint in advice.hints]


def test_torchs_loader_is_waited_for_and_gets_workers(python: Path, tmp_path: Path) -> None:
    found = measured(python, TORCH, tmp_path)
    assert (found.workers, found.batch_samples, found.samples) == (0, 8, 240)
    # Eight samples of 4 ms each: no machine is faster than they sleep.
    assert 32_000 <= found.wait_us <= found.batch_us
    assert (advised(found).workers or 0) >= 1


def test_a_trainers_batch_is_known_though_its_loader_does_not_say_it(
    python: Path, tmp_path: Path
) -> None:
    found = measured(python, TRANSFORMERS, tmp_path)
    assert (found.workers, found.batch_samples, found.sample_bytes) == (0, 8, 20)
    assert 32_000 <= found.wait_us <= found.batch_us
    assert "cache" in kinds(advised(found))


def test_a_dataset_of_keras_is_told_its_own_workers_whatever_was_chosen_for_torchs(
    python: Path, tmp_path: Path
) -> None:
    found = measured(python, keras("Batches()"), tmp_path, **{WORKERS_VARIABLE: "2"})
    assert (found.made_by, found.workers, found.stream) == ("keras_dataset", 0, False)
    assert 32_000 <= found.wait_us <= found.batch_us
    assert found.batches == 3 * 11
    advice = advised(found)
    assert (advice.workers, advice.hints[0].kind) == (None, "keras_dataset")


def test_workers_that_a_dataset_of_keras_has_are_counted(python: Path, tmp_path: Path) -> None:
    found = measured(python, keras("Batches(workers=3)"), tmp_path)
    assert (found.made_by, found.workers) == ("keras_dataset", 3)


def test_a_generator_and_arrays_given_to_keras_get_no_workers_of_torch(
    python: Path, tmp_path: Path
) -> None:
    found = measured(python, keras("generated()", "12"), tmp_path, **{WORKERS_VARIABLE: "2"})
    assert (found.made_by, found.workers) == ("keras", None)
    assert (advised(found).workers, kinds(advised(found))) == (None, ["keras"])
    arrays = "numpy.zeros((96, 4)), numpy.zeros((96, 1)), batch_size=8"
    found = measured(python, keras(arrays), tmp_path, **{WORKERS_VARIABLE: "2"})
    assert (found.made_by, found.workers, found.batch_samples) == ("keras", None, 8)


def test_a_loader_of_torch_given_to_keras_stays_the_scripts_own(
    python: Path, tmp_path: Path
) -> None:
    own = "torch.utils.data.DataLoader(Samples(), batch_size=8)"
    found = measured(python, keras(own), tmp_path)
    assert (found.made_by, found.workers, found.batch_samples) == ("", 0, 8)
    assert (advised(found).workers or 0) >= 1

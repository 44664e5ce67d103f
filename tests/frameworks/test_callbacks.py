"""One line in a script of each library: it is stopped in the middle and goes on to the same end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.real_scripts import environment
from gpucommons.scheduler.training import alone

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

#: Outside the scheduler a run lies in the current folder; a notice there stops it at its third save.
BEGIN = """
import json, os, pathlib
os.environ["KERAS_BACKEND"] = "torch"
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
from gpucommons.scheduler import training
reports = []
training.current().report = lambda step, total_steps=None, **metrics: (
    reports.append([step, total_steps, "loss" in metrics or "train_loss" in metrics]),
    pathlib.Path("notice.json").touch() if step == int(os.environ["STOPS_AT"]) else None,
    pathlib.Path("reports.json").write_text(json.dumps(reports)),
)
x = torch.rand(64, 4, generator=torch.Generator().manual_seed(1))
y = x.sum(dim=1, keepdim=True)
"""
KERAS = """
import keras
from gpucommons.scheduler.training.callbacks.keras import Follow
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
model.fit(x.numpy(), y.numpy(), epochs=6, shuffle=False, verbose=0, callbacks=[Follow()])
print("final", float(model.get_weights()[0].sum()))
"""
LIGHTNING = """
import lightning
from gpucommons.scheduler.training.callbacks.lightning import Follow
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
model = Model()
trainer = lightning.Trainer(
    max_epochs=6, accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[Follow()]
)
trainer.fit(model, loader)
print("final", model.layer.weight.sum().item())
"""
TRANSFORMERS = """
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from gpucommons.scheduler.training.callbacks.transformers import follow
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
data = [{"x": a, "labels": b} for a, b in zip(x, y)]
arguments = TrainingArguments(
    output_dir="out", max_steps=30, logging_steps=5, save_steps=10, report_to="none", use_cpu=True,
    per_device_train_batch_size=8, disable_tqdm=True, learning_rate=0.01,
)
trainer = Trainer(Model(PretrainedConfig()), arguments, train_dataset=data)
follow(trainer)
trainer.train()
print("final", trainer.model.layer.weight.sum().item())
"""
#: Script, the step whose report brings the notice, the step that is saved then, and the last one.
SCRIPTS = {
    "keras": (KERAS, 3, 3, 6),
    "lightning": (LIGHTNING, 3, 3, 6),
    "transformers": (TRANSFORMERS, 15, 20, 30),
}


@pytest.fixture(scope="module")
def python() -> Path:
    found = environment.find()
    if found is None:
        if os.environ.get("REQUIRE_FRAMEWORKS") == "1":
            pytest.fail(environment.HOW_TO_GET)
        pytest.skip(environment.HOW_TO_GET)
    return found / "bin" / "python"


def run(python: Path, script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Of an environment that has nothing of ours, as a job runs it."""
    ours = alone.lay_out(folder.parent / "ours")
    folder.mkdir(exist_ok=True)
    known = {
        "GPUCOMMONS_NOTICE_FILE": str(folder / "notice.json"), "STOPS_AT": "0",
        "GPUCOMMONS_ATTEMPT_DIR": str(folder / "attempt"), "PYTHONPATH": str(ours),
    }  # fmt: skip
    return subprocess.run(
        [str(python), "-c", BEGIN + script],
        cwd=folder,
        env={**os.environ, **known, **more},
        capture_output=True,
        text=True,
        check=False,
    )


def final(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr[-3000:]
    return next(line for line in done.stdout.splitlines() if line.startswith("final"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_leaves_at_a_stop_and_goes_on_in_another_folder_to_the_same_end(
    python: Path, name: str, tmp_path: Path
) -> None:
    script, stop, saved, end = SCRIPTS[name]
    stopped = run(python, script, tmp_path / "first", STOPS_AT=str(stop))
    assert stopped.returncode == 143, stopped.stderr[-3000:]
    assert "final" not in stopped.stdout
    checkpoint = tmp_path / "first" / "attempt" / "checkpoints" / f"step-{saved}"
    # All that goes with it is what was handed in.
    resumed = run(python, script, tmp_path / "second", GPUCOMMONS_RESUME_DIR=str(checkpoint))
    assert final(resumed) == final(run(python, script, tmp_path / "whole"))
    reports = json.loads((tmp_path / "second" / "reports.json").read_text())
    assert reports[0][0] > saved
    assert reports[-1][:2] == [end, end]
    assert any(has_loss for _, _, has_loss in reports)


#: As a job is told that lost half of its workers, or has twice as many: the same samples make a step.
OTHER_SIZES = {
    "lightning": ("batch_size=16", "batch_size=8", {"GPUCOMMONS_ACCUMULATION": "2"}),
    "transformers": (
        "batch_size=8",
        "batch_size=16",
        {"GPUCOMMONS_ACCUMULATION": "2", "GPUCOMMONS_BATCH_SCALE": "0.25"},
    ),
}


@pytest.mark.parametrize("name", OTHER_SIZES)
def test_the_global_batch_stays_where_the_number_of_workers_changed(
    python: Path, name: str, tmp_path: Path
) -> None:
    script, (whole, part, told) = SCRIPTS[name][0], OTHER_SIZES[name]
    other = script.replace(whole, part)
    assert other != script
    whole_end, part_end = (
        float(final(run(python, one, tmp_path / name, **more)).split()[1])
        for name, one, more in (("as-submitted", script, {}), ("other-size", other, told))
    )
    assert part_end == pytest.approx(whole_end, rel=1e-4)

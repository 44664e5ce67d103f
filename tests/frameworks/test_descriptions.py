"""What a trace of real torch modules counts, without their weights, and what it does not touch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.real_scripts import environment

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SCRIPT = """
import dataclasses, json, time
import torch
from torch import nn
from gpucommons.scheduler.advisor.descriptors.traced import from_module

class Endless(nn.Module):
    def forward(self, x):
        while True:
            time.sleep(0.01)

class Failing(nn.Module):
    def forward(self, x):
        raise ValueError("no such thing")

class Leaving(nn.Module):
    def forward(self, x):
        raise SystemExit(3)

class Speechless(Exception):
    def __str__(self):
        raise RuntimeError

class Silent(nn.Module):
    def forward(self, x):
        raise Speechless

class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(64, 1000)
    def forward(self, x):
        return self.out(self.layers(self.words(x)))

picture = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(21632, 10))
norm = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
found = {
    "picture": from_module(picture, torch.zeros(1, 1, 28, 28), limit_s=300.0),
    "language": from_module(Language(), torch.zeros(1, 32, dtype=torch.long), limit_s=300.0),
    "norm": from_module(norm, torch.zeros(2, 3, 4, 4), limit_s=300.0),
    "endless": from_module(Endless(), torch.zeros(1), limit_s=0.3),
    "leaving": from_module(Leaving(), torch.zeros(1), limit_s=300.0),
    "silent": from_module(Silent(), torch.zeros(1), limit_s=300.0),
    "failing": from_module(Failing(), torch.zeros(1), limit_s=300.0),
}
answer = {name: dataclasses.asdict(one) for name, one in found.items()}
answer["untouched"] = [int(norm[1].num_batches_tracked), str(picture[0].weight.device)]
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def traced() -> dict[str, Any]:
    found = environment.find()
    if found is None:
        if os.environ.get("REQUIRE_FRAMEWORKS") == "1":
            pytest.fail(environment.HOW_TO_GET)
        pytest.skip(environment.HOW_TO_GET)
    known = os.environ | {"PYTHONPATH": str(ROOT / "build" / "editable")}
    command = [str(found / "bin" / "python"), "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=known, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_flops_and_parameters_are_those_of_the_layers(traced: dict[str, Any]) -> None:
    picture, language = traced["picture"], traced["language"]
    assert picture["parameters"] == 320 + 216330
    assert picture["forward_flops"] == 2 * (32 * 9 * 26 * 26 + 216320)
    assert picture["largest_layer_parameters"] == 216330
    products = 32 * 2 * (2 * (4 * 64 * 64 + 2 * 64 * 256) + 64 * 1000)
    scores = 2 * 2 * 2 * 32 * 32 * 64
    assert language["forward_flops"] == products + scores
    assert language["activation_bytes"] > 32 * 64 * 4 * 2


def test_the_module_stays_as_it_was(traced: dict[str, Any]) -> None:
    assert traced["norm"]["parameters"] == 18
    assert traced["untouched"] == [0, "cpu"]


def test_what_does_not_end_or_fails_is_unknown(traced: dict[str, Any]) -> None:
    assert traced["endless"]["why"] == "The trace did not end within 0.3 s."
    assert traced["leaving"]["why"] == "The trace failed (SystemExit: 3)."
    assert traced["silent"]["why"] == "The trace failed (Speechless)."
    assert traced["failing"]["why"] == "The trace failed (ValueError: no such thing)."

"""`gpucommons probe` beside a service that runs: a job of real torch measures, and plans reckon with what is kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks.own_scheduler import own_scheduler

from benchmarks.real_scripts import environment
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import SchedulerClient, calls

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

CONFIG = """
pools: [{name: train, gpu_kind: A100-40, hibernation: "off"}]
teams:
- {name: vision, members: [ann], quotas: {train: {guaranteed_milli_gpu: 2000}}}
"""
LINE = (
    r"train \(A100-40\): products (?P<products>\S+) TFLOP/s; inside a node (?P<inside>\S+) GB/s,"
    r" (?P<hop>\S+) µs; between nodes not measured"
)
MODEL = ("--layers", "12", "--hidden", "768", "--heads", "12", "--vocabulary", "50000")
TRAINING = ("--batch", "64", "--sequence", "512", "--steps", "1000", "--team", "vision")
#: As an A100 of 40 GB measures itself, on the driver that simulated cards name.
SANE = {
    "gpu_kind": "A100-40",
    "gemm_tflops": 230.0,
    "inside_gb_s": 220.0,
    "inside_us": 8.0,
    "drivers": ["simulated"],
}


@pytest.fixture(scope="module")
def torch() -> Path:
    found = environment.find()
    if found is None:
        if os.environ.get("REQUIRE_FRAMEWORKS") == "1":
            pytest.fail(environment.HOW_TO_GET)
        pytest.skip(environment.HOW_TO_GET)
    return found


@pytest.fixture(scope="module")
def environ(torch: Path) -> Iterator[dict[str, str]]:
    # A socket's path has 108 characters at most.
    with (
        tempfile.TemporaryDirectory(prefix="gc") as folder,
        own_scheduler(Path(folder), CONFIG, gpus=2) as found,
    ):
        yield found


def cli(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = str(Path(sys.executable).with_name("gpucommons"))
    return subprocess.run(
        [command, *words], env=environ, capture_output=True, text=True, timeout=400, check=False
    )


def keep(environ: dict[str, str], measured: dict[str, Any]) -> None:
    """By the REST API, as `gpucommons probe` does it."""
    url, token = find(Namespace(url=None, state=None), environ)
    with SchedulerClient(url, token=token) as scheduler:
        (pool,) = scheduler.send(calls.get_config()).pools
        found = models.MeasuredModel.model_validate(measured)
        changed = pool.model_copy(update={"measured": found})
        scheduler.send(calls.put_config(models.ConfigModel(pools=[changed])))


def notes(environ: dict[str, str]) -> str:
    told = cli(environ, "advise", *MODEL, *TRAINING, "--output", "json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert answer["plans"]
    return " ".join(answer["notes"])


def test_two_processes_measure_the_machine_and_what_is_kept_changes_plans(
    environ: dict[str, str], torch: Path
) -> None:
    found = cli(environ, "probe", "train", "--team", "vision", "--env", str(torch))

    assert found.returncode == 0, found.stdout + found.stderr
    measured = re.search(LINE, found.stdout)
    assert measured is not None, found.stdout
    products, inside, hop = (float(number) for number in measured.groups())
    assert min(products, inside, hop) > 0
    # What a processor measured is of no GPU: it is shown, and nobody's plans reckon with it.
    assert "Not kept: the GPUs of train are simulated" in found.stdout
    assert "measured" not in notes(environ)
    submitted = re.search(r"^(\S+) submitted", found.stderr, re.MULTILINE)
    assert submitted is not None, found.stderr
    again = cli(environ, "probe", "train", "--job", submitted[1])
    assert again.stdout.splitlines()[-2:] == found.stdout.splitlines()[-2:], again.stderr

    now_ms = time.time_ns() // 1_000_000
    lied = {**SANE, "at_ms": now_ms, "gemm_tflops": products, "inside_gb_s": inside}
    keep(environ, lied)
    assert "TFLOP/s cannot be of A100-40" in notes(environ)
    keep(environ, {**SANE, "at_ms": now_ms - 31 * 86_400_000})
    assert "measured more than 30 days ago" in notes(environ)
    keep(environ, {**SANE, "at_ms": now_ms, "drivers": ["550.54.15"]})
    assert "had driver 550.54.15 then" in notes(environ)
    keep(environ, {**SANE, "at_ms": now_ms})
    day = time.strftime("%Y-%m-%d", time.gmtime(now_ms / 1000))
    assert f"GPUs and links of train as measured on {day}" in notes(environ)


def test_an_environment_without_torch_says_what_is_missing(environ: dict[str, str]) -> None:
    found = cli(environ, "probe", "train", "--team", "vision", "--env", sys.prefix)

    assert found.returncode != 0
    assert "The launcher torchrun needs torch" in found.stderr

"""`gpucommons probe` against a service that runs: a real job of real torch measures, and its answer is read."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from frameworks.own_scheduler import own_scheduler

from benchmarks.real_scripts import environment

TORCH = environment.find()
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.timeout(400),
    pytest.mark.skipif(TORCH is None, reason=environment.HOW_TO_GET),
]

CONFIG = """
pools: [{name: train, gpu_kind: A100-40, hibernation: "off"}]
teams:
- {name: vision, members: [ann], quotas: {train: {guaranteed_milli_gpu: 2000}}}
"""
LINE = (
    r"train \(A100-40\): products (?P<products>\S+) TFLOP/s; inside a node (?P<inside>\S+) GB/s,"
    r" (?P<hop>\S+) µs; between nodes not measured"
)


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    # A socket's path has 108 characters at most.
    with (
        tempfile.TemporaryDirectory(prefix="gc") as folder,
        own_scheduler(Path(folder), CONFIG, gpus=2) as found,
    ):
        yield found


def cli(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = str(Path(sys.executable).with_name("gpucommons"))
    return subprocess.run(
        [command, *words], env=environ, capture_output=True, text=True, timeout=300, check=False
    )


def test_two_processes_measure_their_machine_and_its_link_and_on_simulated_gpus_nothing_is_kept(
    environ: dict[str, str],
) -> None:
    found = cli(environ, "probe", "train", "--team", "vision", "--env", str(TORCH))

    assert found.returncode == 0, found.stdout + found.stderr
    measured = re.search(LINE, found.stdout)
    assert measured is not None, found.stdout + found.stderr
    assert all(float(number) > 0 for number in measured.groups())
    assert "Not kept: the GPUs of train are simulated" in found.stdout
    kept = cli(environ, "config", "--output", "json")
    assert '"gemm_tflops"' not in kept.stdout
    again = cli(environ, "probe", "train", "--job", "probe-1")
    assert again.stdout.splitlines()[-2:] == found.stdout.splitlines()[-2:]


def test_an_environment_without_torch_says_what_is_missing(environ: dict[str, str]) -> None:
    found = cli(environ, "probe", "train", "--team", "vision", "--env", sys.prefix)

    assert found.returncode != 0
    assert "No module named 'torch'" in found.stdout + found.stderr

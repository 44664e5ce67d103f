"""Scripts that save in their own folder and look for it when they start: preempted once, they go on by that."""

from __future__ import annotations

import os

import pytest

from benchmarks.real_scripts import catalogue
from benchmarks.real_scripts.play import Stage
from gpucommons.gpu.hibernation.criu import find_criu

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

SCRIPTS = {script.name: script for script in catalogue.SHORT}
#: The others of the catalogue are played by ``python -m benchmarks.real_scripts``.
GO_ON = ("slurm-style", "ddp", "torchrun", "lightning", "transformers")


@pytest.mark.parametrize("name", GO_ON)
def test_a_script_that_finds_its_own_files_repeats_at_most_what_it_had_not_saved(
    played_on: Stage, name: str
) -> None:
    played = played_on.play(SCRIPTS[name])

    assert (played.runs, played.attempts, played.resumes) == (True, 2, True), played
    assert played.steps_repeated == 0, played
    assert played.files_back, played
    assert played.curve_points > 0, played


@pytest.mark.criu
def test_workers_of_a_data_loader_are_saved_and_go_on_with_its_next_batch(played_on: Stage) -> None:
    if find_criu(os.environ) is None:
        pytest.skip("no CRIU 4.2 or newer (make setup-hibernation)")
    played = played_on.play(SCRIPTS["data-loader"])

    assert (played.runs, played.attempts, played.resumes) == (True, 2, True), played
    assert (played.steps_repeated, played.files_back) == (0, True), played

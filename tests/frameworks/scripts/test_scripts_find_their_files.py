"""Scripts that save in their own folder and look for it when they start: preempted once, they go on by that."""

from __future__ import annotations

import pytest

from benchmarks.real_scripts import catalogue
from benchmarks.real_scripts.play import Stage

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]

SCRIPTS = {script.name: script for script in catalogue.ours()}
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

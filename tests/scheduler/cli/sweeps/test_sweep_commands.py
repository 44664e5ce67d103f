"""Sweeps from a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli, WatchedWorld

from gpucommons.scheduler.background_tasks.sweeps import Sweeps

FILE = """
name: digits-sweep
run: train.py
space: {lr: {low: 0.1, high: 0.2}}
objective: {metric: accuracy, direction: maximize}
budget: {trials: 3}
sampler: random
early_stopping: {first_step: 1, last_step: 9, factor: 3}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('accuracy 0.5')\n")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "one.pt").write_text("")
    path = tmp_path / "sweep.yaml"
    path.write_text(FILE)
    return path


def test_who_is_in_no_team_names_the_one_that_pays_as_the_refusal_says(
    cli: Cli, file: Path
) -> None:
    refused = cli("sweep", "submit", str(file), by="root")
    assert refused.code == 2
    assert (
        "name the one that pays (team; --team on the command line, --account of sbatch)"
        in refused.err
    )
    made = cli("sweep", "submit", str(file), "--team", "nlp", by="root")
    assert made.code == 0, made.err
    assert (
        cli("sweep", "show", "digits-sweep-1", by="root")
        .out.splitlines()[1]
        .startswith("  team nlp · ")
    )


def test_what_stays_behind_is_named(cli: Cli, file: Path) -> None:
    said = cli("sweep", "submit", str(file)).err
    takes, left_out = said.splitlines()[:2]
    assert takes.startswith("takes along: 2 files of ")
    assert left_out == "left out: checkpoints is named checkpoints"


def test_trials_are_called_as_they_are_counted(cli: Cli, world: WatchedWorld, file: Path) -> None:
    assert cli("sweep", "submit", str(file)).code == 0
    upkeep = Sweeps(world.service, epoch=lambda: world.epoch)
    for _ in range(4):
        upkeep.step()
        world.pass_time(1000)
    head, *_, row, _third = cli("sweep", "show", "digits-sweep-1").out.splitlines()
    assert head.endswith("trials: 3 running")
    assert row.split() == ["2", "running", "digits-sweep-1-2"]

    made = cli("schedule", "repeat", "digits-sweep-1-2", "--schedule", "@daily")
    assert made.out.startswith("digits-sweep  @daily"), "not by the name of its sweep"
    assert cli("again", "digits-sweep-1-2", "--output", "json").json["name"] == "digits-sweep-2"

    assert cli("sweep", "stop", "digits-sweep-1").code == 0
    for _ in range(3):
        upkeep.step()
        world.pass_time(20_000)
    head, *_ = cli("sweep", "show", "digits-sweep-1").out.splitlines()
    assert head.endswith("3 of 3 trials: 3 ended with it")


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ("{x: {low: 0, high: 1}}", "draws x: whole numbers 0 to 1"),
        ("{x: {low: 0.0, high: 1}}", "draws x: 0 to 1"),
        ("{x: {low: 0, high: 1, type: float}}", "draws x: 0 to 1"),
        ("{x: {low: 1, high: 9, step: 2, type: int}}", "draws x: whole numbers 1 to 9, step 2"),
        ("{x: {low: 0.0001, high: 0.1, log: true}}", "draws x: 0.0001 to 0.1, log"),
        ("{x: [a, 2, true]}", "draws x: a, 2, True"),
    ],
)
def test_what_is_drawn_is_said_at_submit(cli: Cli, file: Path, space: str, says: str) -> None:
    file.write_text(FILE.replace("{lr: {low: 0.1, high: 0.2}}", space))
    made = cli("sweep", "submit", str(file))
    assert made.err.splitlines()[-1] == says


@pytest.mark.parametrize("one", ["{low: 0, high: 0.5, type: int}", "{choices: [1], type: int}"])
def test_whole_numbers_of_what_has_none_are_refused(cli: Cli, file: Path, one: str) -> None:
    file.write_text(FILE.replace("{low: 0.1, high: 0.2}", one))
    assert cli("sweep", "submit", str(file)).code == 2

"""A name alone finds one's own, else what one may see of others: jobs, sweeps, schedules and pipelines alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli, WatchedWorld

STEPS = "name: assembly\nsteps:\n  clean: {run: train.py}\n"
SPACE = "run: train.py\nspace: {lr: [0.1, 0.2]}\nobjective: {metric: loss}\nbudget: {trials: 2}\nname: search\n"


@pytest.fixture
def made(cli: Cli, script: Path, world: WatchedWorld) -> Path:
    (script.parent / "pipeline.yaml").write_text(STEPS)
    (script.parent / "sweep.yaml").write_text(SPACE)
    of_alf(cli, script)
    return script


def of_alf(cli: Cli, script: Path, by: str = "alf") -> None:
    schedule = ("submit", str(script), "--name", "nightly", "--schedule", "@daily")
    assert cli(*schedule, by=by).code == 0
    assert cli("pipeline", "run", str(script.parent / "pipeline.yaml"), by=by).code == 0
    assert cli("sweep", "submit", str(script.parent / "sweep.yaml"), by=by).code == 0
    assert cli("submit", str(script), by=by).code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "train-1"), "train-1"),
        (("sweep", "show", "search-1"), "search-1"),
        (("schedule", "show", "nightly"), "nightly  @daily"),
        (("pipeline", "show", "assembly-1"), "assembly-1  running"),
    ],
)
def test_a_name_alone_finds_what_is_in_the_team_and_nothing_of_others(
    cli: Cli, made: Path, words: tuple[str, ...], says: str
) -> None:
    found = cli(*words)
    assert (found.code, says in found.out) == (0, True), found.err
    assert cli(*words, by="bob").code == 4


def test_ones_own_comes_first_and_of_several_others_one_is_to_be_named(
    cli: Cli, made: Path
) -> None:
    of_alf(cli, made, by="ada")
    for command, name in (("schedule", "nightly"), ("pipeline", "assembly-1")):
        found = cli(command, "show", name)
        assert found.code == 2
        assert all(f"{owner}/{name}" in found.err for owner in ("ada", "alf"))
        named = cli(command, "show", f"alf/{name}", "--output", "json").json
        assert named["owner"] == "alf"
    of_alf(cli, made, by="ann")
    assert "by ann" in cli("schedule", "show", "nightly").out
    assert cli("pipeline", "show", "assembly-1", "--output", "json").json["owner"] == "ann"


def test_what_is_steered_by_its_name_alone_is_still_its_owners_or_a_leads(
    cli: Cli, made: Path
) -> None:
    refused = cli("schedule", "suspend", "nightly")
    assert (refused.code, "only its owner, a lead of vision" in refused.err) == (5, True)
    assert "no more runs start" in cli("schedule", "suspend", "nightly", by="ada").out
    assert "is being cancelled" in cli("pipeline", "cancel", "assembly-1", by="ada").out

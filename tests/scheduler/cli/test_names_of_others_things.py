"""A name alone finds one's own, else what one may see of others: jobs, sweeps, schedules and pipelines alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld

from gpucommons.scheduler.client import pipeline_calls

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


@pytest.mark.parametrize(
    ("words", "has"),
    [
        (("schedule", "remove", "nightly"), "no schedule nightly"),
        (("schedule", "suspend", "nightly"), "no schedule nightly"),
        (("schedule", "resume", "nightly"), "no schedule nightly"),
        (("schedule", "run", "nightly"), "no schedule nightly"),
        (("schedule", "promote", "nightly", "nightly-1"), "no schedule nightly"),
        (("schedule", "metric", "nightly", "accuracy", "1"), "no schedule nightly"),
        (("pipeline", "cancel", "assembly-1"), "no pipeline assembly-1"),
        (("pipeline", "retry", "assembly-1"), "no pipeline assembly-1"),
    ],
)
def test_a_name_alone_never_changes_what_another_has(
    cli: Cli, made: Path, words: tuple[str, ...], has: str
) -> None:
    refused = cli(*words, by="ada")
    assert refused.code == 4
    assert f"You have {has}. Somebody else has: write alf/{words[2]}." in refused.err
    assert "suspended" not in cli("schedule", "show", "nightly").out
    assert "running" in cli("pipeline", "show", "assembly-1").out
    of_alf(cli, made, by="ann")
    several = cli(*words, by="ada").err
    assert all(f"{owner}/{words[2]}" in several for owner in ("alf", "ann"))


def test_what_a_lead_changes_of_another_is_answered_with_its_owner(cli: Cli, made: Path) -> None:
    refused = cli("schedule", "suspend", "alf/nightly")
    assert (refused.code, "only its owner, a lead of vision" in refused.err) == (5, True)
    steered = {
        ("schedule", "suspend", "alf/nightly"): "alf/nightly suspended",
        ("schedule", "resume", "alf/nightly"): "alf/nightly goes on",
        ("schedule", "remove", "alf/nightly"): "alf/nightly removed",
        ("pipeline", "cancel", "alf/assembly-1"): "alf/assembly-1 is being cancelled",
    }
    for words, says in steered.items():
        assert says in cli(*words, by="ada").out
    assert cli("pipeline", "run", str(made.parent / "pipeline.yaml"), by="alf").code == 0
    step = cli("pipeline", "cancel", "alf/assembly-2", "--step", "clean", by="ada").out
    assert "clean of alf/assembly-2 is being cancelled" in step
    assert cli("schedule", "remove", "nightly").code == 4


def test_ones_own_is_found_behind_more_of_that_name_than_a_page_holds(
    cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_alf(cli, made, by="ada")
    whole = pipeline_calls.pipelines

    def newest(cursor: str | None = None, *, name: str | None = None) -> Any:
        asked = whole(cursor, name=name)
        return replace(asked, query={**asked.query, "limit": "1"})

    monkeypatch.setattr(pipeline_calls, "pipelines", newest)
    seen = cli("pipeline", "show", "assembly-1", "--output", "json", by="alf")
    assert seen.json["owner"] == "alf"
    ended = cli("pipeline", "cancel", "assembly-1", by="alf")
    assert ended.out == "assembly-1 is being cancelled\n"

"""Pipelines from a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld

from gpucommons.scheduler import models
from gpucommons.scheduler.background_tasks.pipelines import Pipelines
from gpucommons.scheduler.cli.pipelines.commands import describe
from gpucommons.scheduler.executors.fake import Script

FILE = """
name: nightly
steps:
  clean: {run: clean.py}
  train:
    run: train.py
    roles: [{milli_gpu: 500}]
    after: clean
    each: {SEED: [1, 2]}
  report:
    run: clean.py
    after: {train: any}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("clean.py", "train.py"):
        (tmp_path / name).write_text("print('epoch 1')\n")
    (tmp_path / "pipeline.yaml").write_text(FILE)
    return tmp_path


def look(world: WatchedWorld, times: int = 1) -> None:
    upkeep = Pipelines(world.service, epoch=lambda: world.epoch)
    for _ in range(times):
        upkeep.step()
        world.pass_time(2000)


def test_a_file_becomes_jobs_that_wait_for_each_other(
    cli: Cli, world: WatchedWorld, folder: Path
) -> None:
    world.script = Script(run_ms=1000, exit_code=1)
    made = cli("pipeline", "run", str(folder / "pipeline.yaml"))
    assert made.code == 0, made.err
    assert made.out.splitlines()[:2] == [
        "nightly-1  running · 0 of 4 steps done · team vision",
        "  clean    waiting    CPU only: python -u clean.py",
    ]
    look(world, 4)
    shown = cli("pipeline", "show", "nightly-1").out
    assert (
        "train-2  blocked    ½ GPU: python -u train.py · after clean · Needs clean, which failed."
        in shown
    )
    assert "retry from clean: gpucommons pipeline retry nightly-1" in shown
    header, row = cli("pipeline", "list").out.splitlines()
    assert header.split() == ["NAME", "OWNER", "TEAM", "STATE", "STEPS", "DONE", "SUBMITTED"]
    assert row.split()[:3] == ["nightly-1", "ann", "vision"]
    assert "  failed at clean  0 of 4  " in row
    world.script = Script(run_ms=1000)
    assert "nightly-1 begins anew" in cli("pipeline", "retry", "nightly-1").out
    look(world, 8)
    assert cli("pipeline", "show", "ann/nightly-1", "--output", "json").json["state"] == "succeeded"
    over = cli("pipeline", "cancel", "nightly-1", "--step", "train-1")
    assert (over.code, "train-1 is over" in over.err) == (1, True)
    gone = cli("pipeline", "show", "nightly-9")
    assert (gone.code, "no pipeline 'nightly-9' of ann" in gone.err) == (4, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steps: []", "steps must be a mapping of names"),
        ("steps: {a: 5}", "step a must be a mapping"),
        ("steps: {a: {run: no.py}}", "no.py"),
        ("steps: {a: {run: clean.py, gpus: 1}}", "step a: line 2, gpus"),
        ("steps: {a: {run: clean.py, after: 5}}", "after must be names of steps"),
        ("steps: {a: {run: clean.py, after: {b: later}}}", "'ok', 'any' or 'failed'"),
        ("steps: {a: {run: clean.py, inputs: [/x]}}", "write STEP/PATH"),
        ("steps: {a: {run: clean.py, inputs: [b/../../x]}}", "inputs"),
        ("steps: {a: {run: clean.py, each: {S: 1}}}", "lists of values"),
        ("steps: {a: {run: clean.py, after: a}}", "these wait for each other: a → a"),
    ],
)
def test_what_is_no_pipeline_is_refused(cli: Cli, folder: Path, text: str, says: str) -> None:
    (folder / "pipeline.yaml").write_text(f"name: nightly\n{text}\n")
    refused = cli("pipeline", "run", str(folder / "pipeline.yaml"))
    assert refused.code in (1, 2)
    assert says in refused.err
    assert cli("pipeline", "list", "--output", "json").json["pipelines"] == []


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"state": "waiting"}, "waiting"),
        ({"state": "submitted"}, "in line"),
        ({"state": "submitted", "job_state": "nominated"}, "in line"),
        ({"state": "submitted", "job_state": "queued", "started_ms": 1}, "stopped, in line"),
        ({"state": "submitted", "job_state": "pausing"}, "stopping"),
        ({"state": "submitted", "job_state": "preempting"}, "stopping"),
        ({"state": "succeeded"}, "finished"),
        ({"state": "blocked"}, "blocked"),
    ],
)
def test_a_step_is_called_what_its_page_calls_it(step: dict[str, Any], says: str) -> None:
    named = {"name": "clean", "what": "train.py", "job_name": "assembly-clean-1", **step}
    line = describe(a_view(named, state="running")).splitlines()[1]
    assert line.split("clean", 1)[1].split("  assembly")[0].strip() == says


@pytest.mark.parametrize(
    ("pipeline", "says"),
    [
        ({"state": "succeeded"}, "finished"),
        ({"state": "failed", "retry_from": "clean"}, "failed at clean"),
        ({"state": "cancelled"}, "cancelled"),
    ],
)
def test_a_pipeline_is_called_what_its_page_calls_it(pipeline: dict[str, Any], says: str) -> None:
    said = describe(a_view({"name": "clean", "what": "train.py", "state": "failed"}, **pipeline))
    assert said.startswith(f"assembly-1  {says} · ")


def a_view(step: dict[str, Any], **pipeline: Any) -> models.PipelineView:
    fields = {
        "name": "assembly-1",
        "owner": "ann",
        "team": "vision",
        "submitted_ms": 0,
        "mine": True,
    }
    return models.PipelineView.model_validate({**fields, "steps": [step], **pipeline})


@pytest.mark.parametrize(("mine", "head"), [(True, "weekly  "), (False, "ann/weekly  ")])
def test_another_users_pipeline_is_headed_as_commands_take_it(mine: bool, head: str) -> None:
    step = {"name": "clean", "what": "train.py", "state": "running"}
    view = a_view(step, state="running", name="weekly", mine=mine)
    assert describe(view).startswith(head)

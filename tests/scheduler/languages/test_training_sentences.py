"""What is said of schedules, pipelines and sweeps is known in every language of the pages."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from gpucommons.scheduler.core.model.types import Millis, State, TeamName, UserName, WorkloadId
from gpucommons.scheduler.languages.answers import told_in
from gpucommons.scheduler.languages.sentences import phrase, translated
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.metric_spelling import untold
from gpucommons.scheduler.pipelines.next_steps import Child, decide
from gpucommons.scheduler.pipelines.pipeline import (
    Needs,
    Piped,
    Pipeline,
    PipelineId,
    Step,
    StepName,
)
from gpucommons.scheduler.schedules import due_runs, promoting
from gpucommons.scheduler.schedules.promoting import Model
from gpucommons.scheduler.schedules.schedule import Promote, Promoted, Standing
from gpucommons.scheduler.sweeps import decision, importance, trial_progress

NIGHTLY_1 = WorkloadId("j-1")


def unknown(said: Iterable[str]) -> list[str]:
    texts = sorted(set(said) - {""})
    assert len(texts) > 1
    with spoken("de"):
        return [text for text in texts if (translated(text) or phrase(text)) == text]


def test_why_a_step_does_not_run() -> None:
    said = {
        stands.text
        for needs, *states in itertools.product(Needs, *[[None, *State]] * 2)
        for stands in decide(
            _two_before(needs), _children(*states), Millis(0)
        ).standing.steps.values()
    }
    assert unknown(said) == []


def _two_before(needs: Needs) -> Piped:
    names = [StepName("clean"), StepName("vit")]
    before = tuple(Step(name=name, request="") for name in names)
    last = Step(name=StepName("assembly"), request="", after=dict.fromkeys(names, needs))
    behind = Step(name=StepName("report"), request="", after={last.name: Needs.OK})
    made = Pipeline(
        pipeline_id=PipelineId("p-1"),
        name="nightly-1",
        owner=UserName("ada"),
        team=TeamName("vision"),
        submitted_ms=Millis(0),
        steps=(*before, last, behind),
    )
    return Piped(pipeline=made)


def _children(*states: State | None) -> dict[StepName, Child]:
    names = ("clean", "vit")
    return {
        StepName(name): Child(job=WorkloadId(name), name=name, state=state)
        for name, state in zip(names, states, strict=True)
        if state is not None
    }


def test_why_a_time_did_not_become_a_run() -> None:
    fixed = [due_runs._NOT_RUNNING, due_runs._STILL_ON, due_runs._SUSPENDED, due_runs._TOGETHER]
    late = [
        due_runs._too_late(Standing(), 3600, Millis(0), Millis(now)) for now in (5_000, 9_000_000)
    ]
    assert unknown([*fixed, due_runs._STORM, *late]) == []


def test_why_a_model_is_promoted_or_not() -> None:
    values: list[tuple[float | None, str]] = [(97, ""), (99, ""), (None, ""), (None, "failed")]
    before = Promoted(
        job=NIGHTLY_1, job_name="nightly-1", value=98, at_ms=Millis(0), why="", metric="accuracy"
    )
    said = [
        promoting._verdict(
            Promote(metric="accuracy", maximize=True, by_hand=by_hand),
            Model(job=NIGHTLY_1, name="nightly-2", value=value, failed=failed),
            last,
        )[1]
        for (value, failed), by_hand, last in itertools.product(
            values, (True, False), (None, before)
        )
    ]
    assert unknown(said) == []


def test_why_a_script_has_no_value() -> None:
    said = [untold("accuracy", told) for told in ((), ("loss",), ("accuracy",))]
    assert unknown([*said, *(text.rstrip(".") for text in said)]) == []


@pytest.mark.parametrize(
    "function",
    [
        decision._ending,
        decision._hopeless,
        trial_progress.over,
        trial_progress.not_yet,
        importance.importance_of,
    ],
)
def test_what_a_sweep_or_a_trial_says(function: Callable[..., Any]) -> None:
    assert unknown([*_sentences_in(function), "It was stopped."]) == []


def _sentences_in(function: Callable[..., Any]) -> Iterator[str]:
    """All that stands in it and begins like a sentence; ``x`` for what comes in."""
    tree = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    inside = {
        part for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values
    }
    for node in itertools.chain.from_iterable(map(ast.walk, tree.body[1:])):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values
            )
        elif isinstance(node, ast.Constant) and node not in inside:
            text = str(node.value)
        if " " in text and text[0].isupper():
            yield text


def test_a_view_is_told_in_its_readers_language_and_what_runs_stays_as_it_was_written() -> None:
    view = {
        "what": "CPU only: python -u train.py --note 'It failed.'",
        "drawn": ["lr: 0.0001 to 0.1, log", "batch: 32, 64"],
        "runs": [
            {
                "cause": "accuracy 96.9 is below 97.5",
                "text": "The scheduler did not run at that time, and 4 h later it was too late",
                "why": "accuracy 97, was 98: nightly-1 kept",
                "job_name": "nightly-1",
            }
        ],
        "problem": "The look nightly-look-1 did not end well: There is no /home/ann/data for you.",
    }
    assert json.loads(told_in("de", json.dumps(view))) == {
        "what": "nur CPU: python -u train.py --note 'It failed.'",
        "drawn": ["lr: 0.0001 bis 0.1, log", "batch: 32, 64"],
        "runs": [
            {
                "cause": "accuracy 96.9 liegt unter 97.5",
                "text": "Der Scheduler lief zu dieser Zeit nicht, und 4 h später war es zu spät",
                "why": "accuracy 97, bisher 98: nightly-1 behalten",
                "job_name": "nightly-1",
            }
        ],
        "problem": "Der Blick nightly-look-1 ging nicht gut aus: Für Sie gibt es kein /home/ann/data.",
    }

"""What a stop costs and whose quota a job takes is said in every language of the pages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from builders import World, a_job, a_node, a_team

from gpucommons.scheduler.core.going_on import drill_verdict, words
from gpucommons.scheduler.core.going_on.ways import Way
from gpucommons.scheduler.core.model.going_on import Drill
from gpucommons.scheduler.core.model.types import Millis, Spec
from gpucommons.scheduler.core.whatif import quotes
from gpucommons.scheduler.languages.answers import told_in
from gpucommons.scheduler.languages.sentences import phrase, translated
from gpucommons.scheduler.languages.texts import spoken


def in_german(text: str) -> str:
    with spoken("de"):
        return translated(text) or phrase(text)


def quoted(spec: Spec) -> str:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=2000), a_team("nlp")])
    return quotes.quote(world.cluster, spec, Millis(world.now), lambda *_: None).text


@pytest.mark.parametrize(
    "spec",
    [
        a_job("inside", 1000),
        a_job("beyond", 3000),
        a_job("none", 1000, team="nlp"),
        a_job("two", 2000, team="nlp"),
        a_job("no GPU", 0),
    ],
    ids=lambda spec: spec.name,
)
def test_the_line_of_the_quota(spec: Spec) -> None:
    text = quoted(spec)
    assert in_german(text) != text


@pytest.mark.parametrize("files_are_kept", [True, False])
@pytest.mark.parametrize("hindrances", [("",), ()])
def test_what_a_stop_would_cost_before_it_began(
    hindrances: tuple[str, ...], files_are_kept: bool
) -> None:
    text = words.before_start(hindrances, files_are_kept=files_are_kept)
    assert in_german(text) != text


@pytest.mark.parametrize(
    ("text", "german"),
    [
        (
            "Stopped for nlp (its guarantee): goes on from step 5,430; at most 40 s of work since then is repeated",
            "Angehalten für nlp (Garantie): macht weiter ab step 5\N{NARROW NO-BREAK SPACE}430;"
            " höchstens 40 s Arbeit seitdem wird wiederholt",
        ),
        ("It ended with exit status 1", "Endete mit Exit-Status 1"),
        ("gpucommons: it lost its data", "gpucommons: it lost its data"),
    ],
)
def test_how_an_attempt_ended_is_said_in_german_or_stays_whole(text: str, german: str) -> None:
    view: dict[str, Any] = {"jobs": [{"name": "digits-7", "attempts": [{"ended_text": text}]}]}
    told = json.loads(told_in("de", json.dumps(view)))
    assert told["jobs"][0]["attempts"][0]["ended_text"] == german


_SEEN = Drill(
    attempt=1,
    way=Way.CHECKPOINT.value,
    step=5430,
    unit="step",
    begun_ms=0,
    stopped_ms=0,
    on_purpose=True,
)


@pytest.mark.parametrize(
    "drill",
    [
        _SEEN,
        replace(_SEEN, on_purpose=False),
        replace(_SEEN, step=None, took_ms=41_000),
        replace(_SEEN, on_purpose=False, took_ms=41_000),
        replace(_SEEN, untold=True),
        replace(_SEEN, failed="it had step 5,430 and began again at step 0"),
    ],
)
@pytest.mark.parametrize("runs", [True, False])
def test_whether_a_job_went_on_after_a_stop(drill: Drill, runs: bool) -> None:
    text = drill_verdict.told(drill, runs=runs)
    assert in_german(text) != text

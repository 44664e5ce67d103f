"""What is wrong with a field is said in words, in every interface."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gpucommons.labextension.requests import sentence_of
from gpucommons.scheduler.models import ConfigModel, JobRequest, SweepRequest
from gpucommons.scheduler.models.jobs.pipelines import StepRef
from gpucommons.scheduler.models.text.field_errors import first_mistake, mistakes, named, said

ROLE: dict[str, Any] = {"command": ["true"]}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "My Job"}, "a name has lower-case letters, digits and hyphens"),
        ({"team": "Vision"}, "a name has lower-case letters"),
        ({"pools": ["GPU!"]}, "a name has lower-case letters"),
        ({"env": {"1A": "x"}}, "a variable's name has letters"),
        ({"secrets": {"TOKEN": "../key"}}, "a name has lower-case letters"),
        ({"after": ["Job 1"]}, "named by its id"),
        ({"snapshot": "abc"}, "SHA-256"),
        ({"roles": [{**ROLE, "gpu_kind": "A100;"}]}, "a kind of GPU has"),
        ({"environment": "a\nb"}, "an environment is a name"),
        ({"roles": [{**ROLE, "count": 1.5}]}, "a whole number is needed"),
        ({"roles": [{**ROLE, "count": 0}]}, "must be at least 1"),
        ({"roles": [{**ROLE, "milli_gpu": 10**23}]}, "at most"),
        ({"working_dir": "/etc"}, "must be a path below its folder"),
    ],
)
def test_no_pattern_reaches_a_person(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        JobRequest.model_validate({"name": "digits", "roles": [ROLE], **wrong})
    sentence = "; ".join(said(one) for one in refused.value.errors())
    assert words in sentence
    assert words in sentence_of(refused.value)
    assert "pattern" not in sentence
    assert "^" not in sentence


def test_a_pattern_without_words_of_its_own_is_not_shown() -> None:
    mistake = {"type": "string_pattern_mismatch", "msg": "…", "ctx": {"pattern": "^[x]$"}}
    assert said(mistake) == "it is empty, too long, or has characters that may not stand there"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("roles", 0, "count"), "workers of the first role (roles.0.count)"),
        (("roles", 1, "milli_gpu"), "GPUs per worker of the second role (roles.1.milli_gpu)"),
        (("roles", 0, "command", 3), "command of the first role (roles.0.command.3)"),
        (("roles", 900, "count"), "roles.900.count"),
        (("roles", 0), "roles.0"),
        (("name",), "name"),
        ((), ""),
    ],
)
def test_a_field_is_named_by_what_it_is_and_by_its_path(
    place: tuple[int | str, ...], words: str
) -> None:
    assert named(place) == words


@pytest.mark.parametrize(
    ("dimension", "said"),
    [
        ({"low": 2, "high": 1}, "space.lr: low 2 must be less than high 1."),
        (
            {"low": 0, "high": 1, "log": True},
            "space.lr: A range with log needs a low above 0, and has no step.",
        ),
        ({}, "space.lr: A range needs low and high; several values are a list."),
        ({"choices": []}, "space.lr.choices: needs at least 1."),
        ([math.nan], "space.lr.0: must be a number, not NaN or without end."),
    ],
)
def test_a_bad_dimension_of_a_search_space_is_said_of_what_was_meant(
    dimension: object, said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        SweepRequest.model_validate(
            {
                "job": {"name": "t", "roles": [{"milli_gpu": 1000, "command": ["true"]}]},
                "space": {"lr": dimension},
                "objective": {"metric": "score"},
                "budget": {"trials": 1},
            }
        )
    assert first_mistake(caught.value) == said


@pytest.mark.parametrize(
    ("model", "sent", "sentence"),
    [
        (JobRequest, {"roles": [], "pool": 1}, "pool: there is no such field; did you mean pools?"),
        (
            JobRequest,
            {"roles": [{"command": ["a"], "cuont": 2}]},
            "roles.0.cuont: there is no such field; did you mean count?",
        ),
        (
            ConfigModel,
            {"teams": [{"name": "a", "quotas": {"gpu": {"fixed": 1}}}]},
            "teams.0.quotas.gpu.fixed: there is no such field; there are fixed_milli_gpu,"
            " guaranteed_milli_gpu, ",
        ),
        (
            StepRef,
            {"other": 1},
            "other: there is no such field; there are step",
        ),
    ],
)
def test_an_unknown_field_is_told_with_those_that_there_are(
    model: type[BaseModel], sent: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        model.model_validate(sent)
    told = [f"{named(item['loc'])}: {text}" for item, text in mistakes(raised.value)]

    assert [one for one in told if one.startswith(sentence)]
    assert not [one for one in told if "Extra inputs" in one]


def test_a_field_that_only_files_have_may_be_meant() -> None:
    with pytest.raises(ValidationError) as raised:
        JobRequest.model_validate({"rnu": "train.py"})
    told = {item["loc"]: text for item, text in mistakes(raised.value, also=("run",))}

    assert told["rnu",] == "there is no such field; did you mean run?"

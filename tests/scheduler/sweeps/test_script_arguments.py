"""What a trial's values become in its command: once, in bounds, and never more than was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.sweeps.script_arguments import command_with

NOTEBOOK = ["python", "-m", "gpucommons.scheduler.training.notebook"]
SWEEP = {
    "job": {"name": "digits", "roles": [{"command": ["true"]}]},
    "objective": {"metric": "loss"},
    "budget": {"trials": 2},
}


def test_names_are_replaced_and_what_is_not_named_comes_behind() -> None:
    values = {"lr": 0.1, "flag": True, "opt": "sgd"}
    assert command_with(["train", "--rate={lr}", "{opt}-{opt}"], values) == [
        "train", "--rate=0.1", "sgd-sgd", "--flag", "true",
    ]  # fmt: skip


def test_what_is_in_the_command_already_comes_first_so_that_a_parser_takes_the_trials() -> None:
    asked = ["train", "--epochs", "50", "--lr", "1", "{other}"]
    assert command_with(asked, {"lr": 0.1}) == [*asked, "--lr", "0.1"]


def test_a_value_that_looks_like_a_name_stays_a_value() -> None:
    assert command_with(["{a}"], {"a": "{b}{b}", "b": "x"}) == ["{b}{b}", "--b", "x"]


def test_a_command_with_its_values_has_a_bound() -> None:
    with pytest.raises(BadRequest, match="65,536 characters"):
        command_with(["{a}" * 1000], {"a": "x" * 500})


def test_a_notebook_gets_one_object() -> None:
    asked = [*NOTEBOOK, "--parameters", '{"epochs": 3}']
    assert json.loads(command_with(asked, {"lr": 0.1})[-1]) == {"epochs": 3, "lr": 0.1}
    for wrong in (["--parameters"], ["--parameters", "x"], ["--parameters", "[1]"]):
        with pytest.raises(BadRequest, match="one JSON object"):
            command_with([*NOTEBOOK, *wrong], {"lr": 0.1})


@pytest.mark.parametrize(
    "space",
    [
        {"lr": [0] * 1001},
        {"lr": [1e301]},
        {"lr": {"low": 0, "high": 10**400}},
        {"lr": [1], "opt": {"choices": [1], "when": {"lr": [1] * 101}}},
    ],
)
def test_a_space_has_bounds(space: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        models.SweepRequest.model_validate({**SWEEP, "space": space})


def test_a_map_has_a_bound_on_all_its_values() -> None:
    given = [{f"p{number}": 1 for number in range(21)}] * 1000
    with pytest.raises(ValidationError, match="20,000 values"):
        models.SweepRequest.model_validate({"job": SWEEP["job"], "given": given})

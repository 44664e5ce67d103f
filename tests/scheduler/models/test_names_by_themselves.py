"""A job that runs again is named by the service and by the form in Lab: both by one table of cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import pytest

from gpucommons.scheduler.models.fields import name_by_itself


class Case(TypedDict):
    name: str
    parent: str | None
    by_itself: str


TABLE = Path(__file__).parents[3] / "labextension" / "src" / "testing" / "names.json"
CASES: list[Case] = json.loads(TABLE.read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['name']} of {case['parent']}")
def test_a_job_that_runs_again_is_named_as_the_form_names_it(case: Case) -> None:
    assert name_by_itself(case["name"], case["parent"]) == case["by_itself"]

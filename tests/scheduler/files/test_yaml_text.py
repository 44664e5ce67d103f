"""What a YAML text stands for, where YAML and people differ."""

from __future__ import annotations

import pytest
import yaml

from gpucommons.scheduler.files.yaml_text import read_yaml


def test_a_field_that_is_called_on_is_a_field_and_no_truth() -> None:
    text = "after: {job: clean, on: ok}\nspace: {no: [1, 2]}\ndrills: on\n"
    assert read_yaml(text) == {
        "after": {"job": "clean", "on": "ok"},
        "space": {"no": [1, 2]},
        "drills": True,
    }


@pytest.mark.parametrize("opened", ["[", "{", "[ # ]\n"])
def test_more_open_brackets_than_anybody_writes_are_not_read_on(opened: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="nested too deeply") as refused:
        read_yaml(opened * 400)
    mark = refused.value.problem_mark
    assert mark is not None
    read = (opened * 400)[: mark.index]
    assert read.count("[") + read.count("{") == 100


def test_what_is_no_mapping_is_said_to_be_none() -> None:
    with pytest.raises(yaml.YAMLError, match="expected a mapping node"):
        read_yaml("a: !!map b\n")

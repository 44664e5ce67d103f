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


def test_what_is_no_mapping_is_said_to_be_none() -> None:
    with pytest.raises(yaml.YAMLError, match="expected a mapping node"):
        read_yaml("a: !!map b\n")

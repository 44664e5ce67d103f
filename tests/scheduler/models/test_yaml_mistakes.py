"""Mistakes in YAML files, in our words and with their lines."""

from __future__ import annotations

import difflib
import re
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from gpucommons.scheduler.client.documents.mappings import MAX_BYTES
from gpucommons.scheduler.files import yaml_text
from gpucommons.scheduler.files.yaml_text import read_yaml
from gpucommons.scheduler.models import ConfigModel
from gpucommons.scheduler.models.text import field_errors
from gpucommons.scheduler.models.text.yaml_errors import field_sentences, syntax_sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pools:\n\t- name: gpu", "line 2, column 1: a tab cannot indent: use spaces"),
        ("a: b: c", "line 1, column 5: a second colon in the line: put the text in quotes"),
        ("a: 1\nteams\nb: 2", "line 3, column 1: a name without a colon after it"),
        ("a:\n  b: 1\n c: 2", "line 3, column 2: this line is not indented like those above it"),
        ("a: [1, 2", "line 1, column 9: a list that begins with [ is not closed with ]"),
        ("a: {b: 2", "line 1, column 9: a mapping that begins with { is not closed with }"),
        ('a: "open', "line 1, column 9: a text that begins with a quote does not end with one"),
        ("a: *b", "line 1, column 4: an alias (*) that no anchor (&) defines"),
        ("a: !b c", "line 1, column 4: a tag (!) that has no meaning here"),
        ("a: @b", "line 1, column 4: this character cannot begin a value: put the text in quotes"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        read_yaml(text)

    assert syntax_sentence(raised.value) == sentence


def test_a_wrong_field_is_said_with_its_line() -> None:
    text = "pools:\n  - name: gpu\n    notice_s: soon\nteams:\n  - name: No-No\n"
    with pytest.raises(ValidationError) as raised:
        ConfigModel.model_validate(read_yaml(text))
    said = field_sentences(text, raised.value)

    assert "line 3, pools.0.notice_s: " in said
    assert "line 5, teams.0.name: a name has lower-case letters" in said


def test_a_field_that_is_missing_is_said_with_the_line_of_what_lacks_it() -> None:
    text = "policy: {}\npools:\n  - notice_s: 3\n"
    with pytest.raises(ValidationError) as raised:
        ConfigModel.model_validate(read_yaml(text))

    assert field_sentences(text, raised.value).startswith("line 3, pools.0.name: ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pools:\n- name: a\n  prices: 1.10\n", "line 3, pools.0.prices: a list is needed"),
        ("pools: gpu\n", "line 1, pools: a list is needed"),
        (
            "pools:\n- name: a\n  prices:\n  - 1.10\n",
            "line 4, pools.0.prices.0: fields with their values are needed (name: value)",
        ),
        (
            "teams:\n- name: a\n  quotas: 3\n",
            "line 3, teams.0.quotas: fields with their values are needed (name: value)",
        ),
        ("- a\n", "the file: fields with their values are needed (name: value)"),
        ("pools:\n- {}\n", "line 2, pools.0.name: this field is needed"),
        ("pools:\n- name: 3\n", "line 2, pools.0.name: a text is needed"),
        (
            "pools:\n- name: a\n  prices: [{per_gpu_h: dear}]\n",
            "line 3, pools.0.prices.0.per_gpu_h: a number is needed",
        ),
        (
            "pools:\n- name: a\n  growth: {max_nodes: 1, gpus: 8, cpu_milli: 1, memory_mib: 1}\n",
            "line 2, pools.0: Pool a grows by nodes with GPUs, and before the first is there nobody can say"
            " which: say gpu_kind",
        ),
    ],
)
def test_another_form_than_the_needed_one_is_said_in_our_words(text: str, sentence: str) -> None:
    with pytest.raises(ValidationError) as raised:
        ConfigModel.model_validate(read_yaml(text))

    assert field_sentences(text, raised.value) == sentence


def test_a_file_full_of_unknown_keys_is_answered_with_few_sentences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = ["".join(signs) for signs in islice(product("abcdefghijklmno", repeat=4), 40_000)]
    text = "".join(f"{key}:\n" for key in keys)
    looked_for: list[str] = []
    compared: list[str] = []
    models_called, close = field_errors._called, difflib.get_close_matches

    def counted(title: str) -> list[type[BaseModel]]:
        looked_for.append(title)
        return models_called(title)

    def alike(name: str, *others: Any, **limits: Any) -> list[str]:
        compared.append(name)
        return close(name, *others, **limits)

    monkeypatch.setattr(field_errors, "_called", counted)
    monkeypatch.setattr(difflib, "get_close_matches", alike)
    with pytest.raises(ValidationError) as raised:
        ConfigModel.model_validate(read_yaml(text))
    said = field_sentences(text, raised.value)

    assert 6 * len(keys) == len(text) <= MAX_BYTES
    assert re.findall(r"line \d+, \w+", said) == [
        f"line {line}, {key}" for line, key in enumerate(keys[:5], 1)
    ]
    assert said.endswith("; and 39,995 more")
    assert looked_for == ["ConfigModel"]
    assert compared == keys[:5]


def test_models_are_not_looked_for_where_no_field_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_for: list[str] = []

    def counted(title: str) -> list[type[BaseModel]]:
        looked_for.append(title)
        return []

    monkeypatch.setattr(field_errors, "_called", counted)
    text = "pools: gpu\nteams: 3\n"
    with pytest.raises(ValidationError) as raised:
        ConfigModel.model_validate(read_yaml(text))

    assert field_sentences(text, raised.value) == (
        "line 1, pools: a list is needed; line 2, teams: a list is needed"
    )
    assert looked_for == []


@pytest.mark.parametrize("written", ["on", "off", "'on'", '"off"'])
def test_a_switch_means_what_is_written_with_quotes_and_without(written: str) -> None:
    text = f"pools:\n  - name: gpu\n    hibernation: {written}\n"
    (pool,) = ConfigModel.model_validate(read_yaml(text)).pools

    assert pool.hibernation == written.strip("'\"")


def test_the_fast_parser_reads_what_the_one_in_python_reads() -> None:
    text = 'a: &x {b: [1, 2.5, yes, ~, 2026-11-30]}\nc: *x\nd: "é\\u202e"\ne: |\n  f\n  g\n'

    assert read_yaml(text) == yaml.safe_load(text)
    assert read_yaml(b"") is None


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("a: 2026-13-01", 0),
        ("a: &x [*x]", 0),
        ("a: &x {}\n" + "b: &y [" + "*x," * 200 + "]\nc: [" + "*y," * 200 + "]\n", 0),
        ("a: *b", 0),
        ("a: !b c", 0),
        ("a: @b", 1),
        ("a: [1, 2", 1),
        ("a: \x07", 1),
    ],
)
def test_only_what_the_fast_parser_cannot_split_is_read_again(
    monkeypatch: pytest.MonkeyPatch, text: str, again: int
) -> None:
    read: list[str] = []

    class Slow(yaml_text._SlowLoader):
        def __init__(self, text: str) -> None:
            read.append(text)
            super().__init__(text)

    monkeypatch.setattr(yaml_text, "_SlowLoader", Slow)
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)

    assert read == [text] * again


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 50_000])
def test_what_is_nested_too_deeply_is_said(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        read_yaml(text)

    assert syntax_sentence(raised.value).endswith("it is nested too deeply")


def test_yaml_is_read_in_one_place() -> None:
    root = Path(yaml_text.__file__).parents[1]
    own = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\byaml\.(safe_load|load|compose)\(|SafeLoader", path.read_text())
    ]

    assert sorted(own) == ["files/yaml_text.py"]

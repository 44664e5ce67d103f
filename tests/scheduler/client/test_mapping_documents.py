"""A mapping in a YAML file costs no more than its size, and what is no value is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.scheduler.client.documents.mappings import read_mapping
from gpucommons.scheduler.errors import BadRequest


def read(folder: Path, text: str) -> dict[str, object]:
    path = folder / "file.yaml"
    path.write_text(text)
    return read_mapping(path, of="fields")


def test_aliases_and_merges_are_taken(tmp_path: Path) -> None:
    text = "base: &b {x: 1}\nown: {<<: *b, y: 2}\nagain: *b\n"
    found = read(tmp_path, text)
    assert found == {"base": {"x": 1}, "own": {"x": 1, "y": 2}, "again": {"x": 1}}


def test_aliases_of_aliases_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    levels = ["x0: &x0 [" + ",".join("a" * 9) + "]"]
    # All of it would fill any memory.
    levels += [f"x{n}: &x{n} [" + ",".join([f"*x{n - 1}"] * 9) + "]" for n in range(1, 30)]
    with pytest.raises(BadRequest, match=r"aliases .* stand for more than 10,000 values"):
        read(tmp_path, "\n".join(levels))


def test_many_values_that_are_written_out_are_taken(tmp_path: Path) -> None:
    assert len(read(tmp_path, "x: [" + "1," * 12_000 + "]")["x"]) == 12_000  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: {c: *a}}", "a: &a {<<: *a}"])
def test_an_alias_within_what_it_names_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadRequest, match=r"line 1, column 4: an alias .* stands inside"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "value",
    [
        "2024-13-45",
        "2024-01-01T00:00:00+99:99",
        "1" * 5000,
        "0x" + "f" * 5000,
        "1" + ":1" * 5000,
        "!!int x",
        '!!int ""',
        "!!bool perhaps",
        "!!timestamp today",
        '"\\ud800"',
    ],
)
def test_what_looks_like_a_value_and_is_none_is_said_with_its_place(
    tmp_path: Path, value: str
) -> None:
    with pytest.raises(BadRequest, match="line 2, column 7: this is no such date, number or text"):
        read(tmp_path, f"a: 1\nname: {value}\n")

"""The pictures of the architecture show each import once, and no circle passes for a picture."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import grimp
import pytest

DRAWING = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "import_graph.py"))

#: In files. Who makes it longer finds what two modules share, and moves that below both.
LONGEST = 20

HOUSE = {
    "pages": frozenset({"client", "models"}),
    "client": frozenset({"models"}),
    "models": frozenset[str](),
}


def test_every_file_that_the_page_sends_to_is_there() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "explanation" / "architecture.md").read_text()
    paths = re.findall(
        r"`((?:scheduler|gpu|spawner|labextension|idle_culler|deploy)/[\w/.-]+)`", page
    )
    assert len(paths) > 100
    assert [path for path in paths if not (root / path).exists()] == []


def test_a_file_that_is_named_without_its_folder_lies_in_one_that_its_line_names() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "explanation" / "architecture.md").read_text()
    lines = [line for line in page.splitlines() if re.match(r"\||\d+\. ", line)]
    lost = []
    for line in lines:
        named = re.findall(r"`([\w/.-]+)`", line)
        folders = [root / one if (root / one).is_dir() else (root / one).parent for one in named]
        files = [one for one in named if re.search(r"\.(py|ts|js)$", one)]
        lost += [
            one for one in files if not any((there / one).exists() for there in [root, *folders])
        ]
    assert (len(lines) > 100, lost) == (True, [])


def test_a_folder_stands_above_all_that_it_imports() -> None:
    assert DRAWING["rows_of"](HOUSE) == [["pages"], ["client"], ["models"]]


def test_an_arrow_that_follows_from_two_others_is_left_out() -> None:
    assert DRAWING["arrows"](HOUSE) == [("client", "models"), ("pages", "client")]


def test_the_longest_chain_of_imports_goes_from_the_highest_to_the_lowest() -> None:
    beside = {**HOUSE, "ids": frozenset[str](), "store": frozenset({"ids"})}
    assert DRAWING["longest_chain"](beside) == ["pages", "client", "models"]


def test_the_longest_chain_of_imports_in_the_core_is_no_longer_than_one_can_follow() -> None:
    graph = grimp.build_graph("gpucommons", cache_dir=None)
    inside = DRAWING["imports_inside"](graph, "gpucommons.scheduler.core")
    chain = DRAWING["longest_chain"](inside)
    assert len(chain) <= LONGEST, "\n".join(chain)


def test_folders_that_import_each_other_are_named() -> None:
    circle = {"hub": frozenset({"store"}), "store": frozenset({"hub"}), "ids": frozenset[str]()}
    with pytest.raises(ValueError, match="in a circle: hub, store"):
        DRAWING["rows_of"](circle)


def test_every_folder_has_its_box() -> None:
    assert DRAWING["svg"](HOUSE).count("<rect") == len(HOUSE)

"""The table of launch lines says what is counted, and each command of ours is one that `submit` understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmarks.launch_lines.__main__ import LIKE, lines_of, of_others, ours
from benchmarks.real_scripts.catalogue import BY_LAUNCHER, SHORT, Script
from gpucommons.scheduler.cli.commands import build_parser
from gpucommons.scheduler.cli.submit.parameters import in_one_word

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "compared.md"
SCRIPTS = {one.name: one for one in (*SHORT, *BY_LAUNCHER)}


def test_a_line_is_neither_blank_nor_a_comment_and_a_backslash_goes_on() -> None:
    assert lines_of("\n# why\nrun: |\n  torchrun \\\n    train.py\n") == 2


@pytest.mark.parametrize("what", LIKE)
def test_the_page_has_the_lines_that_are_counted(what: str) -> None:
    [row] = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {what} |")]
    told = [int(number) for number in re.findall(r"\| (\d+)", row)]
    _, mine = ours(SCRIPTS[LIKE[what]])
    order = ("submitit", "Kubeflow Trainer", "SkyPilot", "dstack")
    theirs = {one.project: one.lines for one in of_others() if one.what == what}
    assert told == [mine, *(theirs[project] for project in order)]


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_what_is_typed_is_a_command_of_ours(script: Script) -> None:
    typed, lines = ours(script)
    program, *words = shlex.split(typed)
    assert program == "gpucommons"
    # What stands behind two dashes is the script's.
    own = in_one_word(words[: words.index("--")] if "--" in words else words)
    arguments, unknown = build_parser(own).parse_known_args(own)
    assert (arguments.command, unknown) == ("submit", [])
    assert lines >= 1

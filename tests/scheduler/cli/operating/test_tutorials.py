"""The tutorials for leads and admins, played as they are written: each command, each line it prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import Cli, WatchedWorld, submitted

TUTORIALS = Path(__file__).parents[4] / "docs/tutorial"
BLOCK = re.compile(r"^```(console|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLAYER = re.compile(r"^% played by (\w+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command and what the page shows of its answer, or a file."""

    command: list[str]
    shown: list[str]


def steps(text: str, home: Path) -> Iterator[Step]:
    """Commands in their order; files are written when their turn comes."""
    for kind, body in BLOCK.findall(text):
        if kind == "yaml":
            name, _, content = body.partition("\n")
            (home / name.removeprefix("# ")).write_text(content)
            continue
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            yield Step(command=shlex.split(command), shown=[one for one in shown if one.strip()])


def pattern(line: str) -> str:
    """As it is shown: widths of columns do not count, ``…`` stands for what differs each time."""
    return r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())


def play(name: str, cli: Cli, home: Path) -> int:
    text = (TUTORIALS / name).read_text()
    (player,) = PLAYER.findall(text)
    count = 0
    for step in steps(text, home):
        program, *arguments = step.command
        assert program == "gpucommons"
        done = cli(*arguments, by=player)
        said = done.out + done.err
        refused = any(line.startswith("gpucommons: ") for line in step.shown)
        assert done.code == (1 if refused else 0), (step.command, said)
        for line in step.shown:
            assert re.search(rf"^\s*{pattern(line)}\s*$", said, re.MULTILINE), (line, said)
        count += 1
    return count


def test_a_lead_sees_and_steers_what_the_page_says(
    cli: Cli, home: Path, world: WatchedWorld
) -> None:
    for name, milli_gpu in (("digits", 1000), ("sweep", 4000)):
        submitted(world, name=name, role={"milli_gpu": milli_gpu})
        world.pass_time(2000)
    assert play("lead.md", cli, home) == 9


def test_an_admin_changes_what_the_page_says(cli: Cli, home: Path, world: WatchedWorld) -> None:
    assert play("admin.md", cli, home) == 11
    assert {"speech", "vision", "nlp"} == set(world.cluster.teams)


def test_what_is_not_printed_is_noticed(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.TUTORIALS", home)
    (home / "wrong.md").write_text(
        "% played by ada\n\n```console\n$ gpucommons teams\nTEAM  COLOUR\n```\n"
    )
    with pytest.raises(AssertionError, match="COLOUR"):
        play("wrong.md", cli, home)

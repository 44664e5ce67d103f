"""A command that a document shows does the same in bash, zsh and fish, as it is pasted."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*/*.md")))
BLOCK = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")


def commands(text: str) -> list[str]:
    """Of its blocks, each command with the lines that go on with it; what it prints stays out."""
    found = []
    for block in BLOCK.findall(text):
        whole = block.replace("\\\n", "")
        lines = [line.strip() for line in whole.splitlines()]
        typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found += typed or [line for line in lines if line and not line.startswith("#")]
    return found


def differing(command: str) -> str | None:
    """What another shell would take otherwise."""
    if re.search(r'"\$\([^"]*\)\[', QUOTED.sub(_double_only, command)):
        return "fish takes a part of the output"
    bare = QUOTED.sub("''", command)
    if re.search(r"(^|\s)#", bare):
        return "zsh passes a comment on as words"
    if re.search(r"[\[\]?*]", bare):
        return "zsh looks for files with such names"
    return None


def _double_only(quoted: re.Match[str]) -> str:
    return quoted[0] if quoted[0].startswith('"') else "''"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_the_same_in_every_shell(document: Path) -> None:
    wrong = {one: differing(one) for one in commands(document.read_text()) if differing(one)}
    assert wrong == {}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_can_read_them(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    everything = "\n".join(one for path in DOCUMENTS for one in commands(path.read_text()))
    read = subprocess.run(
        [shell, "-n"], input=everything, text=True, capture_output=True, check=False
    )
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "is_wrong"),
    [
        ("make demo # a comment", True),
        ("gpucommons submit a.ipynb -p x=[1,2]", True),
        ('pip install "$(ls a.whl)[workstation]"', True),
        ("gpucommons submit a.ipynb -p 'x=[1,2]'", False),
        ("sh -c 'pip install \"$(ls a.whl)[workstation]\"'", False),
    ],
)
def test_the_test_would_find_one(command: str, is_wrong: bool) -> None:
    assert (differing(command) is not None) is is_wrong

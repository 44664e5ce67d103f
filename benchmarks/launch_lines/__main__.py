"""Count what is written to launch a script: ours, and others' by their own documents.

``python -m benchmarks.launch_lines [--json OUT]``. A line is one that is neither blank nor a comment; a command that
goes on behind a backslash is one. Ours is what `benchmarks.real_scripts` plays, less what only its machine
needs (team, name, memory, the variables of a test): a command, or the job's file with the command that sends it.
"""

from __future__ import annotations

import argparse
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real_scripts.catalogue import BY_LAUNCHER, SHORT, Script
from benchmarks.results import write

OTHERS = Path(__file__).with_name("others.toml")
ONE, TWO = "one GPU", "two workers of torch.distributed"
#: The script of ours that is launched as the others' are.
LIKE = {ONE: "nanogpt", TWO: "ddp"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What one project asks for."""

    project: str
    what: str
    source: str
    #: A file, or a cell of a notebook.
    text: str
    #: What is typed besides.
    typed: str
    #: What must be there, and is not counted.
    beside: str

    @property
    def lines(self) -> int:
        """How many are written."""
        return lines_of(self.text) + lines_of(self.typed)


def lines_of(text: str) -> int:
    """Neither blank nor a comment; what goes on behind a backslash is one."""
    whole = text.replace("\\\n", " ").splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in whole)


def of_others() -> tuple[Launch, ...]:
    """As their documents have it."""
    entries = tomllib.loads(OTHERS.read_text(encoding="utf-8"))["launch"]
    return tuple(Launch(**entry) for entry in entries)


def ours(script: Script) -> tuple[str, int]:
    """What is typed for a script, and how many lines are written."""
    if script.job_file:
        text = (script.folder / script.job_file).read_text(encoding="utf-8")
        typed = f"gpucommons submit -f {script.job_file}"
        return typed, lines_of(text) + lines_of(typed)
    words = ["gpucommons", "submit", "--gpus", "1"]
    if script.workers > 1:
        words += ["--workers", str(script.workers)]
    words += script.options
    words += ["--", *script.command] if script.command else [script.files[0]]
    typed = shlex.join(words)
    return typed, lines_of(typed)


def _rows() -> Iterator[dict[str, object]]:
    scripts = {one.name: one for one in (*SHORT, *BY_LAUNCHER)}
    for what, name in LIKE.items():
        typed, lines = ours(scripts[name])
        yield {"what": what, "project": "GPU Commons", "lines": lines, "typed": typed}
        for one in of_others():
            if one.what == what:
                yield {
                    "what": what,
                    "project": one.project,
                    "lines": one.lines,
                    "beside": one.beside,
                    "source": one.source,
                }
    for name, script in scripts.items():
        typed, lines = ours(script)
        yield {"what": name, "project": "GPU Commons", "lines": lines, "typed": typed}


def main() -> None:
    """Print a line for each launch."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launch_lines")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = list(_rows())
    for row in rows:
        print(row)
    write(asked.json, rows)


if __name__ == "__main__":
    main()

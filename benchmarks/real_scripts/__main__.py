"""Play the scripts: ``python -m benchmarks.real_scripts [--json OUT] [--scripts FOLDER] [--only NAME …]``.

Four simulated GPUs; each script borrows all of them, is preempted once by another team's claim, and
runs to its end. One JSON object a script. The frameworks compute on the processor.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.real_scripts import catalogue, environment
from benchmarks.real_scripts.play import stage


def main() -> int:
    """Play what was asked for; exit code 1 where a script did not run, lost more than its own save, or left its files behind."""
    arguments = _parse()
    found = environment.find()
    if found is None:
        sys.exit(f"the frameworks' environment is not here: {environment.HOW_TO_GET}")
    held = True
    with stage(found) as played_on:
        for script in _scripts(arguments.scripts, arguments.only):
            line = played_on.play(script)
            print(json.dumps(line.line()), flush=True)
            results.append(arguments.json, line.line())
            held = held and line.runs and not (script.saves_every and line.steps_repeated)
            held = held and line.files_back is not False
    return 0 if held else 1


def _scripts(folder: Path | None, only: Sequence[str]) -> list[catalogue.Script]:
    public = catalogue.of_others(folder or catalogue.OURS)
    there = [script for script in public if folder and (script.folder / script.files[0]).exists()]
    for script in public:
        if script not in there:
            text = f"skipped: {script.name} ({script.origin}) is not in --scripts FOLDER"
            sys.stderr.write(text + "\n")
    chosen = [*catalogue.SHORT, *there]
    return [script for script in chosen if not only or script.name in only]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_scripts", description=__doc__)
    parser.add_argument("--json", type=Path, help="append the rows to this file")
    parser.add_argument(
        "--scripts", type=Path, help="folder with the public scripts of origins.toml"
    )
    parser.add_argument("--only", nargs="*", default=[], help="names of scripts")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

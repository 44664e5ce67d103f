"""What the documents tell people to type is taken by the product as it is today."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.cli.commands import build_parser
from gpucommons.scheduler.cli.sweeps import commands as sweeps
from gpucommons.scheduler.client.documents.jobs import read_job
from gpucommons.scheduler.sweeps.script_arguments import command_with

ROOT = Path(__file__).parents[2]
_DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: Their frameworks are installed apart: these modules are read, not run.
_OF_OTHERS = (
    "gpucommons.scheduler.training.callbacks.",
    "gpucommons.scheduler.adapters.airflow.",
    "gpucommons.scheduler.adapters.dask",
    "gpucommons.scheduler.adapters.ray",
)
_COMMAND = re.compile(r"^(?:\$ )?(?:[^ ]*/)?gpucommons (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """One block of a document."""

    place: str
    language: str
    text: str


def _snippets() -> list[Snippet]:
    return [
        Snippet(f"{path.relative_to(ROOT)}-{number}", language, text)
        for path in _DOCUMENTS
        for number, (language, text) in enumerate(_BLOCK.findall(path.read_text()), 1)
    ]


SNIPPETS = _snippets()
COMMANDS = [
    (snippet.place, command)
    for snippet in SNIPPETS
    if snippet.language in ("sh", "shell", "console")
    for command in _COMMAND.findall(snippet.text.replace("\\\n", " "))
]


def of(*languages: str) -> list[Snippet]:
    return [snippet for snippet in SNIPPETS if snippet.language in languages]


def test_there_are_snippets_of_each_kind() -> None:
    assert len(COMMANDS) > 15
    assert len(of("python")) > 5
    assert len(of("yaml")) > 10


@pytest.mark.parametrize(("place", "command"), COMMANDS)
def test_a_command_of_the_documents_is_one_that_we_take(
    place: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = build_parser()
    parse = parser.parse_known_args

    def parse_alone(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        arguments, unknown = parse(words)
        arguments.run = lambda _arguments: 0
        return arguments, unknown

    monkeypatch.setattr(parser, "parse_known_args", parse_alone)
    monkeypatch.setattr("gpucommons.scheduler.cli.build_parser", lambda _words: parser)

    assert main(shlex.split(command, comments=True)) == 0, place


@pytest.mark.parametrize("snippet", of("python"), ids=lambda found: found.place)
def test_python_of_the_documents_is_python_and_its_imports_are_there(snippet: Snippet) -> None:
    tree = ast.parse(snippet.text, snippet.place)
    for imported in ast.walk(tree):
        if isinstance(imported, ast.ImportFrom):
            if (imported.module or "").startswith("airflow."):
                continue  # tests/frameworks runs these with it
            if (imported.module or "").startswith(_OF_OTHERS):
                assert {name.name for name in imported.names} <= _defined_in(imported.module or "")
                continue
            module = importlib.import_module(imported.module or "")
            for name in imported.names:
                assert hasattr(module, name.name) or importlib.import_module(
                    f"{imported.module}.{name.name}"
                )


def _defined_in(module: str) -> set[str]:
    """What a module makes or passes on."""
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    tree = ast.parse(Path(found.origin).read_text())
    made = {one.name for one in tree.body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    passed_on = (one.names for one in tree.body if isinstance(one, ast.ImportFrom))
    return made | {name.name for names in passed_on for name in names}


def test_the_training_loop_of_the_documents_runs_and_saves_each_epoch(tmp_path: Path) -> None:
    (loop,) = (s for s in of("python") if "run.checkpoint(" in s.text and "write-a-tr" in s.place)
    (tmp_path / "loop.py").write_text(
        "import sys\nimport numpy as np\nloss, weights = 0.5, {'w': np.zeros(3)}\n"
        f"{loop.text}\nsys.stdout.write(str(run.resume_step()))\n"
    )

    done = subprocess.run(
        [sys.executable, "loop.py"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "50")
    assert list(tmp_path.rglob("step-50/state.npz"))


def test_options_that_are_the_same_for_all_trials_stand_where_the_documents_say(
    tmp_path: Path,
) -> None:
    (asked,) = (s for s in of("yaml") if "digits-{lr}" in s.text)
    (shown,) = (s for s in of("text") if "digits-0.1" in s.text)
    document = yaml.safe_load(asked.text)
    (tmp_path / document["run"]).write_text("")
    own = {name: document.pop(name) for name in sweeps._OWN if name in document}
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(document))

    _, job, _ = read_job(path, max_bytes=1 << 20)

    values = {name: choices[0] for name, choices in own["space"].items()}
    assert shlex.join(command_with(job.roles[0].command, values)) == shown.text.strip()

"""What a folder says of itself names what is there: every module in backticks exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("gpu", "idle_culler", "labextension", "scheduler", "spawner")
#: Programs, packages, arguments and commands that are named beside modules.
NO_MODULES = frozenset(
    {
        "apply",
        "environment",
        "gpucommons",
        "jupyterhub_config.py",
        "multiprocessing",
        "now",
        "pynvml",
        "scancel",
        "squeue",
    }
)
FOLDERS = sorted(path for part in PARTS for path in ROOT.joinpath(part).rglob("__init__.py"))


def _named(doc: str) -> Iterator[str]:
    """What could be a module: ``queue.ordering``, ``.backend``, ``ordering.py``."""
    for name in re.findall(r"`+([^`]+)`+", doc):
        if re.fullmatch(r"\.?[a-z_]\w*(\.[a-z_]\w*)*", name) and name not in NO_MODULES:
            yield name


def _exists(name: str, folder: Path) -> bool:
    path = name.removeprefix(".").removeprefix("gpucommons.")
    path = path if path.endswith((".py", ".yaml", ".toml", ".pyi")) else path.replace(".", "/")
    above = [folder, *(one for one in folder.parents if one.is_relative_to(ROOT))]
    return any((one / path).exists() or (one / f"{path}.py").exists() for one in above)


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_each_module_that_a_folder_names_is_there(path: Path) -> None:
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert [name for name in _named(doc) if not _exists(name, path.parent)] == []


def test_each_folder_of_the_panel_is_named_where_one_looks_first() -> None:
    source = ROOT / "labextension" / "src"
    named = set(re.findall(r"`(\w+)`", (source / "README.md").read_text()))
    assert {path.name for path in source.iterdir() if path.is_dir()} <= named

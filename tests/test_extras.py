"""Each place's extra brings what is imported there, and nothing of the other places.

Packages outside of the extra are hidden, so the environment of the tests stands for a fresh one.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]

#: Named by our user; whatever moves between the extras, they stay.
NAMED = {
    "jupyterhub", "jupyter-server", "jupyterhub-kubespawner", "ipywidgets", "kubernetes",
    "nvidia-ml-py", "pytest",
}  # fmt: skip

#: What is imported where. ``.*``: with all modules below, less those of another place.
PLACES = {
    "": (
        "gpucommons.scheduler.cli.*", "gpucommons.scheduler.client.*",
        "gpucommons.scheduler.models.*", "gpucommons.scheduler.in_pod.*",
        "gpucommons.scheduler.training", "gpucommons.gpu.doctor.*", "gpucommons.gpu.nvml.*",
        "gpucommons.gpu.client.*", "gpucommons.scheduler.up", "gpucommons.scheduler.up.machine",
    ),
    "hub": ("gpucommons.spawner.*",),
    "notebook": (
        "gpucommons.labextension.*", "gpucommons.scheduler.cli.*",
        "gpucommons.scheduler.training.*",
    ),
    "service": (
        "gpucommons.scheduler.__main__", "gpucommons.scheduler.wiring.app",
        "gpucommons.scheduler.api.*", "gpucommons.scheduler.core.*", "gpucommons.scheduler.pages.*",
        "gpucommons.scheduler.service.*", "gpucommons.scheduler.store.*",
        "gpucommons.scheduler.cli.*", "gpucommons.idle_culler.*", "gpucommons.gpu.agent.*",
    ),
    "kubernetes": (
        "gpucommons.scheduler.executors.kubernetes.*", "gpucommons.scheduler.operator.*",
        "gpucommons.scheduler.leadership.*", "gpucommons.scheduler.file_storage.*",
        "gpucommons.gpu.kubelet.*", "gpucommons.scheduler.cli.cluster_doctor.*",
    ),
    "workstation": (
        "gpucommons.scheduler.up.*", "gpucommons.spawner.*", "gpucommons.labextension.*",
        "gpucommons.scheduler.wiring.app", "gpucommons.idle_culler.*",
        "gpucommons.scheduler.training.*",
    ),
}  # fmt: skip
#: Beside what the extra brings.
#: Each imports the framework that a script of its user has.
_CALLBACKS = {
    f"gpucommons.scheduler.training.callbacks.{name}"
    for name in ("keras", "lightning", "transformers")
}
#: Comes with the extra `kubernetes`.
_CLUSTER_DOCTOR = {
    f"gpucommons.scheduler.cli.cluster_doctor.{name}"
    for name in (
        "cluster",
        "command",
        "hub",
        "network",
        "pools",
        "prerequisites",
        "rights",
        "scopes",
    )
}
#: Comes with jupyter-scheduler.
_NOTEBOOK_JOBS = {
    f"gpucommons.labextension.notebook_jobs.{name}"
    for name in ("backend", "describing", "environments", "listing", "outputs")
}
LEFT_OUT = {
    "": {"gpucommons.scheduler.cli.trace_replay", *_CALLBACKS, *_CLUSTER_DOCTOR},
    "notebook": {
        "gpucommons.scheduler.cli.trace_replay",
        *_CALLBACKS,
        *_CLUSTER_DOCTOR,
        *_NOTEBOOK_JOBS,
    },
    "workstation": {*_CALLBACKS, *_NOTEBOOK_JOBS},
}

_IMPORT = """
import importlib, importlib.abc, json, pkgutil, sys
hidden, names, left_out = (set(one) for one in json.load(sys.stdin))
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in hidden or name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
for name in sorted(names):
    module = importlib.import_module(name.removesuffix(".*"))
    if name.endswith(".*"):
        for found in pkgutil.walk_packages(module.__path__, module.__name__ + "."):
            if found.name not in left_out and not found.name.endswith((".env", ".__main__")):
                importlib.import_module(found.name)
"""


def project() -> dict[str, object]:
    read: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return read


@cache
def requirements(extra: str) -> frozenset[str]:
    """What ``gpucommons[extra]`` brings, by distribution, with what that brings in turn."""
    described = project()["project"]
    assert isinstance(described, dict)
    asked = list(described["dependencies"])
    if extra:
        asked += described["optional-dependencies"][extra]
    found: set[str] = set()
    pending = [(Requirement(one), "") for one in asked]
    while pending:
        requirement, _ = pending.pop()
        name = canonicalize_name(requirement.name)
        if name == "gpucommons":
            for inner in requirement.extras:
                found |= requirements(inner)
            continue
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        if key in found:
            continue
        found |= {key, name}
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for text in needs:
            one = Requirement(text)
            wanted = [{"extra": extra} for extra in ("", *requirement.extras)]
            if one.marker is None or any(one.marker.evaluate(where) for where in wanted):
                one.marker = None
                pending.append((one, ""))
    return frozenset(one for one in found if "[" not in one)


def hidden_from(extra: str) -> list[str]:
    """Top-level modules of this environment that ``gpucommons[extra]`` would not bring."""
    brought = requirements(extra) | {"gpucommons"}
    return sorted(
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if not brought & {canonicalize_name(one) for one in distributions}
        and module not in sys.stdlib_module_names
        and module != "gpucommons"
    )


@pytest.mark.parametrize("extra", PLACES)
def test_the_extra_of_a_place_brings_what_is_imported_there(extra: str) -> None:
    given = [hidden_from(extra), PLACES[extra], sorted(LEFT_OUT.get(extra, ()))]
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("extra", "spared"),
    [
        ("", {"jupyterhub", "jupyter-server", "numpy", "sqlalchemy", "fastapi", "kubernetes"}),
        ("hub", {"jupyter-server", "numpy", "fastapi", "uvicorn", "kubernetes", "ipython"}),
        ("notebook", {"jupyterhub", "numpy", "sqlalchemy", "fastapi", "kubernetes", "kopf"}),
        ("service", {"jupyter-server", "jupyterlab", "ipython", "kubernetes", "grpcio"}),
        ("kubernetes", {"jupyter-server", "jupyterlab", "ipython"}),
    ],
)
def test_no_place_carries_what_runs_elsewhere(extra: str, spared: set[str]) -> None:
    assert not requirements(extra) & spared


def test_all_is_all() -> None:
    described = project()["project"]
    assert isinstance(described, dict)
    # A server of its own; what takes a place in Lab that not everybody wants; what its users have already.
    for extra in set(described["optional-dependencies"]) - {
        "airflow",
        "dask",
        "editors",
        "notebook-jobs",
        "ray",
    }:
        assert requirements(extra) <= requirements("all")


def test_what_our_user_named_is_named() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    lines = re.findall(r'^\s*"([A-Za-z0-9-]+)', text, re.MULTILINE)
    assert set(lines) >= NAMED


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["-m", "gpucommons.scheduler"], "service"),
        (["-m", "gpucommons.scheduler.operator"], "kubernetes"),
        (["-m", "gpucommons.idle_culler"], "service"),
        (["-c", "from gpucommons.scheduler.cli import main; raise SystemExit(main(['up', '--state', '/nowhere']))"], "workstation"),
        (["-c", "from gpucommons.labextension import TrainPanel"], "notebook"),
    ],
    ids=lambda one: one if isinstance(one, str) else one[-1],
)  # fmt: skip
def test_a_missing_extra_is_a_sentence(command: list[str], says: str, tmp_path: Path) -> None:
    hide = f"""
import importlib.abc, sys
hidden = {set(hidden_from(""))!r}
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
    (tmp_path / "sitecustomize.py").write_text(hide)
    done = subprocess.run(
        [sys.executable, *command],
        env={"PYTHONPATH": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert f"pip install 'gpucommons[{says}]'" in done.stderr.splitlines()[-1]

"""The project as a whole: what is shipped, and rules that no single part could break alone."""

from __future__ import annotations

import ast
import errno
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hatchling.bridge.app import Application

ROOT = Path(__file__).parents[1]
PARTS = ("gpu", "idle_culler", "labextension", "scheduler", "spawner")
BUNDLE = "share/jupyter/labextensions/gpucommons"
SCRIPTS = (".css", ".js", ".mjs", ".py", ".pyi", ".ts", ".tsx")
LONGEST, LONGEST_TEST = 400, 550
#: Names or rows alone, each in a line: nobody reads them as a whole.
TABLES = {"scheduler/models/__init__.pyi", "tests/samples/route_rules.py"}
#: Modules in a folder, as many as are taken in at a glance; what every folder may have not counted.
MOST_MODULES, OF_EVERY_FOLDER = 14, {"__init__.py", "__main__.py", "conftest.py"}
#: Lines of a function without its docstring; of these few each is one literal or one straight story,
#: which parts would only hide: a model with all its fields, or a small process from its start to its wake.
LONGEST_FUNCTION = 40
STRAIGHT = {
    "gpu/hibernation/self_test.py:_try",
    "scheduler/executors/kubernetes/objects/observed_objects.py:read_pod",
    "scheduler/intake/jobs.py:_spec",
    "scheduler/service/schedules/schedules.py:put_schedule",
    "scheduler/service/views/jobs.py:job_view",
    "scheduler/service/views/jobs.py:request_of",
    "scheduler/service/views/leases.py:lease_view",
    "scheduler/service/views/sweeps.py:sweep_view",
}
#: Addresses of package registries, and folders that only one machine has.
TRACES = re.compile(
    r"registry\.npmjs|pypi\.org|pythonhosted|(?<![\w./{}-])/(work|root|Users)/|/\.pyenv/"
)


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("only a checkout knows which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- what lies in the repository -------------------------------------------------------------


def test_versions_agree() -> None:
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    javascript = json.loads((ROOT / "package.json").read_text())["version"]
    lock = json.loads((ROOT / "package-lock.json").read_text())["version"]

    assert python == javascript == lock == importlib.metadata.version("gpucommons")


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    long = {}
    for path in tracked():
        if path.suffix in SCRIPTS:
            lines = len(path.read_bytes().splitlines())
            limit = LONGEST_TEST if relative(path).startswith("tests/") else LONGEST
            if lines > limit and relative(path) not in TABLES:
                long[relative(path)] = lines
    assert long == {}


def test_no_function_is_too_long_to_be_told_in_a_sentence() -> None:
    long = {
        f"{relative(path)}:{function.name}"
        for path in tracked()
        if path.suffix == ".py" and not relative(path).startswith("tests/")
        for function in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and _lines_without_docstring(function) > LONGEST_FUNCTION
    }
    assert long == STRAIGHT


def _lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    told = ast.get_docstring(function, clean=False) is not None
    docstring = _lines(first) if told else 0
    return _lines(function) - docstring


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_no_folder_holds_too_many_modules() -> None:
    held = Counter(
        relative(path.parent)
        for path in tracked()
        if path.suffix in (".py", ".ts", ".tsx")
        and path.name not in OF_EVERY_FOLDER
        and not path.name.endswith(".spec.ts")
    )
    # A chain that grows by one with each change of the tables; nobody reads it as a whole.
    del held["scheduler/store/migrations/versions"]
    assert {folder: count for folder, count in held.items() if count > MOST_MODULES} == {}


def test_tests_of_a_part_stand_in_folders_named_as_its_own() -> None:
    folders = {path.parent.relative_to(ROOT) for path in tracked() if path.name.startswith("test_")}
    assert [
        str(folder)
        for folder in folders
        if folder.parts[0] == "tests"
        and folder.parts[1:2]
        and folder.parts[1] in PARTS
        and not (ROOT / folder.relative_to("tests")).is_dir()
    ] == []


def test_no_file_knows_a_registry_or_one_machine() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__) or path.suffix in (".png", ".ico", ".woff2"):
            continue
        text = path.read_text(errors="replace")
        found.extend(f"{relative(path)}: {match[0]}" for match in TRACES.finditer(text))
    assert found == []


def test_the_lock_file_vouches_for_every_package() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]

    assert [
        name for name, package in packages.items() if name and not package.get("integrity")
    ] == []


def test_no_part_is_a_link_or_generated() -> None:
    for path in tracked():
        assert not path.is_symlink(), path
        assert not relative(path).startswith(("build/", "dist/", "node_modules/", ".venv/")), path


# --- names others use ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("gpucommons.labextension", ("GpuMonitor", "TrainPanel")),
        ("gpucommons.scheduler.training", ("Run", "current")),
        ("gpucommons.scheduler.client", ("AsyncSchedulerClient", "SchedulerClient", "calls")),
    ],
)
def test_exported_names_are_there_and_told(module: str, names: tuple[str, ...]) -> None:
    imported = importlib.import_module(module)

    assert set(names) <= set(imported.__all__)
    for name in names:
        assert getattr(imported, name).__doc__


def test_entry_points_lead_to_something() -> None:
    distribution = importlib.metadata.distribution("gpucommons")
    found = {(point.group, point.name): point.load() for point in distribution.entry_points}

    assert callable(found["console_scripts", "gpucommons"])
    assert found["jupyterhub.spawners", "gpu-local"].__name__ == "GpuLocalSpawner"


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_typed_and_tested(part: str) -> None:
    assert (ROOT / part / "py.typed").exists()
    assert any((ROOT / "tests" / part).rglob("test_*.py"))


# --- what is shipped -------------------------------------------------------------------------


def _link_or_copy(source: str, target: str) -> object:
    try:
        return os.link(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return shutil.copy2(source, target)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist of a clean copy: production bundle, nothing left over from development."""
    if not (ROOT / "node_modules").is_dir():
        pytest.skip("the bundle is built with node_modules: run make setup")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for path in tracked():
        target = copy / relative(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    # Only read, so links will do; a link to the folder would confuse the compiler.
    shutil.copytree(
        ROOT / "node_modules", copy / "node_modules", symlinks=True, copy_function=_link_or_copy
    )
    _run(["npm", "run", "-s", "build:prod"], copy)
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], copy)
    shutil.rmtree(copy)
    return out


def _run(command: list[str], folder: Path) -> None:
    own = f"{Path(sys.executable).parent}{os.pathsep}{folder / 'node_modules' / '.bin'}"
    path = f"{own}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def wheel(dist: Path) -> set[str]:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


@pytest.fixture
def sdist(dist: Path) -> set[str]:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def shipped(suffix: str) -> set[str]:
    """Files of our parts that a wheel must hold."""
    paths = {relative(path) for path in tracked() if path.name.endswith(suffix)}
    return {f"gpucommons/{path}" for path in paths if path.split("/")[0] in PARTS}


def test_the_wheel_holds_every_module_template_and_migration(wheel: set[str]) -> None:
    assert shipped(".py") | shipped(".pyi") <= wheel
    assert shipped(".html") <= wheel
    assert {name for name in shipped(".css") if "/style/" not in name} <= wheel
    assert {name for name in shipped(".js") if "/style/" not in name} <= wheel
    assert shipped("py.typed") <= wheel
    assert "gpucommons/scheduler/up/demo.yaml" in wheel
    assert any("/migrations/versions/" in name for name in wheel)


def test_the_wheel_holds_the_production_bundle_alone(wheel: set[str]) -> None:
    data = {name.partition(".data/data/")[2] for name in wheel if ".data/data/" in name}
    bundle = {name for name in data if name.startswith(f"{BUNDLE}/static/")}

    assert f"{BUNDLE}/package.json" in data
    assert f"{BUNDLE}/install.json" in data
    assert "etc/jupyter/jupyter_server_config.d/gpucommons.json" in data
    assert any(re.search(r"/remoteEntry\.[0-9a-f]+\.js$", name) for name in bundle)
    assert f"{BUNDLE}/static/style.js" in bundle
    kept = {".js", ".css", ".json"}
    assert {Path(name).suffix for name in bundle} == kept
    assert [name for name in wheel if name.endswith((".map", ".ts", ".tsx", ".tsbuildinfo"))] == []


def test_the_wheel_holds_nothing_of_tests_or_this_machine(wheel: set[str], dist: Path) -> None:
    top = {name.split("/")[0] for name in wheel}
    assert {name.partition("-")[0] for name in top} == {"gpucommons"}
    assert [name for name in wheel if "/tests/" in name or "__pycache__" in name] == []
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        for name in sorted(wheel):
            assert str(ROOT).encode() not in archive.read(name), name


def test_the_wheel_holds_the_shim_and_says_for_which_machine(wheel: set[str], dist: Path) -> None:
    libraries = {name for name in wheel if name.startswith("gpucommons/gpu/shim/lib/")}
    [name] = [path.name for path in dist.glob("*.whl")]

    if not shutil.which("cc"):
        pytest.skip("without a compiler the wheel has no shim")
    assert {Path(library).name for library in libraries} == {"libcuda.so.1", "libnvidia-ml.so.1"}
    for library in ("semaphores", "seccomp"):
        assert f"gpucommons/gpu/hibernation/preload/lib/libgpucommons-{library}.so" in wheel
    assert name.endswith(f"-py3-none-manylinux_2_17_{platform.machine()}.whl")


def test_a_wheel_without_the_shim_is_for_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    application = Application()
    warnings: list[str] = []
    monkeypatch.setattr(application, "display_warning", warnings.append)
    hook = module.GpuCommonsHook(str(ROOT), {}, None, None, str(tmp_path), "wheel", application)
    build_data: dict[str, Any] = {"force_include": {}}

    monkeypatch.setenv(module.MACHINE_VARIABLE, "riscv64")
    hook.initialize("standard", build_data)

    assert build_data == {"force_include": {}}
    assert hook.dependencies() == []
    assert "Built without the shim: The shim is for Linux on x86_64 and aarch64" in warnings[0]


def test_the_wheel_says_what_it_needs(wheel: set[str], dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        folder = next(name for name in wheel if name.endswith("/METADATA")).rpartition("/")[0]
        metadata = archive.read(f"{folder}/METADATA").decode()
        points = archive.read(f"{folder}/entry_points.txt").decode()

    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata
    assert "gpucommons = gpucommons.scheduler.cli:main" in points


def test_the_sdist_holds_sources_bundle_examples_and_tests(sdist: set[str]) -> None:
    """The built bundle is among them: whoever builds from it needs no Node."""
    for suffix in (".py", ".pyi", ".html", ".css", ".js"):
        expected = {name.removeprefix("gpucommons/") for name in shipped(suffix)}
        assert expected <= sdist
    needed: Any = {
        "pyproject.toml", "hatch_build.py", "package.json", "package-lock.json", "tsconfig.json",
        "rspack.config.js", "README.md", "LICENSE", "labextension/src/index.ts",
        "build/labextensions/gpucommons/static/style.js", "tests/test_project.py",
        "examples/train_digits.py", "scheduler/up/demo.yaml",
    }  # fmt: skip
    assert needed - sdist == set()
    assert [name for name in sdist if name.startswith(("node_modules", "build/editable"))] == []
    assert [name for name in sdist if name.endswith(".map")] == []

"""Environments apart from our own, each of a dependency group, built once, kept in the user's cache.

``python -m benchmarks.real_scripts.environment`` builds those that are not there and prints their folders.
PyPI's build of torch for Linux on x86-64 brings its CUDA libraries (6 GB) and computes on the
processor without a GPU, and TensorFlow's for the processor adds 1 GB.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUP = "frameworks"
HOW_TO_GET = "make setup-frameworks builds it once (about 3 minutes, 7.5 GB)"
#: These lie on the path beside our own environment: folders of packages, without what they need besides.
NOTEBOOK_JOBS, EDITORS, DASK, RAY = "notebook-jobs", "editors", "dask", "ray"
BESIDE_OURS = (NOTEBOOK_JOBS, EDITORS, DASK, RAY)
MLFLOW = "mlflow"
AIRFLOW = "airflow"
_READY = ".ready"
_COMPILE = "from deepspeed.comm.torch import build_shm_op; build_shm_op()"


def requirements(group: str = GROUP) -> list[str]:
    """What a group in ``pyproject.toml`` asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(project["dependency-groups"][group])


def folder(group: str = GROUP) -> Path:
    """Where an environment lies: named by what decides its content."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    content = "\n".join([sys.version.split()[0], *requirements(group)])
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return Path(base) / "gpucommons" / group / digest


def find(group: str = GROUP) -> Path | None:
    """The environment, or nothing where it was not built."""
    place = folder(group)
    return place if (place / _READY).exists() else None


def build(group: str = GROUP) -> Path:
    """Build what is not there. A build that was ended half-way begins anew."""
    if (place := find(group)) is not None:
        return place
    place = folder(group)
    uv = Path(sys.executable).with_name("uv")
    if group in BESIDE_OURS:
        options = ["--python", sys.executable, "--target", place, "--no-deps", *requirements(group)]
        subprocess.run([uv, "pip", "install", "-q", *options], check=True)
        (place / _READY).touch()
        return place
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, place], check=True)
    python = place / "bin" / "python"
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", python, *requirements(group)], check=True
    )
    (place / _READY).touch()
    return place


def variables(place: Path) -> dict[str, str]:
    """What its programs are started with: where what torch compiles for them is kept; and Spark's seven
    Java machines compile nothing twice, as they end within a minute.
    """
    return {
        "TORCH_EXTENSIONS_DIR": str(place / "torch-extensions"),
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def compile_extensions(place: Path) -> None:
    """What DeepSpeed compiles at its first start on a processor, which takes minutes, once."""
    kept = Path(variables(place)["TORCH_EXTENSIONS_DIR"])
    if kept.exists():
        return
    # Apart, for torch waits for ever for a build that was ended half-way.
    with tempfile.TemporaryDirectory(dir=place, prefix="torch-extensions-") as folder:
        env = {
            **os.environ,
            "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",  # ninja
            "TORCH_EXTENSIONS_DIR": folder,
        }
        subprocess.run([place / "bin" / "python", "-c", _COMPILE], env=env, check=True)
        with suppress(OSError):  # somebody else was faster
            Path(folder).rename(kept)


if __name__ == "__main__":
    for group in (GROUP, *BESIDE_OURS, MLFLOW, AIRFLOW):
        found = build(group)
        if group == GROUP:
            compile_extensions(found)
        print(found)

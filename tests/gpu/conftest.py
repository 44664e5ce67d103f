"""Fixtures of the GPU part: the fake NVML library and agents as real processes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.shim import building

_FAKE = Path(__file__).parent / "fake_nvml"
_FAKE_CUDA = Path(__file__).parent / "fake_cuda"
_START_S = 60


def _compiler() -> list[str]:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return [found] if found else [sys.executable, "-m", "ziglang", "cc"]


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def nvml_state() -> ModuleType:
    """``fake_nvml/state_file.py``: its class ``FakeNvml`` and the error codes."""
    return _module("fake_nvml_state", _FAKE / "state_file.py")


@pytest.fixture(scope="session")
def needs_compiler() -> None:
    """Skips where nothing compiles C; REQUIRE_COMPILER=1 fails instead."""
    try:
        building.compiler()
    except building.CannotBuildShim as error:
        if os.environ.get("REQUIRE_COMPILER"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def shim_libraries(needs_compiler: None) -> Path:
    """The shim as its sources are now."""
    return building.LIBRARIES if building.built() else building.build()


@pytest.fixture(scope="session")
def build_machine(shim_libraries: Path) -> Callable[..., Any]:
    """Compiles a pretended card into a folder, with these flags."""
    build: Callable[..., Any] = _module("fake_cuda_machine", _FAKE_CUDA / "machine.py").build
    return build


@pytest.fixture(scope="session")
def built_machine(
    build_machine: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """A pretended card, compiled once."""
    return build_machine(tmp_path_factory.mktemp("fake-cuda") / "machine")


@pytest.fixture(scope="session")
def parking() -> ModuleType:
    """``fake_cuda/parking_card.py``: a card whose memory can be parked."""
    return _module("fake_cuda_parking_card", _FAKE_CUDA / "parking_card.py")


@pytest.fixture(scope="session")
def parking_driver(
    needs_compiler: None, parking: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Its driver, as r580."""
    made: Path = parking.build(tmp_path_factory.mktemp("parking-driver"))
    return made


@pytest.fixture
def parking_card(parking: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Such a card of 1 GiB, which this process sees, too."""
    card = parking.Card(tmp_path / "card")
    monkeypatch.setenv("FAKE_CUDA_CARD", str(card.folder))
    return card


@pytest.fixture
def machine(built_machine: Any) -> Any:
    """A machine with an unused card of 16 GiB."""
    built_machine.put_card(16 << 10)
    return built_machine


@pytest.fixture
def a_slice(machine: Any, tmp_path: Path) -> Path:
    """A slice of 4 GiB."""
    folder: Path = machine.slice(tmp_path / "slice", 4 << 10)
    return folder


@pytest.fixture
def client(machine: Any, a_slice: Path) -> Iterator[Callable[..., Any]]:
    """Starts programs in the slice, or elsewhere; all are killed in the end."""
    started: list[Any] = []

    def start(library_path: Path | None = a_slice) -> Any:
        started.append(machine.client(library_path))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture(scope="session")
def build_fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile the library with these flags, once; returns the folder for LD_LIBRARY_PATH."""
    built: dict[tuple[str, ...], Path] = {}

    def build(*flags: str) -> Path:
        if flags not in built:
            folder = tmp_path_factory.mktemp("fake-nvml")
            subprocess.run(
                [
                    *_compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror",
                    "-D_GNU_SOURCE", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1", *flags,
                    str(_FAKE / "fake_nvml.c"), "-o", str(folder / "libnvidia-ml.so.1"),
                ],
                check=True,
            )  # fmt: skip
            built[flags] = folder
        return built[flags]

    return build


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


StartAgent = Callable[..., tuple[subprocess.Popen[bytes], AgentClient]]


@contextmanager
def _agents(default_folder: Path) -> Iterator[StartAgent]:
    """Start agents as processes; all are stopped in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        *arguments: str, folder: Path = default_folder, env: dict[str, str] | None = None
    ) -> tuple[subprocess.Popen[bytes], AgentClient]:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpucommons.gpu.agent", "--dir", str(folder), *arguments],
            env=os.environ | (env or {}),
            stderr=subprocess.PIPE,
        )
        started.append(process)
        client = AgentClient(folder / "control.sock", timeout_s=60)
        deadline_s = time.monotonic() + _START_S
        while True:
            try:
                client.devices()
            except AgentUnavailable:
                assert process.poll() is None, process.stderr and process.stderr.read().decode()
                assert time.monotonic() < deadline_s, "the agent did not start"
                time.sleep(0.02)
            else:
                return process, client

    try:
        yield start
    finally:
        for process in started:
            process.terminate()
            try:
                process.wait(timeout=_START_S)
            finally:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()


@pytest.fixture
def start_agent(short_folder: Path) -> Iterator[StartAgent]:
    """Start the agent as a process in ``short_folder``."""
    with _agents(short_folder) as start:
        yield start


@pytest.fixture(scope="module")
def one_agent() -> Iterator[Path]:
    """The socket of an agent that all tests of a file ask, with one simulated GPU and no slices."""
    with tempfile.TemporaryDirectory(prefix="gc") as folder, _agents(Path(folder)) as start:
        process, client = start("--simulate", "1", "--ignore-real")
        yield Path(folder) / "control.sock"
        assert process.poll() is None
        assert client.slices() == ()


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Ask again until the answer is true, for what another process must do first."""

    def ask(question: Callable[[], object], within_s: float = 60) -> object:
        deadline_s = time.monotonic() + within_s
        while True:
            answer = question()
            if answer:
                return answer
            assert time.monotonic() < deadline_s, "it did not happen in time"
            time.sleep(0.05)

    return ask

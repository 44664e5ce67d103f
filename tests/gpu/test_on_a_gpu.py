"""Slices on a real card, about six minutes: what programs see, what they get, what it costs.

``REQUIRE_GPU=1 pytest tests/gpu/test_on_a_gpu.py`` fails where there is no card; without it the tests
are skipped there with the reason. The measurements go to ``GPUCOMMONS_MEASURED``, by default
``docs/explanation/measured-on-h200.md`` on an H200 and nowhere on other cards. MIG and MPS are left
as they are.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.agent.control.node import has_nvml
from gpucommons.gpu.client.agent_client import AgentClient, Prepared
from gpucommons.gpu.devices.devices import Device
from gpucommons.gpu.linux.processes import LinuxProcesses
from gpucommons.gpu.nvml import NvmlTelemetry
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "on_a_gpu"
REPORT = Path(__file__).parents[2] / "docs" / "explanation" / "measured-on-h200.md"
SLICE_MIB = 20 << 10
#: Context and modules of one program, at most; NVIDIA itself cannot hand out 816 of 30,000 MiB.
OVERHEAD_MIB = 1536
A = SliceId("a")


class Book:
    """What was measured, in the order in which it was."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def note(self, what: str, found: object) -> None:
        text = json.dumps(found) if isinstance(found, dict) else str(found)
        self.lines.append((what, text.strip("{}").replace('"', "")))
        sys.stderr.write(f"measured: {what}: {text}\n")

    def page(self, machine: str) -> str:
        rows = "\n".join(f"| {what} | {found} |" for what, found in self.lines)
        return (
            f"# Measured on an H200\n\n{machine}; {time.strftime('%Y-%m-%d')}; "
            "`pytest tests/gpu/test_on_a_gpu.py`.\n\n| what | found |\n|---|---|\n"
            f"{rows}\n"
        )


def _card() -> Device | str:
    """The first card, or why there is none."""
    if not has_nvml():
        return "there is no libnvidia-ml.so.1 here"
    telemetry = NvmlTelemetry()
    try:
        cards = [d for d in telemetry.devices() if not d.device_id.startswith("MIG-")]
        return cards[0] if cards else telemetry.greeting or "NVML finds no card"
    finally:
        telemetry.close()


@pytest.fixture(scope="module")
def card() -> Device:
    found = _card()
    if isinstance(found, Device):
        return found
    if os.environ.get("REQUIRE_GPU") == "1":
        pytest.fail(f"REQUIRE_GPU=1, but {found}")
    pytest.skip(f"no GPU: {found}")


@pytest.fixture(scope="module")
def book(card: Device) -> Iterator[Book]:
    book = Book()
    yield book
    default = str(REPORT) if "H200" in card.kind else ""
    path = os.environ.get("GPUCOMMONS_MEASURED", default)
    if path:
        machine = f"{card.kind}, {platform.system()} {platform.release()}"
        Path(path).write_text(book.page(machine), encoding="utf-8")


@pytest.fixture
def agent(
    card: Device, shim_libraries: Path, start_agent: Any
) -> tuple[subprocess.Popen[bytes], AgentClient]:
    started: tuple[subprocess.Popen[bytes], AgentClient] = start_agent()
    return started


def a_slice(card: Device, name: SliceId = A, memory_mib: int = SLICE_MIB) -> GpuSlice:
    milli = max(1, min(999, memory_mib * 1000 // (card.memory_mib - card.reserve_mib)))
    share = DeviceShare(device_id=card.device_id, milli_gpu=milli)
    return GpuSlice(slice_id=name, shares=(share,), memory_mib=memory_mib)


@pytest.fixture
def prepared(agent: tuple[Any, AgentClient], card: Device) -> Iterator[Prepared]:
    made = agent[1].prepare(a_slice(card))
    yield made
    agent[1].close_slice(A)


def _python() -> str:
    """The interpreter that has the frameworks."""
    return os.environ.get("GPUCOMMONS_FRAMEWORKS_PYTHON", sys.executable)


def begin(script: str, *words: str, within: Prepared | None) -> subprocess.Popen[str]:
    env = dict(os.environ) if within is None else within.injection.apply(os.environ)
    group = None if within is None else within.injection.cgroup
    if group is not None:
        # A shell that moves itself first: the same order as the spawner's.
        command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    else:
        command = []
    return subprocess.Popen(
        [*command, _python(), str(HERE / script), *words],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(script: str, *words: str, within: Prepared | None) -> dict[str, Any]:
    process = begin(script, *words, within=within)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


def needs(*modules: str) -> None:
    if _python() != sys.executable:
        code = f"import {','.join(modules)}"
        missing = subprocess.run([_python(), "-c", code], capture_output=True, check=False)
        absent = list(modules) if missing.returncode else []
    else:
        absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


def test_the_driver_shows_the_slice_and_no_more_can_be_allocated(
    prepared: Prepared, book: Book
) -> None:
    found = run("driver_only.py", "fill", within=prepared)
    book.note(f"driver alone, 20 GiB slice, mode {prepared.isolation}", found)
    assert found["allocated_mib"] <= SLICE_MIB
    assert found["allocated_mib"] >= SLICE_MIB - OVERHEAD_MIB
    assert SLICE_MIB - OVERHEAD_MIB <= found["total_mib"] <= SLICE_MIB
    assert found["device_total_mib"] <= SLICE_MIB


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        ("torch", ["torch"]),
        ("torch-expandable", ["torch"]),
        ("torch-async", ["torch"]),
        ("jax", ["jax"]),
        ("cupy", ["cupy"]),
    ],
)
def test_a_framework_fills_its_slice_and_is_refused_inside_it(
    prepared: Prepared, book: Book, program: str, modules: list[str]
) -> None:
    needs(*modules)
    found = run("frameworks.py", program, within=prepared)
    book.note(program, found)
    assert SLICE_MIB // 2 <= found["allocated_mib"] <= SLICE_MIB
    assert found.get("total_mib", SLICE_MIB) <= SLICE_MIB


@pytest.mark.parametrize(
    ("program", "modules"), [("torch-graph", ["torch"]), ("triton", ["torch", "triton"])]
)
def test_graphs_and_compiled_kernels_work_in_a_slice(
    prepared: Prepared, book: Book, program: str, modules: list[str]
) -> None:
    needs(*modules)
    found = run("frameworks.py", program, within=prepared)
    book.note(program, found)
    assert all(found.values())


def test_two_processes_of_a_slice_share_its_memory(prepared: Prepared, book: Book) -> None:
    first = begin("driver_only.py", "hold", "12000", "60", within=prepared)
    try:
        assert first.stdout is not None
        assert json.loads(first.stdout.readline()) == {"got": True}
        second = run("driver_only.py", "fill", within=prepared)
    finally:
        first.kill()
        first.communicate()
    book.note("second process beside 12,000 MiB", second)
    assert second["allocated_mib"] <= SLICE_MIB - 12_000
    again = run("driver_only.py", "fill", within=prepared)
    book.note("after the first was killed", again)
    assert again["allocated_mib"] >= SLICE_MIB - OVERHEAD_MIB - 512


def test_a_process_outside_any_slice_is_not_limited(card: Device, book: Book) -> None:
    found = run("driver_only.py", "pairs", "1000", within=None)
    book.note("allocate and free, without a slice", found)
    assert found["pair_us"] > 0


def test_the_overhead_of_an_allocation_is_small(prepared: Prepared, book: Book) -> None:
    plain = run("driver_only.py", "pairs", "2000", within=None)["pair_us"]
    inside = run("driver_only.py", "pairs", "2000", within=prepared)["pair_us"]
    book.note("allocate and free, in the slice", f"{inside:.2f} us, plain {plain:.2f} us")
    assert inside - plain < max(5.0, plain * 0.2)


def test_matmul_is_as_fast_in_a_slice(prepared: Prepared, book: Book) -> None:
    needs("torch")
    plain = run("frameworks.py", "torch-matmul", within=None)["tflops"]
    inside = run("frameworks.py", "torch-matmul", within=prepared)["tflops"]
    book.note("bf16 matmul", f"{inside:.1f} TFLOP/s in the slice, {plain:.1f} without")
    assert inside > plain * 0.97


def test_nvidia_smi_shows_the_slice_inside_and_the_card_outside(
    prepared: Prepared, book: Book, card: Device
) -> None:
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("nvidia-smi is not installed")
    ask = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    outside = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    env = prepared.injection.apply(os.environ)
    inside = subprocess.run(ask, env=env, capture_output=True, text=True, check=False)
    book.note("nvidia-smi, total MiB", f"{inside.stdout.strip()} inside, {outside} outside")
    assert int(outside) == pytest.approx(card.memory_mib, rel=0.01)
    if prepared.isolation == "cooperative":
        assert int(inside.stdout) <= SLICE_MIB


def test_the_agent_sees_the_slice_its_contexts_and_its_mode(
    agent: tuple[subprocess.Popen[bytes], AgentClient],
    prepared: Prepared,
    book: Book,
    eventually: Callable[..., object],
) -> None:
    client = agent[1]
    program = begin("driver_only.py", "hold", "4000", "60", within=prepared)
    try:
        assert program.stdout is not None
        program.stdout.readline()
        client.bind(A, program.pid)

        def used() -> int:
            sample = client.reading(A).sample
            return (sample.memory_used_mib or 0) if sample is not None else 0

        eventually(lambda: used() > 4000)
        sample = client.reading(A).sample
        assert sample is not None
        book.note("context and modules of one program, MiB", used() - 4000)
        book.note("mode that the agent verified", f"{sample.isolation} {sample.notice}")
        assert sample.isolation == prepared.isolation
        ledger = shim.read_ledger(prepared.socket.parent / "shim")
        if ledger is not None:
            book.note("ledger, MiB", ledger.used_bytes >> 20)
            assert ledger.used_bytes >> 20 >= 4000
    finally:
        program.kill()
        program.communicate()


def test_the_agent_costs_little_over_the_real_driver(
    agent: tuple[subprocess.Popen[bytes], AgentClient], prepared: Prepared, book: Book
) -> None:
    process, _ = agent
    proc = LinuxProcesses()

    def cpu_ms() -> int:
        stat = proc.stat(process.pid)
        assert stat is not None
        return stat.cpu_ms

    time.sleep(3)
    before, started = cpu_ms(), time.monotonic()
    time.sleep(20)
    percent = (cpu_ms() - before) / (time.monotonic() - started) / 10
    book.note("agent, % of a core", f"{percent:.2f}")
    assert percent < 3


def test_calls_of_the_driver_are_quick_enough_for_one_thread(card: Device, book: Book) -> None:
    telemetry = NvmlTelemetry()
    try:
        took = []
        for _ in range(50):
            started = time.perf_counter()
            telemetry.read((), now_ms=time.time_ns() // 1_000_000)
            took.append((time.perf_counter() - started) * 1000)
    finally:
        telemetry.close()
    took.sort()
    book.note("one look at all cards, ms", f"median {took[25]:.2f}, worst {took[-1]:.2f}")
    assert took[25] < 100


def test_the_whole_card_is_left_as_it_was(
    agent: tuple[subprocess.Popen[bytes], AgentClient], card: Device, book: Book
) -> None:
    client = agent[1]
    assert client.slices() == ()
    found = run("driver_only.py", "pairs", "10", within=None)
    assert found["pair_us"] > 0
    shim_dir = Path(client.prepare(a_slice(card, SliceId("last"))).socket).parent
    client.close_slice(SliceId("last"))
    assert not shim_dir.exists()
    book.note("after the last slice", "nothing is left behind")

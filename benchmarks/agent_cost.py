"""What the node agent costs: memory, and processor time per second of watching.

``python -m benchmarks.agent_cost [--slices 16] [--processes 160] [--seconds 20] [--json OUT]``
starts the agent on simulated GPUs, puts real (sleeping) processes into slices, lets one client
listen to each slice and reads the agent's own ``/proc`` entry.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.connections.unix_sockets import connect
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.linux.processes import LinuxProcesses
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

DEVICES = 8
#: The first seconds fill caches.
SETTLE_S = 3


def measure(slices: int, processes: int, seconds: int) -> dict[str, float]:
    """Run the agent with this load and say what it took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gc")))
        agent, client = _agent(folder, stack)
        listeners = _load(client, slices, processes, stack)
        time.sleep(SETTLE_S)
        before_ms, started_s = _cpu_ms(agent.pid), time.monotonic()
        _listen(listeners, started_s + seconds)
        elapsed_s = time.monotonic() - started_s
        return {
            "slices": slices,
            "processes": processes,
            "cpu_percent": round((_cpu_ms(agent.pid) - before_ms) / elapsed_s / 10, 3),
            "rss_mib": round(_rss_kib(agent.pid) / 1024, 1),
        }


def _agent(folder: Path, stack: ExitStack) -> tuple[subprocess.Popen[bytes], AgentClient]:
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gpucommons.gpu.agent", "--dir", str(folder),
            "--simulate", str(DEVICES), "--ignore-real",
        ],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.terminate)
    client = AgentClient(folder / "control.sock")
    for _ in range(500):
        try:
            client.devices()
        except AgentUnavailable:
            time.sleep(0.02)
        else:
            return process, client
    sys.exit("the agent did not start")


def _load(client: AgentClient, slices: int, processes: int, stack: ExitStack) -> list[int]:
    """Slices with processes below them, and a listener's descriptor for each."""
    listeners = []
    for number in range(slices):
        slice_id = SliceId(f"s{number}")
        share = DeviceShare(device_id=DeviceId(f"sim-{number % DEVICES}"), milli_gpu=125)
        path = client.open(GpuSlice(slice_id=slice_id, shares=(share,), memory_mib=4966))
        listener = stack.enter_context(connect(path, timeout_s=5))
        listener.setblocking(False)
        listeners.append(listener.fileno())
        for _ in range(processes // slices):
            sleeper = subprocess.Popen(["sleep", "3600"])
            stack.callback(sleeper.wait)
            stack.callback(sleeper.kill)
            client.bind(slice_id, sleeper.pid)
    return listeners


def _listen(listeners: list[int], until_s: float) -> None:
    while time.monotonic() < until_s:
        time.sleep(1)
        for descriptor in listeners:
            try:
                os.read(descriptor, 1 << 20)
            except BlockingIOError:
                continue


def _cpu_ms(pid: int) -> int:
    found = LinuxProcesses().stat(pid)
    return found.cpu_ms if found is not None else 0


def _rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """Measure without load and with it; print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--processes", type=int, default=160)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    result = {
        "benchmark": "agent_cost",
        "idle": measure(1, 1, options.seconds),
        "loaded": measure(options.slices, options.processes, options.seconds),
    }
    text = json.dumps(result)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

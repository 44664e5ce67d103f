"""Whether a notebook server stays quick while its GPUs answer slowly.

``python -m benchmarks.responsiveness [--requests 300] [--json OUT]``: eight pretended cards whose every
NVML call sleeps 20 ms, three open tabs, and ``GET /api/status`` of a real Jupyter server, compared
with the same server without a GPU and without tabs. Needs a C compiler, no GPU.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from tornado.websocket import websocket_connect

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.shim import building
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

FAKE = Path(__file__).parents[1] / "tests" / "gpu" / "fake_nvml"
CARDS, TABS, CALL_MS = 8, 3, 20
TOKEN = "benchmark"  # noqa: S105 - of a server that lives a minute, on loopback
_START_S = 60
#: Requests before the clock runs: imports and caches.
_WARM_UP = 30
_PAUSE_S = 0.01


def measure(requests: int) -> dict[str, float]:
    """The 95th percentile of an idle and of a loaded server, in milliseconds."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gc")))
        idle_ms = asyncio.run(_p95(_server(folder / "idle", {}, stack), 0, requests))
        socket = _slow_agent(folder, stack)
        env = {"GPUCOMMONS_SLICE_SOCKET": str(socket), "GPUCOMMONS_SLICE_ID": "s"}
        loaded_ms = asyncio.run(_p95(_server(folder / "loaded", env, stack), TABS, requests))
    return {"status_p95_idle_ms": round(idle_ms, 2), "status_p95_loaded_ms": round(loaded_ms, 2)}


def _slow_agent(folder: Path, stack: ExitStack) -> Path:
    """An agent over slow cards, with one open slice; the slice's socket."""
    spec = importlib.util.spec_from_file_location("state_file", FAKE / "state_file.py")
    assert spec is not None
    assert spec.loader is not None
    state_file: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(state_file)
    library = folder / "nvml"
    library.mkdir()
    subprocess.run(
        [
            *building.compiler(), "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE",
            "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1", str(FAKE / "fake_nvml.c"),
            "-o", str(library / "libnvidia-ml.so.1"),
        ],
        check=True,
    )  # fmt: skip
    machine = state_file.FakeNvml(folder / "nvml-state", cards=CARDS)
    env = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(machine.path)}
    _run(stack, [sys.executable, "-m", "gpucommons.gpu.agent", "--dir", str(folder / "agent")], env)
    client = AgentClient(folder / "agent" / "control.sock", timeout_s=_START_S)
    _until(lambda: _answers(client))
    machine.slow_down(CALL_MS)
    share = DeviceShare(device_id=DeviceId(machine.uuid(0)), milli_gpu=500)
    return client.open(GpuSlice(slice_id=SliceId("s"), shares=(share,), memory_mib=19_866))


def _answers(client: AgentClient) -> bool:
    try:
        client.devices()
    except AgentUnavailable:
        return False
    return True


def _run(stack: ExitStack, argv: list[str], env: Mapping[str, str]) -> None:
    process = subprocess.Popen(
        argv, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # The server would first ask whoever is at the terminal.
    stack.callback(process.wait)
    stack.callback(process.kill)


def _server(folder: Path, env: Mapping[str, str], stack: ExitStack) -> str:
    """A Jupyter server with our extension; its address."""
    folder.mkdir()
    argv = [
        sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--port=0",
        f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={TOKEN}",
        "--ServerApp.jpserver_extensions={'gpucommons.labextension': True}",
    ]  # fmt: skip
    _run(stack, argv, {**env, "JUPYTER_RUNTIME_DIR": str(folder), "HOME": str(folder)})

    def address() -> str:
        for found in folder.glob("jpserver-*.json"):
            url = str(json.loads(found.read_text())["url"])
            try:
                if httpx.get(f"{url}api/status?token={TOKEN}").status_code == httpx.codes.OK:
                    return url
            except httpx.HTTPError:
                continue
        return ""

    return str(_until(address))


def _until(question: Any) -> Any:
    deadline_s = time.monotonic() + _START_S
    while not (answer := question()):
        if time.monotonic() > deadline_s:
            sys.exit("it did not start")
        time.sleep(0.1)
    return answer


async def _p95(url: str, tabs: int, requests: int) -> float:
    ws = url.replace("http", "ws", 1) + f"gpucommons/ws?token={TOKEN}"
    sockets = [await websocket_connect(ws) for _ in range(tabs)]
    readers = [asyncio.create_task(_listen(socket)) for socket in sockets]
    took_ms = []
    async with httpx.AsyncClient() as client:
        for number in range(requests + _WARM_UP):
            started = time.perf_counter()
            answer = await client.get(f"{url}api/status?token={TOKEN}")
            assert answer.status_code == httpx.codes.OK
            if number >= _WARM_UP:
                took_ms.append((time.perf_counter() - started) * 1000)
            await asyncio.sleep(_PAUSE_S)
    heard = [await _end(socket, reader) for socket, reader in zip(sockets, readers, strict=True)]
    assert all(heard), "a tab heard of no sample: nothing was measured"
    return statistics.quantiles(took_ms, n=20)[-1]


async def _listen(socket: Any) -> int:
    samples = 0
    while (message := await socket.read_message()) is not None:
        samples += len(json.loads(message).get("samples", ()))
    return samples


async def _end(socket: Any, reader: asyncio.Task[int]) -> int:
    socket.close()
    return await reader


def main() -> None:
    """Measure; print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    text = json.dumps({"benchmark": "responsiveness", **measure(options.requests)})
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

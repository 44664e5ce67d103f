"""A notebook's kernel with 200 MB of variables: put away, and asked again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused

_SECONDS = 120
_MIB = 1 << 20
_FILL = "import numpy, hashlib; values = numpy.random.default_rng(7).random(25_000_000); text = {1: 'one'}"
_ASK = "(hashlib.sha256(values.tobytes()).hexdigest(), text)"


def kernel_row(criu: Criu, place: Path) -> dict[str, object]:
    """How much longer the first answer takes than that of a fresh kernel."""
    connection = place / "kernel.json"
    write_connection_file(str(connection))
    tree = HibernatableTree(
        place / "kernel", criu, output=place / "kernel.log", close_connections=True
    )
    tree.folder.mkdir(mode=0o700)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(connection)]
    begun = time.monotonic()
    process = _started(tree.run_command(command))
    client = _client(connection)
    _answer(client, "pass")
    fresh_s = time.monotonic() - begun
    _answer(client, _FILL)
    before = _answer(client, "pass", _ASK)
    client.stop_channels()
    answer = tree.save(_SECONDS)
    if isinstance(answer, Refused):
        sys.exit(f"kernel: {answer.because}")
    process.wait()

    begun = time.monotonic()
    process = _started(tree.wake_command())
    client = _client(connection)
    _answer(client, "pass")
    woken_s = time.monotonic() - begun
    after = _answer(client, "pass", _ASK)
    client.stop_channels()
    process.kill()
    process.wait()
    return {
        "what": "kernel",
        "variables_equal": before == after and bool(before),
        "save_s": answer.seconds,
        "image_mib": answer.image_bytes // _MIB,
        "fresh_s": round(fresh_s, 2),
        "woken_s": round(woken_s, 2),
        "extra_s": round(woken_s - fresh_s, 2),
    }


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    environ = {name: value for name, value in os.environ.items() if name != "JPY_PARENT_PID"}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environ)


def _client(connection: Path) -> BlockingKernelClient:
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    # Without heartbeats: a kernel that is not up yet would count as dead.
    client.start_channels(hb=False)
    client.wait_for_ready(timeout=_SECONDS)
    return client


def _answer(client: BlockingKernelClient, code: str, asked: str = "1") -> object:
    """Run this code and answer what an expression is worth afterwards."""
    reply = client.execute_interactive(
        code,
        user_expressions={"asked": asked},
        timeout=_SECONDS,
        output_hook=lambda _: None,
    )
    return reply["content"]["user_expressions"]["asked"].get("data")

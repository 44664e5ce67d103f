"""A real server that is told to stop leaves its kernels' variables to the next, for its owner alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from jupyter_client import BlockingKernelClient

PATIENCE_S = 60.0


class Server:
    """A Jupyter server of its own, with our extension."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes]) -> None:
        self.home, self.process = home, process
        self.http = self._connect()

    def _connect(self) -> httpx.Client:
        pattern = f"jpserver-{self.process.pid}.json"
        ends_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends_s:
            for file in (self.home / "runtime").glob(pattern):
                found = json.loads(file.read_text(encoding="utf-8"))
                client = httpx.Client(
                    base_url=found["url"], headers={"Authorization": "token t"}, timeout=PATIENCE_S
                )
                try:
                    client.get("api")
                except httpx.ConnectError:
                    continue
                return client
            assert self.process.poll() is None
            time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def a_kernel(self) -> str:
        answer = self.http.post("api/kernels", json={"name": "python3"})
        kernel_id: str = answer.raise_for_status().json()["id"]
        return kernel_id

    def run(self, kernel_id: str, code: str, shown: str = "None") -> str:
        file = self.home / "runtime" / f"kernel-{kernel_id}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        try:
            # No `wait_for_ready`: a kernel that does not listen yet is dead to it. And no waiting for
            # outputs: what a kernel says before we have subscribed to them never comes.
            reply = client.execute(
                code, user_expressions={"it": shown}, reply=True, timeout=PATIENCE_S
            )
        finally:
            client.stop_channels()
        text: str = reply["content"]["user_expressions"]["it"]["data"]["text/plain"]
        return text

    def stored(self) -> list[dict[str, Any]]:
        answer = self.http.get("gpucommons/stored-variables").raise_for_status()
        listed: list[dict[str, Any]] = answer.json()["stored"]
        return listed

    def load(self, stored: str, kernel: str) -> httpx.Response:
        body = {"stored": stored, "kernel": kernel}
        return self.http.post("gpucommons/stored-variables", json=body)


@contextmanager
def a_server(home: Path, **environ: str) -> Iterator[Server]:
    outside = ("JUPYTER", "GPUCOMMONS_", "XDG_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    clean |= {"HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "runtime"), **environ}
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--port=0", "--allow-root"]
    command += ["--IdentityProvider.token=t", f"--ServerApp.root_dir={home}"]
    command += ["--ServerApp.jpserver_extensions={'gpucommons.labextension': True}"]
    process = subprocess.Popen(command, env=clean, cwd=home)
    try:
        server = Server(home, process)
        yield server
        server.http.close()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_the_next_server_offers_what_the_last_one_stored_to_its_user_alone(tmp_path: Path) -> None:
    # One that is killed at once stores nothing.
    with a_server(tmp_path, GPUCOMMONS_STOP_SECONDS="1") as hurried:
        hurried.run(hurried.a_kernel(), "x = 1")
    with a_server(tmp_path, JUPYTERHUB_USER="somebody-else") as others:
        others.run(others.a_kernel(), "x = 1")
    with a_server(tmp_path) as first:
        old = first.a_kernel()
        first.run(old, "x = [1, 2]\nstream = (i for i in x)")
        assert first.stored() == []
    with a_server(tmp_path) as second:
        (stored,) = second.stored()
        assert (stored["kernel_id"], stored["kept"]) == (old, ["x"])
        (lost,) = stored["lost"]
        assert (lost["name"], lost["because"]) == (
            "stream",
            "TypeError: cannot pickle 'generator' object",
        )
        new = second.a_kernel()
        assert second.run(new, "", "'x' in globals()") == "False"
        result = second.load(old, new).raise_for_status().json()["result"]
        assert result == {"loaded": ["x"], "failed": [], "because": ""}
        assert second.run(new, "", "x") == "[1, 2]"
        (loaded,) = second.stored()
        assert loaded["loaded_ms"] is not None
        gone = second.load(new, new)
        assert (gone.status_code, "no stored variables" in gone.text) == (409, True)
        unknown = second.load(old, old)
        assert (unknown.status_code, "no such kernel" in unknown.text) == (404, True)

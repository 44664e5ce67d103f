"""JupyterLab with our built panel and the scripted server, in folders of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.harness.free_ports import free_port
from tests.ui.fake_server.lean_lab import write_lean_lab

ROOT = Path(__file__).resolve().parents[3]
FAKE = ROOT / "tests" / "ui" / "fake_server"
BUILT = ROOT / "build" / "labextensions" / "gpucommons" / "package.json"
TOKEN = "panel-test"
#: Of our own plugin.
SETTINGS = "gpucommons:panel"
_START_S = 180

#: A notebook whose function can become a job.
NOTEBOOK: dict[str, Any] = {
    "cells": [
        {
            "cell_type": "code",
            "id": "a1",
            "metadata": {"trusted": True},
            "execution_count": None,
            "outputs": [],
            "source": "def train(resume_dir):\n    pass",
        }
    ],
    "metadata": {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    },
    "nbformat": 4,
    "nbformat_minor": 5,
}


@dataclass
class LabServer:
    """A running JupyterLab; ``stop`` it."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if not BUILT.exists():
            message = "The Lab extension is not built: run `npm run build` first."
            raise FileNotFoundError(message)
        work = self.folder / "work"
        work.mkdir()
        (work / "train.ipynb").write_text(json.dumps(NOTEBOOK))
        (work / "prepare.py").write_text("print('ready')\n")
        (work / "pipeline.yaml").write_text("steps: {clean: {run: prepare.py}}\n")
        write_lean_lab(self.folder / "config")
        self.process = subprocess.Popen(
            self._command(work), env=self._env(), cwd=work, start_new_session=True
        )
        self._wait()
        # The question about news would lie over every picture.
        self.put_setting("@jupyterlab/apputils-extension:notification", {"fetchNews": "false"})
        self.greet_nobody()

    def _command(self, work: Path) -> list[str]:
        extensions = {"fake_gpucommons": True, "gpucommons.labextension": False}
        return [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0"),
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={work}",
            f"--ServerApp.jpserver_extensions={extensions}",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--ServerApp.log_level=ERROR",
        ]

    def _env(self) -> dict[str, str]:
        own = {
            "HOME": self.folder,
            "IPYTHONDIR": self.folder / "ipython",
            "JUPYTER_CONFIG_DIR": self.folder / "config",
            "JUPYTER_DATA_DIR": self.folder / "data",
            "JUPYTER_RUNTIME_DIR": self.folder / "runtime",
            "JUPYTER_PATH": ROOT / "build",
            "PYTHONPATH": FAKE,
        }
        return {**os.environ, **{name: str(value) for name, value in own.items()}}

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.ask("GET", "api/status")
            except OSError:
                if time.monotonic() > deadline or self.process is None or self.process.poll():
                    raise
                time.sleep(0.1)
            else:
                return

    def ask(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - always our own server
            f"{self.url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
            text = answer.read()
        return json.loads(text) if text else None

    def put_setting(self, plugin: str, values: dict[str, Any]) -> None:
        self.ask("PUT", f"lab/api/settings/{plugin}", {"raw": json.dumps(values)})

    def greet_nobody(self) -> None:
        """As for somebody who has been here before and closed every tip."""
        self.put_setting(SETTINGS, {"seen": ["welcome", "first-job", "job-goes-on", "idle"]})

    def send(self, *messages: dict[str, Any]) -> None:
        """What the server tells every open page, now."""
        self.ask("POST", "gpucommons/fake", {"send": messages})

    def greet_with(self, *messages: dict[str, Any]) -> None:
        """What pages are told from now on when they connect; nothing = the usual scene."""
        self.ask("POST", "gpucommons/fake", {"greeting": list(messages) or None})

    def greet_again(self) -> None:
        """Tell every open page what it was told when it connected."""
        self.ask("POST", "gpucommons/fake", {"greet": True})

    def keep_sweep(self, sweep: dict[str, Any]) -> None:
        """Answer with this sweep from now on."""
        self.ask("POST", "gpucommons/fake", {"sweep": sweep})

    def hang_up(self) -> None:
        """Cut every page's connection."""
        self.ask("POST", "gpucommons/fake", {"hang_up": True})

    def go_away(self) -> None:
        """Cut every page's connection, and take none until :meth:`greet_with`."""
        self.ask("POST", "gpucommons/fake", {"hang_up": True, "deaf": True})

    def asked(self, path: str) -> list[dict[str, Any]]:
        """Bodies that the pages posted to a path below ``gpucommons/``."""
        return [each["body"] for each in self.calls(path)]

    def calls(self, path: str) -> list[dict[str, Any]]:
        """Those with the keys that they bore."""
        calls: list[dict[str, Any]] = self.ask("GET", "gpucommons/fake")
        return [each for each in calls if each.get("path", "").endswith(path)]

    def stop(self) -> None:
        """End it with its kernels at once: a kernel that is asked takes up to half a minute."""
        if self.process is None:
            return
        server = psutil.Process(self.process.pid)
        for one in (*server.children(recursive=True), server):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()

"""The real operator as a process, between a real API server and a scheduler with fake workers."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from service_world import ADMIN, TOKENS, FakeHubServer, ServiceWorld, an_app

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.models.jobs.jobs import OBJECT_LABEL
from gpucommons.scheduler.service.jobs import jobs
from tests.harness.free_ports import free_port

OPERATOR = "gpucommons-operator"
TOKEN = "operator-token"


class SchedulerServed:
    """A scheduler that can go away and come back at the same address, with all it knows."""

    def __init__(self, folder: Path) -> None:
        self.world = ServiceWorld(folder)
        self.port = free_port()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Answer, if it does not."""
        if self._server is not None:
            return
        tokens = TOKENS | {TOKEN: {"kind": "service", "name": OPERATOR, "scopes": [ADMIN]}}
        app = an_app(self.world, FakeHubServer(tokens))
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        listening = listen_tcp(self.port)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True
        )
        self._thread.start()
        self._stopped.clear()
        threading.Thread(target=self._keep_deciding, daemon=True).start()

    def _keep_deciding(self) -> None:
        """What a running scheduler's own thread does."""
        while not self._stopped.wait(0.05):
            self.pass_time(50)

    def pass_time(self, milliseconds: int) -> None:
        """Let time go by, and the loop decide."""
        self.world.now_ms = Millis(self.world.now_ms + milliseconds)
        self.world.loop.wake()

    def stop(self) -> None:
        """Answer nobody."""
        self._stopped.set()
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(30)
            self._server = self._thread = None

    def jobs(self, namespace: str) -> list[JobView]:
        """Every job that there ever was of objects in this namespace."""
        where = jobs.JobFilter(limit=500)
        found = jobs.jobs(self.world.service, self.world.admin, where, cursor=None).jobs
        return [one for one in found if _label(one).startswith(f"{namespace}/")]


def _label(view: JobView) -> str:
    return "" if view.request is None else view.request.labels.get(OBJECT_LABEL, "")


class OperatorProcess:
    """``python -m gpucommons.scheduler.operator``."""

    def __init__(self, kubeconfig: Path, url: str, log: Path, *options: str) -> None:
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "JUPYTERHUB_API_TOKEN": TOKEN,
            "GPUCOMMONS_URL": url,
        }
        self._options = options
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run, if it does not."""
        if self._process is not None and self._process.poll() is None:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpucommons.scheduler.operator", *self._options],
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(how)
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def ended(self) -> int:
        """Wait until it ends by itself."""
        assert self._process is not None
        return self._process.wait(120)

    @property
    def log(self) -> str:
        return self._log.read_text()


def until(question: Any, seconds: float = 120.0) -> Any:
    """Ask until the answer is true; the last answer goes with the failure."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.2)

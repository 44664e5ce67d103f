"""The machine under the tour: ``gpucommons up`` in a state folder of its own."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import psutil

from benchmarks.tour import own_accounts
from benchmarks.tour.playing import gpucommons
from benchmarks.tour.timeline import TourFailedError, wait_for

PARTS = ("agent", "scheduler", "culler")
#: What `up` prints when all that it starts has answered.
STARTED = "Ctrl-C stops it"


def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Machine:
    """Starts everything, and takes it down again whatever happens."""

    def __init__(
        self,
        config: Path,
        *,
        idle_after_s: int,
        warn_after_s: int,
        hub: bool = True,
        by_root: own_accounts.Choice | None = None,
    ) -> None:
        """``by_root``: users have accounts of their own, and their admin chose so; else all share one."""
        self._folder = tempfile.TemporaryDirectory(prefix="gctour", ignore_cleanup_errors=True)
        self.state = Path(self._folder.name) / "state"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = (Path(self._folder.name) / "up.log").open("w+b")
        self._command = [
            sys.executable,
            "-m",
            "gpucommons.scheduler.up",
            *("--state", str(self.state)),
            *("--simulate", "4"),
            *("--port", str(self.port)),
            *("--config", str(config)),
            *(("--trusted-users",) if by_root is None else ()),
            # Sample data is for the hub's pages, and for users that are trusted.
            *(() if hub else ("--no-hub",)),
            *(("--demo",) if hub and by_root is None else ()),
            "--stop-jobs",
            *("--idle-after-s", str(idle_after_s)),
            *("--warn-after-s", str(warn_after_s)),
        ]
        self._password = None if by_root is None else by_root.begin(Path(self._folder.name))
        self._hub = hub
        self._up: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._up = subprocess.Popen(
            self._command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            what = "the login page" if self._hub else "the scheduler"
            wait_for(what, self._answers)
        except BaseException:
            # With what its parts wrote: nobody else will say why it does not answer.
            self.__exit__(*sys.exc_info())
            raise
        return self

    def _answers(self) -> bool:
        if self._up is not None and self._up.poll() is not None:
            message = f"gpucommons up ended with {self._up.returncode}:\n{self.output()}"
            raise TourFailedError(message)
        if not self._hub:
            return STARTED in self.output()
        try:
            return httpx.get(f"{self.url}/hub/login", timeout=2).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def output(self) -> str:
        """What `gpucommons up` printed."""
        self._log.flush()
        return Path(self._log.name).read_text(errors="replace")

    def password(self) -> str:
        """The password that `up` made, or the tour."""
        if self._password is not None:
            return self._password
        return (self.state / "password").read_text().strip()

    def part(self, name: str) -> psutil.Process | None:
        """The running process of a part, as `up` wrote it down."""
        try:
            pid = json.loads((self.state / "pids.json").read_text())[name]["pid"]
            return psutil.Process(int(pid))
        except (FileNotFoundError, KeyError, psutil.NoSuchProcess):
            return None

    def need(self, name: str) -> psutil.Process:
        """The running process of a part, which must be there."""
        return wait_for(f"process {name}", lambda: self.part(name))

    def environment(self) -> dict[str, str]:
        """For the command line: this machine's scheduler."""
        return {**os.environ, "GPUCOMMONS_STATE": str(self.state)}

    def home(self) -> Path:
        """The caller's home on that machine."""
        return self.state / "homes" / getpass.getuser()

    def cli(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``gpucommons …`` as the operator; in a folder below their home, where that matters."""
        # Results come back beside a script that lies below its owner's home.
        env = self.environment() | ({} if cwd is None else {"HOME": str(self.home())})
        return gpucommons(*words, env=env, cwd=cwd)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._up is not None:
            self._up.send_signal(signal.SIGINT)
            try:
                self._up.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._up.pid, signal.SIGKILL)
                self._up.wait()
        if error is not None:
            sys.stderr.write(self._tails())
        self._log.close()
        self._folder.cleanup()

    def _tails(self) -> str:
        logs = {
            path.name: path.read_text(errors="replace")
            for path in sorted((self.state / "logs").glob("*.log"))
        }
        logs["gpucommons up"] = self.output()
        return "\n".join(f"--- {name}\n{text[-2500:]}" for name, text in logs.items())


def idle_cost(machine: Machine, *, seconds: float) -> tuple[int, float]:
    """RSS in MiB and percent of a core of scheduler, culler and agent together, left alone."""
    processes = [machine.need(name) for name in PARTS]

    def cpu_s() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before, began = cpu_s(), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (cpu_s() - before) / (time.monotonic() - began)
    rss_mib = sum(process.memory_info().rss for process in processes) >> 20
    return rss_mib, round(percent, 2)

"""The processes of a test cluster, on record, so that whoever comes later can end them.

A cluster lives in one folder. Each process that is started is written into the folder's record
(with its start time, since a number alone may belong to a stranger by then), and
:func:`end_recorded` ends what the record names: at an orderly stop, by the reaper after the tests
were killed, or by the next start when even the reaper was killed.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

RECORD = "processes.jsonl"
PATIENCE_SECONDS = 10.0


class ProcessEnded(Exception):
    """A process of the cluster ended although it should run."""


class Processes:
    """Starts named processes and keeps the record of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started_with: dict[str, tuple[list[str], dict[str, str]]] = {}

    def start(
        self, name: str, command: Sequence[str | Path], *, environment: dict[str, str] | None = None
    ) -> None:
        """Start a process in a session of its own, its output in ``logs/NAME.log``."""
        arguments = [str(part) for part in command]
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (environment or {}),
                cwd=self.folder,
                start_new_session=True,
            )
        self._running[name] = process
        self._started_with[name] = (arguments, environment or {})
        row = {"name": name, "pid": process.pid, "started": start_time(process.pid)}
        with (self.folder / RECORD).open("a") as record:
            record.write(json.dumps(row) + "\n")

    def stop(self, name: str, *, kill: bool = False) -> None:
        """End one process and wait for it."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
            return
        process.kill()
        process.wait()

    def restart(self, name: str, *, kill: bool = False) -> None:
        """End one process and start it anew with the same command."""
        self.stop(name, kill=kill)
        command, environment = self._started_with[name]
        self.start(name, command, environment=environment)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to one process: SIGSTOP pauses it, SIGCONT lets it go on."""
        self._running[name].send_signal(number)

    def pid(self, name: str) -> int:
        """The process number, to look into its namespaces."""
        return self._running[name].pid

    def names(self) -> list[str]:
        """What runs now, in the order of the start."""
        return list(self._running)

    def check(self, name: str) -> None:
        """Raise with the end of the log when the process has ended."""
        code = self._running[name].poll()
        if code is not None:
            tail = (self.logs / f"{name}.log").read_text(errors="replace")[-2000:]
            raise ProcessEnded(f"{name} ended with {code}:\n{tail}")

    def stop_all(self) -> None:
        """End all at once: nothing they would write down is wanted."""
        for process in self._running.values():
            process.kill()
        for name in list(self._running):
            self.stop(name, kill=True)


def start_time(pid: int) -> str | None:
    """When a process started, as the kernel counts; None when it is gone or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def end_recorded(folder: Path) -> None:
    """End every process that the record of a cluster's folder names and that still runs."""
    record = folder / RECORD
    if not record.exists():
        return
    rows = [json.loads(line) for line in record.read_text().splitlines() if line.endswith("}")]
    for row in rows:
        if _is_same(row):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(row["pid"], signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(_is_same(row) for row in rows) and time.monotonic() < deadline:
        time.sleep(0.05)


def _is_same(row: dict[str, object]) -> bool:
    pid = row["pid"]
    return isinstance(pid, int) and row["started"] == start_time(pid) is not None

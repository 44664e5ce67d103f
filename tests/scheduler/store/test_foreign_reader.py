"""The real service while other programs look into its database: what it acknowledged stays."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import Unreachable

PATIENCE_S = 60
#: Other programs take turns with the service for the processors, not all of them.
BETWEEN_LOOKS_S = 0.1
#: What ``sqlite3 scheduler.db 'select count(*) from workloads'`` does.
READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("select count(*) from workloads").fetchall()
connection.close()
"""
#: What ``sqlite3 scheduler.db '.backup COPY'`` does.
BACKUP = """
import sqlite3, sys
source, copy = sqlite3.connect(sys.argv[1]), sqlite3.connect(sys.argv[2])
source.backup(copy)
copy.close()
source.close()
"""


class Service:
    """``python -m gpucommons.scheduler`` on a state folder of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.database = state / "scheduler.db"
        self.started: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        self._run("gpucommons.gpu.agent", str(self.state / "agent"), "--simulate", "1")
        self._wait(self._accepts)
        self.start()
        with self.ask() as client:
            me = client.send(calls.whoami()).name
            team = models.TeamModel(name="vision", members=[me])
            pools = [models.PoolModel(name="cpu")]
            client.send(calls.put_config(models.ConfigModel(pools=pools, teams=[team])))
            while not client.send(calls.nodes()).nodes:
                time.sleep(0.05)  # the agent is asked every second

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()

    def _run(self, module: str, folder: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, "--state", folder, *arguments]
        with (self.state / "log").open("ab") as log:
            self.started.append(
                subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            )

    def _wait(self, answers: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s and self.started[-1].poll() is None:
            if answers():
                return
            time.sleep(0.05)  # a real process takes real time
        raise AssertionError(self._story())

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.state / "agent" / "control.sock")) == 0

    def _answers(self) -> bool:
        """A connection is not enough: what a killed service was just starting keeps its socket for a moment."""
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(PATIENCE_S)
            connection.connect(str(self.state / "api.sock"))
            connection.sendall(b"GET /v1/whoami HTTP/1.0\r\n\r\n")
            return connection.recv(1) != b""
        return False

    def _story(self) -> str:
        log = (self.state / "log").read_text()[-4000:]
        return f"exit status {self.started[-1].poll()}, log: {log}"

    def start(self) -> None:
        self._run("gpucommons.scheduler", str(self.state), "--shared-account")
        self._wait(self._answers)

    @contextmanager
    def ask(self) -> Iterator[SchedulerClient]:
        with SchedulerClient(f"unix:{self.state / 'api.sock'}") as client:
            try:
                yield client
            except Unreachable as error:
                error.add_note(self._story())
                raise

    def submit(self, count: int) -> list[str]:
        found = []
        with self.ask() as client:
            for number in range(count):
                role = models.RoleRequest(command=["true"])
                request = models.JobRequest(name=f"job-{number}", roles=[role], pools=["cpu"])
                found.append(client.send(calls.submit(request)).id)
        return found

    def knows(self, jobs: list[str]) -> bool:
        with self.ask() as client:
            return {job.id for job in client.send(calls.jobs(limit=500)).jobs} >= set(jobs)

    @property
    def pid(self) -> int:
        return self.started[-1].pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.started[-1].wait()

    def restart(self) -> None:
        self.kill()
        self.start()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """In a short path: names of unix sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    made = Service(folder)
    try:
        made.begin()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def looking_in(service: Service, *programs: str, folder: Path) -> Iterator[None]:
    """Other programs come and go all the time."""
    over = threading.Event()

    def look(number: int, program: str) -> None:
        while not over.wait(BETWEEN_LOOKS_S):
            other_program(program, service.database, folder / f"copy-{number}.db")

    with ThreadPoolExecutor(len(programs)) as threads:
        looks = [threads.submit(look, *numbered) for numbered in enumerate(programs)]
        yield
        over.set()
        for one in looks:
            one.result()


def other_program(code: str, *arguments: Path) -> None:
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, timeout=60)


def test_it_keeps_its_locks_on_the_database(service: Service) -> None:
    service.submit(1)
    number = service.database.stat().st_ino
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    own = [one for one in held if one[4] == str(service.pid) and "POSIX" in one]
    #: Bytes that SQLite locks for as long as a connection to a database with a log is open.
    assert [one[3] for one in own if one[5].endswith(f":{number}")] == ["READ"], held


def test_what_it_acknowledged_after_a_reader_came_and_went_survives_kill_9(
    service: Service,
) -> None:
    other_program(READER, service.database)
    jobs = service.submit(5)
    service.restart()
    assert service.knows(jobs)


def test_nothing_is_lost_however_others_look_in_while_it_is_killed(
    service: Service, tmp_path: Path
) -> None:
    chance = random.Random(16)  # noqa: S311 - moments, not secrets
    jobs: list[str] = []
    for turn in range(3):
        with looking_in(service, READER, BACKUP, folder=tmp_path):
            for _ in range(chance.randint(1, 3)):
                jobs += service.submit(chance.randint(1, 3))
                time.sleep(chance.uniform(0, 0.3))  # other programs take real time
        if turn % 2:
            other_program(READER, service.database)
        service.restart()
        assert service.knows(jobs), turn


def test_a_backup_has_all_that_was_acknowledged_before_it(service: Service, tmp_path: Path) -> None:
    jobs = service.submit(3)
    copy = tmp_path / "copy.db"
    other_program(BACKUP, service.database, copy)
    later = service.submit(3)
    service.restart()
    assert service.knows(jobs + later)
    service.kill()
    for name in ("scheduler.db", "scheduler.db-wal", "scheduler.db-shm"):
        (service.state / name).unlink(missing_ok=True)
    shutil.copy(copy, service.database)
    service.start()
    assert service.knows(jobs)
    assert not service.knows(later)

"""The whole product with a real CRIU: what was stopped, a script for another team or a notebook's
kernel with its server, goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from integration.workstation import EXTRA, Workstation, until
from kernel_server import Page, criu_of_tests

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.models import JobView

pytestmark = [pytest.mark.hub, pytest.mark.criu, pytest.mark.timeout(400)]

#: One GPU for notebooks of vision, one that is nlp's; vision may borrow what stands idle.
CONFIG = """
pools:
  - {name: gpu, notice_s: 1, grace_s: 60, min_run_s: 0, lend_after_s: 0, unlent_permille: 0}
teams:
  - name: vision
    members: [alice]
    quotas: {gpu: {fixed_milli_gpu: 1000}}
  - name: nlp
    members: [bob]
    quotas: {gpu: {guaranteed_milli_gpu: 1000}}
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    criu = criu_of_tests()
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    one = Workstation(folder, config=CONFIG, gpus=2)
    # JupyterHub's own server instead of a small one.
    lines = [
        line
        for line in EXTRA.splitlines()
        if ".cmd" not in line and "GpuLocalSpawner.args" not in line
    ]
    (one.state / "jupyterhub_extra.py").write_text("\n".join(lines))
    try:
        with pytest.MonkeyPatch.context() as patch:
            # By the variable alone: parts and servers are told of it by `up` and by the hub.
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            patch.setenv("GPUCOMMONS_CRIU", criu)
            one.start()
        yield one
    finally:
        if one.process is not None and one.process.poll() is None:
            one.send(signal.SIGINT)
        one.api.close()
        shutil.rmtree(folder)


#: Nothing of ours in it, and nothing of its state on disk. Each line is one call of the system.
PLAIN = """
import os, sys, time
total = step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    total += step * step
    os.write(1, b"step %d\\n" % step)
    time.sleep(0.05)
os.write(1, b"total %d\\n" % total)
"""


class Person:
    """Somebody with a terminal in the hub."""

    def __init__(self, machine: Workstation, user: str) -> None:
        ports = json.loads((machine.state / "ports.json").read_text())
        self.client = machine.scheduler(machine.user_token(user))
        self.environ = {
            **{name: one for name, one in os.environ.items() if not name.startswith("GPUCOMMONS_")},
            "GPUCOMMONS_URL": f"http://127.0.0.1:{ports['api']}",
            "GPUCOMMONS_API_TOKEN": machine.user_token(user),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def type(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("gpucommons")), *words],
            env=self.environ,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def job(self, name: str) -> JobView:
        return self.client.send(calls.job(name))

    def lines(self, name: str, attempt: int) -> int:
        found = self.job(name).attempts
        if len(found) < attempt or not found[attempt - 1].started_ms:
            return 0
        return len(self.client.send(calls.log(name, attempt=attempt)).lines)


def test_a_plain_script_that_another_team_takes_the_gpu_of_goes_on_and_repeats_no_step(
    machine: Workstation, tmp_path: Path
) -> None:
    with Person(machine, "alice") as alice, Person(machine, "bob") as bob:
        _play(alice, bob, tmp_path)


def _play(alice: Person, bob: Person, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    enough = tmp_path / "enough"
    until(lambda: _saves(alice), "the trial of what the machine can save")
    said = alice.type(
        *("submit", "plain.py", "--gpus", "2", "--name", "plain", "--", str(enough)), cwd=tmp_path
    )
    name = next(iter(re.findall(r"plain-\d+", said.stdout)))
    until(lambda: alice.lines(name, 1) > 20, "the first steps")
    way = alice.job(name).way_to_go_on
    assert way is not None
    assert way.text.startswith("goes on where it stopped: its memory is saved when it is stopped")

    bob.type("submit", "--gpus", "1", "--name", "urgent", "--", "sleep", "3")
    until(lambda: alice.job(name).attempts[0].ended_ms, "the stop for nlp")

    stopped = alice.job(name)
    assert re.fullmatch(
        r"Stopped for nlp \(its guarantee\): goes on where it stopped\."
        r" \d+ MiB of memory saved in \d+ s\. 0 steps lost",
        stopped.attempts[0].ended_text or "",
    ), stopped.attempts[0]
    assert stopped.lost_milli_gpu_s == 0
    until(lambda: bob.job("urgent-1").state == "succeeded", "the end of nlp's job")
    until(lambda: alice.lines(name, 2) > 0, "the next steps")
    enough.touch()
    until(lambda: alice.job(name).state == "succeeded", "the end of the script")

    log = alice.type("logs", name)
    *steps, total = log.stdout.splitlines()
    assert steps == [f"step {n}" for n in range(1, len(steps) + 1)]
    assert total == f"total {sum(n * n for n in range(1, len(steps) + 1))}"
    assert log.stderr == "--- attempt 1 ---\n--- attempt 2 ---\n"
    over = alice.job(name)
    assert [(one.number, one.woken_from) for one in over.attempts] == [(1, None), (2, 1)]
    assert "woken from attempt 1" in alice.type("show", name).stdout


def _saves(person: Person) -> bool:
    [pool] = person.client.send(calls.pools()).pools
    assert not pool.hibernation_text.startswith("Jobs are not"), pool
    return bool(pool.hibernation_text)


class UsersServer:
    """As a page of this user's sees it."""

    def __init__(self, machine: Workstation, user: str) -> None:
        self.url = f"{machine.url}/user/{user}"
        self.token = machine.user_token(user)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        answer = httpx.request(
            method,
            f"{self.url}/{path}",
            headers={"Authorization": f"token {self.token}"},
            json=body,
            timeout=60,
            trust_env=False,
        )
        answer.raise_for_status()
        return answer.json()

    def run(self, kernel: str, code: str) -> str:
        page = Page(f"{self.url.replace('http', 'ws', 1)}/api/kernels/{kernel}", self.token)
        try:
            return page.run(code)
        finally:
            page.close()


def test_a_kernel_outlives_its_server_and_the_page_that_starts_it_says_so(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 500).status_code == 201
    server = UsersServer(machine, "alice")
    session = server.ask(
        "POST",
        "api/sessions",
        {"path": "a.ipynb", "name": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}},
    )
    kernel = session["kernel"]["id"]
    server.run(kernel, "x = 41")
    [lease] = machine.leases("alice")

    begun = time.monotonic()
    machine.close("alice")
    stop_s = time.monotonic() - begun

    assert stop_s < 30
    with machine.scheduler() as scheduler:
        kept = scheduler.send(calls.offers("alice")).kept
    assert kept is not None
    assert kept.text.startswith("Your kernel (")
    assert machine.open("alice", 1000).status_code == 201
    assert [each["id"] for each in server.ask("GET", "api/sessions")] == [session["id"]]
    told = server.run(kernel, "import os; print(x + 1, os.environ['GPUCOMMONS_LEASE_ID'])")
    value, new_lease = told.split()
    assert value == "42"
    assert new_lease == machine.leases("alice")[0].id != lease.id

"""The whole product with a real CRIU: what was stopped, a script for another team or a notebook's
kernel with its server, goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from integration.workstation import Workstation, kept_machine, log_in, start_lab, until
from playwright.sync_api import Browser, expect

from gpucommons.scheduler.client import calls
from gpucommons.scheduler.models import JobView
from tests.ui.kept_lab import output, prompt, run
from tests.ui.product import (
    PATIENCE_MS,
    WIDE,
    picture,
    write_notebook,
)

pytestmark = [pytest.mark.hub, pytest.mark.criu, pytest.mark.timeout(400)]

#: Longer than Lab takes to load, on a busy machine too.
IDLE_AFTER_S = 25


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    with kept_machine(idle_after_s=IDLE_AFTER_S) as one:
        yield one


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

    bob.type("submit", "--gpus", "1", "--name", "urgent", "--", "sleep", "3", cwd=tmp_path)
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


NOTEBOOK = (
    """import threading, time
x, ticks = 41, []
def tick():
    while True:
        ticks.append(1)
        time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()""",
    """before = len(ticks)
time.sleep(0.5)
import os
print(x + 1, len(ticks) > before, os.environ["GPUCOMMONS_LEASE_ID"])""",
)


@pytest.mark.ui
def test_a_notebook_that_was_culled_goes_on_in_its_tab_after_another_login_and_a_reload(
    machine: Workstation, browser: Browser
) -> None:
    write_notebook(machine.state / "homes" / "alice" / "work.ipynb", *NOTEBOOK)
    context = browser.new_context(locale="en-GB", timezone_id="UTC", viewport=WIDE)
    context.set_default_timeout(PATIENCE_MS)
    page, other = context.new_page(), context.new_page()
    log_in(page, machine)
    start_lab(page, "½")
    page.goto(f"{machine.url}/user/alice/lab/tree/work.ipynb")
    is_idle = page.get_by_text(re.compile(r"\| Idle$"))
    is_idle.wait_for()
    run(page, 0)
    expect(prompt(page, 0)).to_have_text("[1]:")
    [lease] = machine.leases("alice")

    other.goto(f"{machine.url}/hub/logout")
    expect(other.get_by_role("button", name="Sign in")).to_be_visible()
    # The tab is open, and its thread runs: neither is work.
    until(lambda: machine.server("alice") is None, "the culler's turn")

    log_in(other, machine)
    said = other.locator(".gpucommons")
    expect(said).to_contain_text(re.compile(r"Stopped at \d\d:\d\d: idle"))
    expect(said).to_contain_text(re.compile(r"Your kernel \(\d+ MiB\) is kept until \d+ \w+"))
    picture(other, "start-after-cull")
    start_lab(other, "1")
    other.close()

    # Nobody was logged in who could have answered it: Lab takes its kernel for dead until then.
    page.reload()
    is_idle.wait_for()
    run(page, 1)
    [again] = machine.leases("alice")
    assert again.id != lease.id
    expect(output(page, 1)).to_have_text(f"42 True {again.id}")
    picture(page, "notebook-after-cull")
    context.close()

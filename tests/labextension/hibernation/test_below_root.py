"""Kernels of a server whose user may make no user namespaces: root's program starts and wakes them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from below_root import hub
from below_root.homes import home_of_user
from below_root.notebook_server import USER, BelowRoot
from kernel_server import criu_of_tests, until

from gpucommons.gpu.hibernation.tree import INIT
from tests.labextension.hibernation.conftest import end_servers
from tests.labextension.hibernation.server_state import (
    kept,
    kernel_folder,
    kernels_of,
    lost,
    opened,
)

pytestmark = [
    pytest.mark.criu,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root starts trees for others"
    ),
]
Begin = Callable[..., BelowRoot]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start a server in the same home again and again; everything of it is gone at the end."""
    servers: list[BelowRoot] = []
    with home_of_user() as home:

        def start(criu: str = "") -> BelowRoot:
            made = BelowRoot(home, criu=criu or criu_of_tests())
            servers.append(made)
            made.start()
            return made

        yield start
        end_servers(list(servers))
        for left in psutil.process_iter(["uids"]):
            if left.info["uids"] and left.info["uids"].real == USER and _of(left, home):
                left.kill()


def _of(process: psutil.Process, home: Path) -> bool:
    try:
        return str(home) in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _keeps(server: BelowRoot) -> None:
    until(lambda: server.greeting("hello")["keeps"] == "kernels", "the self-test")


def _trees(home: Path) -> list[psutil.Process]:
    """What stands for trees of this home now; PID 1 of each is below it."""
    found = {
        one.pid: one
        for one in psutil.process_iter(["cmdline", "ppid"])
        if str(INIT) in (one.info["cmdline"] or ())
        and any(word.startswith(str(home)) for word in one.info["cmdline"])
    }
    return [one for one in found.values() if one.info["ppid"] not in found]


_COUNTS = """
import os, time
for n in range(1000):
    print(n, flush=True)
    if os.path.exists("enough"): break
    time.sleep(0.05)
print("over")
"""


@pytest.mark.parametrize("forbidden_to", ["users", "all"])
def test_kernels_come_back_and_a_cell_goes_on(
    begin: Begin, forbidden_to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(hub.FORBIDS, forbidden_to)
    first = begin()
    variable, session = opened(first)
    busy, _ = opened(first, "b.ipynb")
    assert first.page(variable).run("import os; x = 41; print(os.getuid())") == str(USER)
    page = first.page(busy)
    cell = page.send(_COUNTS)
    page.printed(cell, until="5\n")
    _keeps(first)
    first.stop()
    assert set(kept(first)) == {variable, busy}
    assert _trees(first.home) == []

    second = begin()

    assert kernels_of(second) == {variable, busy}
    again = second.page(busy, page.session)
    # What is said in the moment of the wake nobody hears yet, so the cell goes on for a while.
    printed = again.printed(cell, until="60\n")
    (second.work / "enough").touch()
    printed += again.printed(cell, until="over\n")
    numbers = [int(each) for each in printed.split() if each.isdigit()]
    assert numbers == sorted(set(numbers))
    assert second.page(variable).run("print(x + 1, os.getuid())") == f"42 {USER}"
    rights = "print({l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')})"
    assert second.page(variable).run(rights) == "{'0000000000000000'}"
    assert session in {each["id"] for each in second.ask("GET", "api/sessions")}
    assert lost(second) == {}
    second.ask("POST", f"api/kernels/{variable}/restart")
    assert "NameError" in second.page(variable).run("x")
    second.ask("DELETE", f"api/kernels/{variable}")
    assert not any(second.home.rglob(f"kernels/{variable}"))


@pytest.mark.parametrize("who", ["server", "program"])
def test_a_kernel_whose_server_or_its_program_is_killed_saves_itself(
    begin: Begin, who: str
) -> None:
    first = begin()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 41")
    _keeps(first)
    until((kernel_folder(first, kernel) / "record.json").exists, "the note")
    server = first.server()

    getattr(first, who)().send_signal(signal.SIGKILL)

    psutil.wait_procs([server], 30)
    assert not server.is_running()
    until(lambda: _trees(first.home) == [], "the save")
    second = begin()
    assert second.page(kernel).run("print(x + 1)") == "42"
    assert len(_trees(second.home)) == 1


def test_a_hub_that_is_killed_changes_nothing_for_its_servers(begin: Begin) -> None:
    first = begin()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 41")
    program = first.program()
    assert first.process is not None

    first.process.kill()
    first.process.wait()

    assert first.page(kernel).run("print(x + 1)") == "42"
    opened(first, "b.ipynb")
    program.send_signal(signal.SIGTERM)
    program.wait(60)
    assert kernel in kept(first)
    assert begin().page(kernel).run("print(x + 2)") == "43"


def test_kernels_wait_where_roots_program_cannot_start_them(begin: Begin) -> None:
    """As below a hub whose own trial failed once."""
    first = begin()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 41")
    _keeps(first)
    first.stop()
    told = kept(first)

    second = begin("-")

    assert "NameError" in second.page(kernel).run("x")
    assert lost(second)[kernel]["kept_until_ms"] == told[kernel]["kept_until_ms"]
    second.stop()
    assert kept(second) == told
    third = begin()
    assert third.page(kernel).run("print(x + 1)") == "42"
    assert lost(third) == {}

"""A notebook server of the whole product: stopped by the hub, started again, its kernel goes on."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from integration.workstation import EXTRA, Workstation
from kernel_server import Page, criu_of_tests

from gpucommons.scheduler.client import calls

pytestmark = [pytest.mark.hub, pytest.mark.criu, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    criu = criu_of_tests()
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    one = Workstation(folder)
    # JupyterHub's own server instead of a small one.
    lines = [
        line
        for line in EXTRA.splitlines()
        if ".cmd" not in line and "GpuLocalSpawner.args" not in line
    ]
    (one.state / "jupyterhub_extra.py").write_text("\n".join(lines))
    try:
        with pytest.MonkeyPatch.context() as patch:
            # As `gpucommons hibernation setup` leaves it: the hub's spawner tells its servers of it.
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            if Path(criu).is_dir():
                (folder / "state" / "gpucommons" / "criu").mkdir(parents=True)
                (folder / "state" / "gpucommons" / "criu" / "root").symlink_to(criu)
            one.start()
        yield one
    finally:
        if one.process is not None and one.process.poll() is None:
            one.send(signal.SIGINT)
        one.api.close()
        shutil.rmtree(folder)


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

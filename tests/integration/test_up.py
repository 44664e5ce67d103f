"""``gpucommons up`` with everything real: hub, proxy, scheduler, agent, culler, processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from integration.workstation import Workstation, alive, until

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.models import LeaseRequest

pytestmark = [pytest.mark.hub, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    one = Workstation(folder)
    try:
        one.start()
        yield one
    finally:
        one.end()


@pytest.fixture(autouse=True)
def _nothing_left(machine: Workstation) -> Iterator[None]:
    yield
    if machine.process is not None and machine.process.poll() is None:
        for user in ("alice", "ada"):
            machine.close(user)


def test_the_screen_names_users_and_simulation(machine: Workstation) -> None:
    text = machine.output.read_text()
    assert machine.url in text
    assert "ada (vision), admin (GPU admin), alice (vision)" in text
    assert "simulated" in text


def test_half_a_gpu_is_held_by_the_servers_own_process(machine: Workstation) -> None:
    assert machine.open("alice", 500).status_code == 201
    [lease] = machine.leases("alice")
    assert lease.state == "active"
    assert lease.slice is not None
    assert (lease.team, lease.slice.milli_gpu, lease.slice.simulated) == ("vision", 500, True)
    answer = httpx.get(f"{machine.url}/user/alice/", timeout=60, trust_env=False)
    assert answer.text == lease.id
    agent = AgentClient(machine.state / "agent" / "control.sock")
    pids = agent.reading(SliceId(lease.slice.slice_id)).pids
    assert any("small_server.py" in " ".join(psutil.Process(pid).cmdline()) for pid in pids)
    machine.close("alice")


def test_a_full_team_is_refused_with_a_sentence_and_nothing_waits_in_the_hub(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 1000).status_code == 201
    answer = machine.open("ada", 500)
    assert answer.status_code == 409
    assert "vision" in answer.json()["message"]
    assert machine.server("ada") is None
    assert machine.open("ada", 0).status_code == 201


def test_a_ticket_survives_a_killed_hub_and_starts_its_server_on_its_turn(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 1000).status_code == 201
    with machine.scheduler(machine.user_token("ada")) as ada:
        ticket = ada.send(calls.wait_in_line(LeaseRequest(milli_gpu=500)))
    assert ticket.state == "waiting"
    assert machine.server("ada") is None
    hub = machine.pids()["hub"]
    os.kill(hub, signal.SIGKILL)
    until(lambda: machine.pids().get("hub") not in (None, hub), "a new hub")
    until(lambda: machine.is_ready("alice"), "the return of the hub")
    assert [lease.id for lease in machine.leases("ada")] == [ticket.id]
    machine.close("alice")
    until(lambda: machine.is_ready("ada"), "the start of the ticket's server")
    [lease] = machine.leases("ada")
    assert (lease.state, lease.slice is not None) == ("active", True)


@pytest.mark.parametrize("name", ["agent", "scheduler", "culler", "proxy", "hub"])
def test_a_killed_part_comes_back_and_the_notebook_keeps_its_slice(
    machine: Workstation, name: str
) -> None:
    assert machine.open("alice", 500).status_code == 201
    [before] = machine.leases("alice")
    killed = machine.pids()[name]
    os.kill(killed, signal.SIGKILL)
    until(lambda: machine.pids().get(name) not in (None, killed), f"a new {name}")
    until(lambda: machine.is_ready("alice"), "the notebook")
    until(lambda: _decides(machine), "the scheduler")
    [after] = machine.leases("alice")
    assert (after.id, after.state, after.slice) == (before.id, "active", before.slice)
    until(
        lambda: (
            httpx.get(f"{machine.url}/user/alice/", timeout=60, trust_env=False).text == before.id
        ),
        "the way to the notebook",
    )


def _decides(machine: Workstation) -> bool:
    ports = json.loads((machine.state / "ports.json").read_text())
    try:
        answer = httpx.get(f"http://127.0.0.1:{ports['api']}/healthz", timeout=60, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.is_success


def test_a_second_up_on_the_same_state_is_refused(machine: Workstation) -> None:
    second = subprocess.run(
        machine.command, capture_output=True, text=True, timeout=90, check=False
    )
    assert second.returncode == 1
    assert "runs already on" in second.stderr
    assert machine.is_ready("nobody") is False
    assert all(alive(pid) for pid in machine.pids().values())


def test_a_killed_up_leaves_no_part_and_the_next_takes_its_notebooks_up(
    machine: Workstation,
) -> None:
    assert machine.open("alice", 500).status_code == 201
    [before] = machine.leases("alice")
    parts = machine.pids()
    machine.send(signal.SIGKILL)
    until(lambda: not any(map(alive, parts.values())), "the end of every part")
    machine.start()
    until(lambda: machine.is_ready("alice"), "the notebook's return")
    [after] = machine.leases("alice")
    assert (after.id, after.state) == (before.id, "active")
    assert httpx.get(f"{machine.url}/user/alice/", timeout=60, trust_env=False).text == before.id


def test_ctrl_c_ends_notebooks_and_parts_and_says_what_stays(machine: Workstation) -> None:
    assert machine.open("alice", 500).status_code == 201
    [lease] = machine.leases("alice")
    assert lease.slice is not None
    agent = AgentClient(machine.state / "agent" / "control.sock")
    servers = agent.reading(SliceId(lease.slice.slice_id)).pids
    parts = machine.pids()
    assert machine.send(signal.SIGINT) == 0
    assert not any(map(alive, (*parts.values(), *servers)))
    assert "Training jobs keep running" in machine.output.read_text()
    assert machine.pids() == {}


def test_no_secret_is_in_any_log(machine: Workstation) -> None:
    files = list((machine.state / "tokens").iterdir())
    for secret in [*(path.read_text() for path in files), machine.token]:
        for log in (machine.state / "logs").iterdir():
            assert secret not in log.read_text(errors="replace"), log

"""A kernel's ports are chosen seconds before it listens there: who else may have them by then."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernel_server import KernelServer, criu_of_tests, until

from gpucommons.gpu.hibernation.refusals import PORT_TAKEN
from tests.labextension.hibernation.conftest import end_servers
from tests.labextension.hibernation.server_state import lost, opened, sessions

pytestmark = [pytest.mark.criu, pytest.mark.timeout(180)]

#: Somebody listens at the first port that is chosen.
_TAKEN = """
import socket
from jupyter_client.connect import LocalPortCache
_find, _held = LocalPortCache.find_available_port, []
def _first_is_taken(self, ip):
    port = _find(self, ip)
    if not _held:
        _held.append(socket.create_server((ip, port)))
    return port
LocalPortCache.find_available_port = _first_is_taken
"""

#: Binds each of its ports as no server should: it has it alone, or not at all.
_STUBBORN = """
import json, runpy, socket, sys
told = json.load(open(sys.argv[-1]))
for name in told:
    if name.endswith("_port"):
        with socket.socket() as alone:
            alone.bind((told["ip"], told[name]))
runpy.run_module("ipykernel_launcher", run_name="__main__")
"""

#: Somebody listens at a port of a kernel that wakes, after it was chosen and before the kernel does.
_QUICKER = """
import socket
from gpucommons.labextension.hibernation.provisioner import HibernatingProvisioner as _Woken
_take, _thieves = _Woken._take_connection, []
def _is_robbed(self, record, tree):
    moved = _take(self, record, tree)
    if len(_thieves) < {times}:
        thief = socket.socket()
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind((moved.connection["ip"], moved.connection["shell_port"]))
        thief.listen()
        _thieves.append(thief)
    return moved
_Woken._take_connection = _is_robbed
"""
#: Dies without a word where the image listens elsewhere, and nobody else has heard of it.
_KILLED = """
import os, signal
from gpucommons.labextension.hibernation import provisioner
_move = provisioner.move_ports
def _is_killed(image, moved):
    _move(image, moved)
    os.kill(os.getpid(), signal.SIGKILL)
provisioner.move_ports = _is_killed
"""
_COUNTS = """
import os, time
n = 0
while not os.path.exists("enough"):
    print(n, flush=True)
    n += 1
    time.sleep(0.02)
"""

Begin = Callable[[str], KernelServer]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    servers: list[KernelServer] = []

    def start(prelude: str) -> KernelServer:
        environ = {"GPUCOMMONS_CRIU": criu_of_tests()}
        made = KernelServer(tmp_path / "home", environ, prelude=prelude)
        servers.append(made)
        return made.start()

    yield start
    end_servers(servers)


def test_a_kernel_listens_elsewhere_where_somebody_has_a_port(begin: Begin) -> None:
    server = begin(_TAKEN)

    kernel = server.open_notebook("a.ipynb")["kernel"]["id"]

    assert server.page(kernel).run("print(6 * 7)") == "42"
    assert "restarting kernel" not in server.log.read_text()


def test_a_kernel_that_must_have_its_ports_alone_has_them_at_its_second_start(
    begin: Begin,
) -> None:
    server = begin("")
    folder = server.home / "data" / "kernels" / "stubborn"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-c", _STUBBORN, "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Stubborn", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))

    kernel = server.ask("POST", "api/kernels", {"name": "stubborn"})["id"]

    assert server.page(kernel).run("print(6 * 7)") == "42"
    assert "restarting kernel (1/5)" in server.log.read_text()
    assert "restarting kernel (2/5)" not in server.log.read_text()


def test_a_kernel_whose_new_port_is_taken_while_it_wakes_wakes_at_others(begin: Begin) -> None:
    server = begin("")
    kernel, session = opened(server)
    page = server.page(kernel)
    page.run("x = 41")
    number = page.send(_COUNTS, cell="c1")
    early = page.printed(number, until="10\n")
    server.stop()
    server.prelude = _QUICKER.format(times=2)

    server.start()

    until(lambda: server.log.read_text().count("wakes at other ports") == 2, "the third try")
    page = server.page(kernel, page.session)
    before = len(_recorded(server))
    until(lambda: len(_recorded(server)) > before + 20, "that the cell goes on")
    (server.work / "enough").touch()
    page.until_done(number)
    told = _recorded(server)
    assert told == list(range(len(told))), f"after {early}"
    assert page.run("print(x + 1)") == "42"
    assert sessions(server) == {session: kernel}
    assert lost(server) == {}


def test_one_whose_ports_are_always_taken_waits_for_a_later_start(begin: Begin) -> None:
    server = begin("")
    kernel, _ = opened(server)
    server.page(kernel).run("x = 41")
    server.stop()
    server.prelude = _QUICKER.format(times=100)

    server.start()

    [said] = until(lambda: lost(server).values(), "what became of it")
    assert (said["because"], said["kept_until_ms"] > 0) == (PORT_TAKEN, True)
    assert server.page(kernel).run("print('x' in dir())") == "False"
    server.stop()
    server.prelude = ""
    server.start()
    assert server.page(kernel).run("print(x + 1)") == "42"
    assert lost(server) == {}


def test_a_server_that_is_killed_between_moving_ports_and_noting_them_loses_nothing(
    begin: Begin,
) -> None:
    server = begin("")
    kernel, session = opened(server)
    server.page(kernel).run("x = 41")
    server.stop()
    server.prelude = _KILLED
    for _ in range(2):
        with pytest.raises(AssertionError):
            server.start()

    server.prelude = ""
    server.start()

    assert server.page(kernel).run("print(x + 1)") == "42"
    assert sessions(server) == {session: kernel}
    assert lost(server) == {}


def _recorded(server: KernelServer) -> list[int]:
    [run] = server.ask("GET", "gpucommons/cell-runs?path=a.ipynb")["runs"]
    return [int(n) for one in run["messages"] for n in one["content"]["text"].split()]

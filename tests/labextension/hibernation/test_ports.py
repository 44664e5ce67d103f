"""A kernel's ports are chosen seconds before it listens there: who else may have them by then."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernel_server import KernelServer, criu_of_tests

from tests.labextension.hibernation.conftest import end_servers

pytestmark = [pytest.mark.criu, pytest.mark.timeout(120)]

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

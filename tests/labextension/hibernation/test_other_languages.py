"""A kernel that is no Python one: here Bash, with a shell below it that has a terminal of its own."""

from __future__ import annotations

import json
import sys

import pytest
from kernel_server import KernelServer, Start, until

from tests.labextension.hibernation.server_state import lost

pytestmark = pytest.mark.criu
pytest.importorskip("bash_kernel")


def _add_kernel(server: KernelServer) -> None:
    folder = server.home / "data" / "kernels" / "bash"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    described = {"argv": argv, "display_name": "Bash", "language": "bash"}
    (folder / "kernel.json").write_text(json.dumps(described))


def test_a_kernel_of_another_language_goes_on_with_what_it_had(start: Start) -> None:
    first = start()
    _add_kernel(first)
    asked = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "bash"}}
    kernel = first.ask("POST", "api/sessions", asked)["kernel"]["id"]
    first.page(kernel).run("x=41; cd /usr")
    until(lambda: first.greeting("hello")["keeps"] == "kernels", "the self-test")

    first.stop()
    second = start()

    assert second.page(kernel).run("echo $x $PWD") == "41 /usr"
    assert lost(second) == {}

"""A real server without CRIU: what a cell printed with no page open outlives its kernel."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from kernel_server import KernelServer, Page, until

from gpucommons.labextension.outputs.cell_runs import FILE
from tests.labextension.hibernation.conftest import end_servers

_PRINTS = "import time\nfor n in range(20):\n    print(n, flush=True)\n    time.sleep(0.05)"
_EVERYTHING = [str(n) for n in range(20)]


def _runs(server: KernelServer) -> list[dict[str, object]]:
    found: list[dict[str, object]] = server.ask("GET", "gpucommons/cell-runs?path=a.ipynb")["runs"]
    return found


def _printed(server: KernelServer) -> str:
    [run] = server.ask("GET", "gpucommons/cell-runs?path=a.ipynb")["runs"]
    return "".join(each["content"]["text"] for each in run["messages"])


def test_a_cell_runs_until_its_end_and_outputs_that_no_page_has_shown_are_there_at_the_next_start(
    tmp_path: Path,
) -> None:
    server = KernelServer(tmp_path, {"GPUCOMMONS_HIBERNATE_KERNELS": "0"})
    try:
        _play(server)
    finally:
        end_servers([server])


def _answers_beside(server: KernelServer, page: Page) -> None:
    """A widget is answered on a subshell while a cell runs, as JupyterLab asks for all when it connects."""
    cell = "import os, time\nwhile not os.path.exists('enough'): time.sleep(0.02)"
    long = page.send(cell, cell="c0")
    asked = page.messages(page.send("{}", "control", "create_subshell_request"))
    subshell = next(one for one in asked if one["channel"] == "control")["content"]["subshell_id"]
    widget = '{"comm_id": "c", "target_name": "none", "data": {}}'
    said = page.messages(page.send(widget, kind="comm_open", subshell=subshell))
    states = (one["content"].get("execution_state") for one in said)
    assert next(state for state in states if state != "busy" and state is not None) == "idle"

    assert server.ask("GET", "api/kernels")[0]["execution_state"] == "busy"
    (server.work / "enough").touch()
    page.until_done(long)
    until(lambda: server.ask("GET", "api/kernels")[0]["execution_state"] == "idle", "its end")


def _play(server: KernelServer) -> None:
    server.start()
    kernel = server.open_notebook("a.ipynb")["kernel"]["id"]
    page = server.page(kernel)
    _answers_beside(server, page)
    seen = page.send("print('seen')", cell="c1")
    assert page.until_done(seen) == "seen\n"
    number = page.send(_PRINTS, cell="c2")
    page.printed(number, until="2\n")
    server.hang_up()
    until(lambda: [run["state"] for run in _runs(server)] == ["done"], "the end of the cell")
    assert _printed(server).split() == _EVERYTHING, "and nothing of what its page has shown"

    server.stop()
    server.start()

    [run] = _runs(server)
    assert (run["cell_id"], run["state"], run["code"]) == ("c2", "done", _PRINTS)
    assert _printed(server).split() == _EVERYTHING
    server.ask("POST", "gpucommons/cell-runs", {"runs": [run["id"]]})
    assert _runs(server) == []


def test_what_a_cell_printed_a_while_before_its_server_was_killed_is_there_at_the_next_start(
    tmp_path: Path,
) -> None:
    server = KernelServer(tmp_path, {"GPUCOMMONS_HIBERNATE_KERNELS": "0"})
    try:
        server.start()
        page = server.page(server.open_notebook("a.ipynb")["kernel"]["id"])
        page.printed(page.send(f"{_PRINTS}\ntime.sleep(600)", cell="c1"), until="19\n")
        until(lambda: _written(server) == _EVERYTHING, "the write")

        server.stop(signal.SIGKILL)
        server.start()

        assert [run["state"] for run in _runs(server)] == ["ended"]
        assert _printed(server).split() == _EVERYTHING
    finally:
        end_servers([server])


def _written(server: KernelServer) -> list[str]:
    """What is on disk of the one cell that prints."""
    found = [each.read_text() for each in server.home.rglob(FILE)]
    runs = [run for text in found for run in json.loads(text)["runs"]]
    messages = [one for run in runs for one in run["messages"]]
    return "".join(one["content"].get("text", "") for one in messages).split()

"""A server that is killed has not written down all that it heard: its kernels remember what they said last."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_server import KernelServer, criu_of_tests, until

from gpucommons.labextension.outputs.cell_runs import FILE
from tests.labextension.hibernation.conftest import end_servers
from tests.labextension.hibernation.server_state import opened, state

pytestmark = [pytest.mark.criu, pytest.mark.timeout(180)]

#: As on a machine where each write takes long: but for a cell that is begun nothing is written for 15 s.
_SELDOM = """
from gpucommons.labextension.outputs import listening
listening._WORK_TO_PAUSE, listening._WORK_TO_PAUSE_AT_BEGIN = 1e9, 0
listening._LEAST_PAUSE_S, listening.pause_s = 0.2, lambda _took, ratio=1e9: 15.0 if ratio else 0.2
"""
#: Two hundred lines a second, until it is told that they are enough.
_PRINTS = """
import os, time
n = 0
while not os.path.exists("enough"):
    print(n, flush=True)
    n += 1
    time.sleep(0.005)
"""
_REMEMBERS = "print(hasattr(get_ipython().kernel.iopub_thread, '_gpucommons_since'))"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KernelServer]:
    made = KernelServer(tmp_path / "home", {"GPUCOMMONS_CRIU": criu_of_tests()}, prelude=_SELDOM)
    yield made.start()
    end_servers([made])


def _lines(run: dict[str, object]) -> list[int]:
    return [int(n) for one in run["messages"] for n in one["content"]["text"].split()]  # type: ignore[attr-defined]


def _recorded(server: KernelServer) -> list[int]:
    [run] = server.ask("GET", "gpucommons/cell-runs?path=a.ipynb")["runs"]
    return _lines(run)


def _written(server: KernelServer) -> list[int]:
    [file] = (server.home / "state").rglob(FILE)
    return [n for run in json.loads(file.read_text())["runs"] for n in _lines(run)]


def test_not_one_line_is_lost_and_none_doubled_where_a_server_is_killed_twice(
    server: KernelServer,
) -> None:
    kernel, _ = opened(server)
    page = server.page(kernel)
    until(lambda: page.run(_REMEMBERS) == "True", "that its kernel is asked to remember")
    page.printed(page.send(_PRINTS, cell="c1"), until="\n300\n")

    for _ in range(2):
        assert len(_written(server)) < 200, "nearly all that was heard is lost with its server"
        server.stop(signal.SIGKILL)
        server.start()
        before = _recorded(server)
        until(lambda: len(_recorded(server)) > len(before) + 100, "that it prints on", 20)  # noqa: B023
    (server.work / "enough").touch()
    until(lambda: state(server, kernel) == "idle", "the end of the cell")

    told = _recorded(server)
    assert told == list(range(len(told)))
    assert len(told) > 500

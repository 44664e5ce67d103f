"""Kernels of a real server, saved by a real CRIU and woken.

A server costs seconds: what one stop and one start can tell of several kernels is told by one fixture.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import websocket
from kernel_server import KernelServer, Page, Start, until

from tests.labextension.hibernation.server_state import (
    kept,
    kernel_folder,
    kernels_of,
    lost,
    opened,
    sessions,
    state,
    stop_while_a_page_asks,
)

pytestmark = pytest.mark.criu

_DEBUGGER = json.dumps({"type": "request", "seq": 1, "command": "initialize", "arguments": {}})

#: Says by which id a page moves the slider.
_LIVE = """
import ipywidgets, time
moved, slider, book = [], ipywidgets.IntSlider(5), open("book.txt", "a")
slider.observe(lambda change: moved.append(change["new"]), "value")
def tick():
    while True:
        ticks.append(1)
        time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()
print(slider.comm.comm_id)
"""


@dataclass(frozen=True, kw_only=True)
class Woken:
    """A server after a stop and a start, and what was there before."""

    server: KernelServer
    kernels: dict[str, str]
    sessions: dict[str, str]
    kept: dict[str, dict[str, Any]]
    said_before: tuple[str, list[Any]]
    slider: str
    #: A page and its cell that waits for an answer.
    asking: tuple[str, str]
    unused_since: str
    #: Kernels, as a page that asks all the time was told of them during the stop.
    told_at_the_stop: list[set[str]]


@pytest.fixture(scope="module")
def woken(fresh_servers: Callable[[], AbstractContextManager[Start]]) -> Iterator[Woken]:
    with fresh_servers() as servers:
        yield _woken(servers)


def _woken(servers: Start) -> Woken:
    first = servers(GPUCOMMONS_LEASE_ID="old", GPUCOMMONS_NODE="node-1", NVIDIA_OLD="1")
    names = ("variables", "environment", "debugger", "other", "asking", "unused")
    made = {name: opened(first, f"{name}.ipynb") for name in names}
    kernels = {name: kernel for name, (kernel, _) in made.items()}
    for kernel in kernels.values():
        code = "x = 41; import os, threading; ticks = []; os.environ['MINE'] = 'kept'"
        first.page(kernel).run(code)
    slider = first.page(kernels["other"]).run(_LIVE)
    asking = first.page(kernels["asking"])
    cell = asking.send("print('hello', input('name? '), x)", may_ask=True)
    next(one for one in asking.messages(cell) if one["msg_type"] == "input_request")
    debugger = first.page(kernels["debugger"])
    until(lambda: _debugger_says(debugger)["success"], "the debugger's start")
    until(lambda: first.greeting("hello")["keeps"] == "kernels", "the self-test")
    said = ("kernels", first.greeting("kernels")["woken"])
    unused = kernels["unused"]
    until(lambda: state(first, unused) == "idle", "the end of the cell")
    since = first.ask("GET", f"api/kernels/{unused}")["last_activity"]
    told = stop_while_a_page_asks(first)
    held = kept(first)
    _write_into_the_history_of(first)
    return Woken(
        server=servers(GPUCOMMONS_SLICE_ID="new", GPUCOMMONS_NODE="node-2"),
        kernels=kernels,
        sessions={session: kernel for kernel, session in made.values()},
        kept=held,
        said_before=said,
        slider=slider,
        asking=(asking.session, cell),
        unused_since=since,
        told_at_the_stop=told,
    )


def _debugger_says(page: Page) -> dict[str, Any]:
    number = page.send(_DEBUGGER, "control", "debug_request")
    replies = (each for each in page.messages(number) if each["msg_type"] == "debug_reply")
    content: dict[str, Any] = next(replies)["content"]
    return content


def _write_into_the_history_of(server: KernelServer) -> None:
    """Somebody else works in the same home while its kernels are away."""
    history = next(server.home.rglob("history.sqlite"))
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('insert into sessions(start) values (1)');"
        "c.execute('create table more(x)');"
        "c.executemany('insert into more values (?)', [('y' * 99,)] * 999); c.commit()"
    )
    subprocess.run([sys.executable, "-c", code, str(history)], check=True)


def test_an_idle_kernel_that_nobody_uses_is_woken_as_idle_since_then(woken: Woken) -> None:
    kernel = woken.kernels["unused"]

    until(lambda: state(woken.server, kernel) == "idle", "that it is known to be idle")

    # That its server was started is no use of it.
    told = woken.server.ask("GET", f"api/kernels/{kernel}")["last_activity"]
    assert told == woken.unused_since


def test_variables_sessions_and_ids_are_those_of_the_server_before(woken: Woken) -> None:
    held = {id_: one["path"] for id_, one in woken.kept.items()}

    assert held == {kernel: f"{name}.ipynb" for name, kernel in woken.kernels.items()}
    for one in woken.kept.values():
        assert one["bytes"] > 1_000_000
        assert one["kept_until_ms"] > time.time() * 1000
    assert sessions(woken.server) == woken.sessions
    assert woken.server.page(woken.kernels["variables"]).run("print(x + 1)") == "42"
    assert lost(woken.server) == {}
    until(lambda: kept(woken.server) == {}, "that nothing is kept any more")


def test_no_page_is_told_of_a_kernel_that_it_is_gone_while_it_is_saved(woken: Woken) -> None:
    # A page that misses its kernel in the list would take it for dead, and never ask again.
    assert woken.told_at_the_stop
    assert all(told == set(woken.kernels.values()) for told in woken.told_at_the_stop)


def test_two_kernels_that_write_the_same_history_both_come_back(woken: Woken) -> None:
    one, two = (woken.server.page(woken.kernels[name]) for name in ("variables", "other"))

    assert one.run("print(x)") == "41"
    assert two.run("x += 1; print(x)") == "42"


def test_sliders_call_back_and_threads_and_open_files_go_on(woken: Woken) -> None:
    page = woken.server.page(woken.kernels["other"])
    moves = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    page.send(json.dumps({"comm_id": woken.slider, "data": moves}), kind="comm_msg")

    assert page.run("print(moved, slider.value)") == "[7] 7"
    page.run("before = len(ticks); time.sleep(0.5); book.write('more'); book.close()")
    assert page.run("print(len(ticks) > before, open('book.txt').read())") == "True more"


def test_a_question_that_waits_at_the_stop_is_answered_after_the_wake(woken: Woken) -> None:
    session, cell = woken.asking
    page = woken.server.page(woken.kernels["asking"], session)

    page.send(json.dumps({"value": "Ada"}), "stdin", "input_reply")

    assert page.until_done(cell).strip() == "hello Ada 41"


def test_before_a_stop_it_is_said_what_is_kept_and_after_the_start_what_is_back(
    woken: Woken,
) -> None:
    assert woken.said_before == ("kernels", [])
    expected = {(kernel, f"{name}.ipynb", True) for name, kernel in woken.kernels.items()}

    def said() -> bool:
        told = woken.server.greeting("kernels")["woken"]
        return {(one["kernel_id"], one["path"], one["moved"]) for one in told} == expected

    until(said, "the wake of all")


def test_a_woken_kernel_is_of_its_new_server(woken: Woken) -> None:
    page = woken.server.page(woken.kernels["environment"])
    ask = "print([os.environ.get(n) for n in ('JUPYTERHUB_API_TOKEN','GPUCOMMONS_LEASE_ID','GPUCOMMONS_SLICE_ID','NVIDIA_OLD','MINE')])"
    told = until(lambda: (t := page.run(ask)) and "new" in t and t, "the renewal")
    assert told == str([f"token-of-{woken.server.port}", None, "new", None, "kept"])
    assert page.run("print([n for n in globals() if 'gpucommons' in n])") == "[]"


def test_a_debugger_that_was_used_is_answered_and_does_not_block_the_kernel(woken: Woken) -> None:
    page = woken.server.page(woken.kernels["debugger"])
    assert page.run("print(x)") == "41"

    assert "Restart the kernel to debug" in _debugger_says(page).get("message", "")
    assert page.run("print(x)") == "41"


def test_kernels_are_woken_again_and_again_restarted_interrupted_and_ended(start: Start) -> None:
    server = start()
    (again, _), (anew, _), (ended, session) = (
        opened(server, f"{name}.ipynb") for name in ("again", "anew", "ended")
    )
    for kernel in (again, anew, ended):
        server.page(kernel).run("count = 1")
    server.stop()
    server = start()

    page = server.page(anew)
    number = page.send("import time; time.sleep(60)")
    until(lambda: state(server, anew) == "busy", "the cell")
    server.ask("POST", f"api/kernels/{anew}/interrupt")
    assert "KeyboardInterrupt" in page.until_done(number)
    assert page.run("print(count)") == "1"
    server.ask("POST", f"api/kernels/{anew}/restart")
    assert server.page(anew).run("print('count' in globals())") == "False"
    folder = kernel_folder(server, ended)
    server.page(ended).run("count")
    server.ask("DELETE", f"api/sessions/{session}")
    assert not folder.exists()

    for expected in ("2", "3"):
        assert server.page(again).run("count += 1; print(count)") == expected
        server.stop()
        server = start()
        assert kernels_of(server) == {again, anew}
        assert server.page(anew).run("print('count' in globals())") == "False"
    assert server.page(again).run("count += 1; print(count)") == "4"


#: Goes on once its kernel has been told of its new server, and ends when the test lets it.
_LONG_CELL = """
import os, time
before = os.environ["JUPYTERHUB_API_TOKEN"]
for i in range(60):
    print(i, flush=True)
    time.sleep(0.05)
    while i == 20 and os.environ["JUPYTERHUB_API_TOKEN"] == before:
        time.sleep(0.02)
while not os.path.exists("let-it-end"):
    time.sleep(0.02)
"""


def test_a_cell_that_runs_goes_on_as_busy_and_its_page_gets_all_of_it(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    page = first.page(kernel)
    number = page.send(_LONG_CELL, cell="c1")
    early = page.printed(number, until="10\n")

    first.stop()
    with suppress(websocket.WebSocketException, OSError):
        # What reached the page before the server was gone.
        for message in page.messages(number):
            if message["msg_type"] == "stream":
                early += message["content"]["text"]
    second = start()
    states = [state(second, kernel)]
    page = second.page(kernel, page.session)
    late = page.printed(number, until="59\n")
    states.append(state(second, kernel))
    elsewhere = until(lambda: _told_to_another_page(second), "that the server has heard it, too")
    (second.work / "let-it-end").touch()
    late += page.until_done(number)

    assert elsewhere == sorted(set(elsewhere))
    assert elsewhere[0] == 0
    assert len(elsewhere) >= 50
    assert states == ["busy", "busy"]
    shown = [int(line) for line in (early + late).split()]
    assert shown == sorted(set(shown)), "nothing twice, nothing out of turn"
    assert shown[-1] == 59
    # What was under way in the moments of the save and of the wake may be lost.
    assert len(shown) >= 50
    until(lambda: state(second, kernel) == "idle", "the end of the cell")


#: Two hundred lines a second, until it is told that they are enough.
_PRINTS_ALL_THE_TIME = """
import os, time
n = 0
while not os.path.exists("enough"):
    print(n, flush=True)
    n += 1
    time.sleep(0.005)
"""


def test_not_one_line_is_lost_over_a_stop_and_a_start(start: Start) -> None:
    server = start()
    kernel, _ = opened(server)
    page = server.page(kernel)
    number = page.send(_PRINTS_ALL_THE_TIME, cell="c1")
    page.printed(number, until="10\n")
    for _ in range(2):
        server.stop()
        before = _recorded(server := start())
        until(lambda: len(_recorded(server)) > len(before) + 100, "that it prints on")  # noqa: B023
    (server.work / "enough").touch()
    until(lambda: state(server, kernel) == "idle", "the end of the cell")

    told = _recorded(server)

    assert told == list(range(len(told)))


def _recorded(server: KernelServer) -> list[int]:
    [run] = server.ask("GET", "gpucommons/cell-runs?path=a.ipynb")["runs"]
    return [int(n) for one in run["messages"] for n in one["content"]["text"].split()]


def _told_to_another_page(server: KernelServer) -> list[int] | None:
    """Once all has come that the cell prints before it may end."""
    [run] = server.ask("GET", "gpucommons/cell-runs?path=a.ipynb")["runs"]
    assert (run["state"], run["cell_id"]) == ("running", "c1")
    told = [int(n) for one in run["messages"] for n in one["content"]["text"].split()]
    return told if told[-1] == 59 else None


def test_a_server_that_was_killed_leaves_its_kernels_saved(start: Start) -> None:
    first = start()
    kernel, session = opened(first)
    first.page(kernel).run("x = 7")
    noted = kernel_folder(first, kernel) / "record.json"
    until(lambda: noted.exists() and session in noted.read_text(), "the note")

    first.stop(signal.SIGKILL)
    second = start()

    assert sessions(second) == {session: kernel}
    assert second.page(kernel).run("print(x)") == "7"


def test_a_server_that_is_interrupted_as_hubs_do_it_says_what_it_keeps(start: Start) -> None:
    """A shell that starts something in the background has it, and its children, ignore interrupts."""
    server = _started_with(start, signal.default_int_handler)
    kernel, _ = opened(server)
    server.page(kernel).run("x = 7")

    for handler in (signal.SIG_IGN, signal.default_int_handler):
        server.stop(signal.SIGINT)
        assert kept(server).keys() == {kernel}
        server = _started_with(start, handler)
        assert server.page(kernel).run("print(x)") == "7"


def _started_with(start: Start, handler: Any) -> KernelServer:
    before = signal.signal(signal.SIGINT, handler)
    try:
        return start(JUPYTERHUB_USER="ada")
    finally:
        signal.signal(signal.SIGINT, before)

"""Kernels of a real server, saved by a real CRIU."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import websocket
from kernel_server import KernelServer, Start, until

pytestmark = pytest.mark.criu


def opened(server: KernelServer, name: str = "a.ipynb") -> tuple[str, str]:
    session = server.open_notebook(name)
    return session["kernel"]["id"], session["id"]


def kernel_folder(server: KernelServer, kernel_id: str) -> Path:
    return next((server.home / "state").rglob(f"kernels/{kernel_id}"))


def kept(server: KernelServer) -> list[dict[str, Any]]:
    file = next((server.home / "state").rglob("kept.json"))
    return json.loads(file.read_text())["kernels"]


def lost(server: KernelServer) -> list[dict[str, Any]]:
    return server.greeting("kernels")["lost"]


def saved_by_itself(server: KernelServer, kernel_id: str) -> None:
    image = kernel_folder(server, kernel_id) / "tree" / "image" / "image.json"
    until(image.exists, "the save")


def test_variables_sessions_and_ids_are_those_of_the_server_before(start: Start) -> None:
    first = start()
    kernel, session = opened(first)
    with_page = first.page(kernel)
    with_page.run("x = 41; import threading; ticks = []")

    first.stop()
    held = kept(first)
    second = start()

    assert [(each["id"], each["path"]) for each in held] == [(kernel, "a.ipynb")]
    assert held[0]["bytes"] > 1_000_000
    assert held[0]["kept_until_ms"] > time.time() * 1000
    listed = second.ask("GET", "api/sessions")
    assert [(each["id"], each["kernel"]["id"]) for each in listed] == [(session, kernel)]
    assert second.page(kernel).run("print(x + 1)") == "42"
    assert lost(second) == []
    until(lambda: kept(second) == [], "that nothing is kept any more")


def test_a_kernel_can_be_saved_and_woken_again_and_again(start: Start) -> None:
    server = start()
    kernel, _ = opened(server)
    server.page(kernel).run("count = 0")

    for expected in ("1", "2", "3"):
        server.stop()
        server = start()
        assert server.page(kernel).run("count += 1; print(count)") == expected


def test_a_cell_that_runs_goes_on_and_its_page_gets_all_of_it(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    page = first.page(kernel)
    number = page.send(
        "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.05)"
    )
    early = ""
    for message in page.messages(number):
        if message["msg_type"] == "stream":
            early += message["content"]["text"]
            if "10\n" in early:
                break

    first.stop()
    with suppress(websocket.WebSocketException, OSError):
        # What reached the page before the server was gone.
        for message in page.messages(number):
            if message["msg_type"] == "stream":
                early += message["content"]["text"]
    second = start()
    state = second.ask("GET", f"api/kernels/{kernel}")["execution_state"]
    late = second.page(kernel, page.session).until_done(number)

    assert state == "busy"
    shown = [int(line) for line in (early + late).split()]
    assert shown == sorted(set(shown)), "nothing twice, nothing out of turn"
    assert shown[-1] == 59
    # What was under way in the moment of the save may be lost.
    assert len(shown) >= 57


def test_a_server_that_was_killed_leaves_its_kernels_saved(start: Start) -> None:
    first = start()
    kernel, session = opened(first)
    first.page(kernel).run("x = 7")
    record = kernel_folder(first, kernel) / "record.json"
    until(lambda: record.exists() and session in record.read_text(), "the note")

    first.stop(signal.SIGKILL)
    second = start()

    assert [each["id"] for each in second.ask("GET", "api/sessions")] == [session]
    assert second.page(kernel).run("print(x)") == "7"


def test_a_kernel_that_saves_itself_keeps_to_the_limits_and_says_so(start: Start) -> None:
    first = start(GPUCOMMONS_KERNELS_KEPT_GIB="0")
    kernel, _ = opened(first)
    first.page(kernel).run("x = 7")
    folder = kernel_folder(first, kernel)
    until((folder / "tree" / "not-alone.json").exists, "the limit")

    first.stop(signal.SIGKILL)
    until((folder / "tree" / "unsaved.json").exists, "the refusal")
    second = start()

    assert not (folder / "tree" / "image").exists()
    assert second.ask("GET", "api/kernels") == []
    (loss,) = lost(second)
    assert loss["path"] == "a.ipynb"
    assert "may be kept" in loss["because"]


def test_kernels_of_a_server_that_is_never_started_again_end_on_their_date(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    folder = kernel_folder(first, kernel)
    record = json.loads((folder / "record.json").read_text())
    old = record | {"noted_ms": record["noted_ms"] - 10 * 24 * 3600 * 1000}
    (folder / "record.json").write_text(json.dumps(old))

    start(JUPYTERHUB_SERVER_NAME="another")

    until(lambda: not folder.exists(), "the removal")
    until(lambda: kept(first) == [], "that nothing is kept any more")
    again = start()
    assert "9 days" in lost(again)[0]["because"]


@pytest.mark.parametrize("ignored", [False, True], ids=["as ever", "ignored by the hub's shell"])
def test_a_server_that_is_interrupted_as_hubs_do_it_says_what_it_keeps(
    start: Start, *, ignored: bool
) -> None:
    """A shell that starts something in the background has it, and its children, ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        first = start(JUPYTERHUB_USER="ada")
    finally:
        signal.signal(signal.SIGINT, before)
    kernel, _ = opened(first)
    first.page(kernel).run("x = 7")

    first.stop(signal.SIGINT)

    assert [each["id"] for each in kept(first)] == [kernel]
    assert start().page(kernel).run("print(x)") == "7"


def test_two_kernels_that_write_the_same_history_both_come_back(start: Start) -> None:
    first = start()
    (one, _), (two, _) = opened(first, "a.ipynb"), opened(first, "b.ipynb")
    first.page(one).run("x = 1")
    first.page(two).run("x = 2")
    first.stop()
    # Somebody else works in the same home meanwhile.
    history = next(first.home.rglob("history.sqlite"))
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('insert into sessions(start) values (1)');"
        "c.execute('create table more(x)');"
        "c.executemany('insert into more values (?)', [('y' * 99,)] * 999); c.commit()"
    )
    subprocess.run([sys.executable, "-c", code, str(history)], check=True)
    second = start()

    assert second.page(one).run("print(x)") == "1"
    assert second.page(two).run("x += 1; print(x)") == "3"
    assert lost(second) == []


def test_an_image_that_was_cut_is_a_fresh_kernel_under_the_same_id_and_said(start: Start) -> None:
    first = start()
    kernel, session = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    pages = kernel_folder(first, kernel) / "tree" / "image" / "pages-1.img"
    os.truncate(pages, pages.stat().st_size // 2)

    begun = time.monotonic()
    second = start()
    answer = second.page(kernel).run("print('x' in globals())")

    assert answer == "False"
    assert time.monotonic() - begun < 55
    assert [each["id"] for each in second.ask("GET", "api/sessions")] == [session]
    (loss,) = lost(second)
    assert (loss["kernel_id"], loss["path"]) == (kernel, "a.ipynb")
    assert "damaged" in loss["because"]


def test_an_image_that_cannot_be_read_is_a_fresh_kernel_and_said(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    (kernel_folder(first, kernel) / "tree" / "image" / "image.json").write_text("{")

    second = start()

    assert second.page(kernel).run("print('x' in globals())") == "False"
    (loss,) = lost(second)
    assert (loss["path"], loss["because"]) == ("a.ipynb", "Its image cannot be read.")


@pytest.mark.parametrize("what", ["image", "record"])
def test_a_kernel_of_which_half_is_missing_is_said_to_be_gone(start: Start, what: str) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    folder = kernel_folder(first, kernel)
    if what == "image":
        shutil.rmtree(folder / "tree")
    else:
        (folder / "record.json").write_text("{")

    second = start()

    assert second.ask("GET", "api/kernels") == []
    (loss,) = lost(second)
    assert (loss["kernel_id"], loss["path"]) == (kernel, "a.ipynb")
    assert ("nothing of its memory" if what == "image" else "cannot be read") in loss["because"]
    assert not folder.exists()


def test_a_wake_that_criu_refuses_is_a_fresh_kernel_on_other_ports(
    start: Start, tmp_path: Path
) -> None:
    """The old ports were seen by everybody on the machine."""
    place = tmp_path / "a folder that goes"
    place.mkdir()
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run(f"x = 1; import os; os.chdir({str(place)!r})")
    first.stop()
    place.rmdir()
    old = json.loads((kernel_folder(first, kernel) / "record.json").read_text())["connection"]

    second = start()
    until(lambda: lost(second), "the refusal")

    def connection() -> Any:
        file = second.home / "runtime" / f"kernel-{kernel}.json"
        with suppress(OSError, ValueError):
            found = json.loads(file.read_text())
            return found if found["key"] != old["key"] else None

    new = until(connection, "the fresh kernel")
    ports = [name for name in new if name.endswith("_port")]
    assert not {new[name] for name in ports} & {old[name] for name in ports}
    assert second.page(kernel).run("print('x' in globals())") == "False"


def test_what_was_said_of_a_lost_kernel_can_be_closed(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    (kernel_folder(first, kernel) / "tree" / "image" / "pages-1.img").unlink()
    second = start()
    assert len(lost(second)) == 1

    second.ask("DELETE", f"gpucommons/lost-kernels/{kernel}")

    assert lost(second) == []
    second.stop()
    assert lost(start()) == []


def test_a_library_that_changed_meanwhile_is_named(start: Start, tmp_path: Path) -> None:
    library = tmp_path / "some_library.so"
    original = next(
        Path(path)
        for line in Path("/proc/self/maps").read_text().splitlines()
        if (path := line.split(maxsplit=5)[-1].strip()).endswith(".so") and "lib-dynload" in path
    )
    shutil.copy(original, library)
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run(f"import ctypes; held = ctypes.CDLL({str(library)!r})")
    first.stop()
    with library.open("ab") as file:
        file.write(b"updated")

    second = start()

    assert second.page(kernel).run("print('held' in globals())") == "False"
    assert "some_library.so" in lost(second)[0]["because"]


def test_a_port_that_is_taken_is_moved(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 5")
    first.stop()
    record = json.loads((kernel_folder(first, kernel) / "record.json").read_text())
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", record["connection"]["shell_port"]))
        taken.listen()
        second = start()

        assert second.page(kernel).run("print(x)") == "5"


def test_a_woken_kernel_is_of_its_new_server(start: Start) -> None:
    first = start(GPUCOMMONS_LEASE_ID="old", NVIDIA_OLD="1")
    kernel, _ = opened(first)
    first.page(kernel).run("import os; os.environ['MINE'] = 'kept'")
    first.stop()
    second = start(GPUCOMMONS_SLICE_ID="new")

    page = second.page(kernel)
    ask = "print([os.environ.get(n) for n in ('JUPYTERHUB_API_TOKEN','GPUCOMMONS_LEASE_ID','GPUCOMMONS_SLICE_ID','NVIDIA_OLD','MINE')])"
    told = until(lambda: (t := page.run(ask)) and "new" in t and t, "the renewal")
    assert told == str([f"token-of-{second.port}", None, "new", None, "kept"])
    assert page.run("print([n for n in globals() if 'gpucommons' in n])") == "[]"


def test_a_debugger_that_was_used_is_answered_and_does_not_block_the_kernel(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    page = first.page(kernel)
    page.run("x = 1")
    ask = json.dumps({"type": "request", "seq": 1, "command": "initialize", "arguments": {}})
    answer = next(
        each
        for each in page.messages(page.send(ask, "control", "debug_request"))
        if each["msg_type"] == "debug_reply"
    )
    assert answer["content"]["success"]
    first.stop()
    second = start()
    page = second.page(kernel)
    assert page.run("print(x)") == "1"

    def reply() -> str:
        number = page.send(ask, "control", "debug_request")
        return next(
            each["content"].get("message", "")
            for each in page.messages(number)
            if each["msg_type"] == "debug_reply"
        )

    assert "Restart the kernel to debug" in reply()
    assert page.run("print(x)") == "1"


def test_restart_and_interrupt_work_before_and_after(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    second = start()
    page = second.page(kernel)
    number = page.send("import time; time.sleep(60)")
    until(
        lambda: second.ask("GET", f"api/kernels/{kernel}")["execution_state"] == "busy", "the cell"
    )
    second.ask("POST", f"api/kernels/{kernel}/interrupt")
    assert "KeyboardInterrupt" in page.until_done(number)
    assert page.run("print(x)") == "1"

    second.ask("POST", f"api/kernels/{kernel}/restart")

    assert second.page(kernel).run("print('x' in globals())") == "False"
    second.stop()
    assert start().page(kernel).run("print('x' in globals())") == "False"


def test_a_kernel_that_its_user_ends_leaves_nothing_behind(start: Start) -> None:
    first = start()
    kernel, session = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    second = start()
    folder = kernel_folder(second, kernel)
    second.page(kernel).run("x")

    second.ask("DELETE", f"api/sessions/{session}")

    assert not folder.exists()
    second.stop()
    assert start().ask("GET", "api/kernels") == []


def test_a_kernel_that_cannot_be_saved_ends_as_ever_and_that_is_said(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    code = "from multiprocessing import RawArray; shared = RawArray('i', 9); x = 1"
    first.page(kernel).run(code)

    took_s = first.stop()

    assert took_s < 45
    assert kept(first) == []
    second = start()
    assert second.ask("GET", "api/kernels") == []
    (loss,) = lost(second)
    assert (loss["kernel_id"], loss["path"]) == (kernel, "a.ipynb")
    # Its variables are not called gone: they are offered.
    assert loss["stored"] == 2


def test_before_a_stop_it_is_said_what_is_kept_and_after_the_start_what_is_back(
    start: Start,
) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    until(lambda: first.greeting("hello")["keeps"] == "kernels", "the self-test")
    assert first.greeting("kernels")["woken"] == []
    first.stop()

    second = start()

    (woken,) = until(lambda: second.greeting("kernels")["woken"], "the wake")
    assert (woken["kernel_id"], woken["path"]) == (kernel, "a.ipynb")


def test_kernels_beyond_the_limit_are_not_kept(start: Start) -> None:
    first = start(GPUCOMMONS_KERNELS_KEPT_GIB="0")
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")

    first.stop()

    assert kept(first) == []
    assert "may be kept" in lost(start())[0]["because"]


def test_after_its_date_a_kernel_is_gone(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    file = kernel_folder(first, kernel) / "record.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"noted_ms": record["noted_ms"] - 10 * 24 * 3600 * 1000}))

    second = start()

    assert second.ask("GET", "api/kernels") == []
    assert not file.exists()
    assert "9 days" in lost(second)[0]["because"]


def test_where_it_is_switched_off_kernels_are_jupyters_own(start: Start) -> None:
    first = start(GPUCOMMONS_HIBERNATE_KERNELS="0")
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first_keeps = first.greeting("hello")["keeps"]

    first.stop()

    # Its variables are stored all the same: they need no image.
    assert first_keeps == "variables"
    assert not list((first.home / "state").rglob("kernels"))
    assert start().ask("GET", "api/kernels") == []

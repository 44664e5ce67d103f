"""Kernels that do not come back: each notebook says why, and none forgets it without a word.

One server saves them all, each is damaged in its own way, and one server finds what is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kernel_server import KernelServer, Start, until

from tests.labextension.hibernation.server_state import (
    kept,
    kernel_folder,
    kernels_of,
    lost,
    make_old,
    opened,
    record,
    sessions,
)

pytestmark = pytest.mark.criu


@dataclass(frozen=True, kw_only=True)
class Damaged:
    """A server that finds kernels as somebody left them."""

    server: KernelServer
    kernels: dict[str, str]
    #: At which a program in the kernel *moved* listened.
    own_port: str
    sessions: dict[str, str]
    #: Of the server before: its stop, and its kernels' ports and keys.
    stop_s: float
    kept: dict[str, dict[str, Any]]
    connections: dict[str, dict[str, Any]]
    folders: dict[str, Path]
    #: What the kernel whose image was cut says of ``x``, and how long the start and that took.
    cut_says: str
    cut_took_s: float


_CODE = {
    "cut": "x = 1",
    "unreadable": "x = 1",
    "imageless": "x = 1",
    "recordless": "x = 1",
    "old": "x = 1",
    "moved": "x = 5; import socket; own = socket.create_server(('127.0.0.1', 0)); print(own.getsockname()[1])",
    "refused": "x = 1; import os; os.makedirs('that goes'); os.chdir('that goes')",
    "library": "import ctypes; x = ctypes.CDLL('some_library.so')",
    "shared": "import mmap, tempfile; f = tempfile.TemporaryFile(); f.truncate(9);"
    " shared = mmap.mmap(f.fileno(), 9); x = 1",
}


@pytest.fixture(scope="module")
def damaged(fresh_servers: Callable[[], AbstractContextManager[Start]]) -> Iterator[Damaged]:
    with fresh_servers() as servers:
        yield from _damaged(servers)


def _damaged(servers: Start) -> Iterator[Damaged]:
    first = servers()
    library = _copied_library(first.work)
    made, kernels, said = {}, {}, {}
    # One after the other: nine interpreters that start at once keep each other waiting.
    for name, code in _CODE.items():
        made[name] = opened(first, f"{name}.ipynb")
        kernels[name] = made[name][0]
        page = first.page(kernels[name])
        said[name] = page.run(code.replace("some_library.so", str(library)))
    stop_s = first.stop()
    held = kept(first)
    saved = {name: kernel for name, kernel in kernels.items() if kernel in held}
    connections = {name: record(first, kernel)["connection"] for name, kernel in saved.items()}
    folders = {name: kernel_folder(first, kernel) for name, kernel in saved.items()}
    _damage(folders)
    make_old(first, kernels["old"])
    (first.work / "that goes").rmdir()
    with library.open("ab") as file:
        file.write(b"updated")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(said["moved"])))
        taken.listen()
        begun = time.monotonic()
        second = servers()
        says = second.page(kernels["cut"]).run("print('x' in globals())")
        yield Damaged(
            server=second,
            kernels=kernels,
            own_port=said["moved"],
            sessions={session: kernel for kernel, session in made.values()},
            stop_s=stop_s,
            kept=held,
            connections=connections,
            folders=folders,
            cut_says=says,
            cut_took_s=time.monotonic() - begun,
        )


def _copied_library(folder: Path) -> Path:
    original = next(
        Path(path)
        for line in Path("/proc/self/maps").read_text().splitlines()
        if (path := line.split(maxsplit=5)[-1].strip()).endswith(".so") and "lib-dynload" in path
    )
    return Path(shutil.copy(original, folder / "some_library.so"))


def _damage(folders: dict[str, Path]) -> None:
    pages = folders["cut"] / "tree" / "image" / "pages-1.img"
    os.truncate(pages, pages.stat().st_size // 2)
    (folders["unreadable"] / "tree" / "image" / "image.json").write_text("{")
    shutil.rmtree(folders["imageless"] / "tree")
    (folders["recordless"] / "record.json").write_text("{")


def _because(damaged: Damaged, name: str) -> str:
    """What is said of it; the wake that CRIU refuses is told last."""
    kernel = damaged.kernels[name]
    loss: dict[str, Any] = until(lambda: lost(damaged.server).get(kernel), "that it is said")
    assert loss["path"] == f"{name}.ipynb"
    because: str = loss["because"]
    return because


def _has_x(damaged: Damaged, name: str) -> str:
    page = damaged.server.page(damaged.kernels[name])
    return page.run("print('x' in globals())")


def test_an_image_that_was_cut_is_a_fresh_kernel_under_the_same_id_and_said(
    damaged: Damaged,
) -> None:
    assert damaged.cut_says == "False"
    assert damaged.cut_took_s < 55
    found = {kernel: session for session, kernel in sessions(damaged.server).items()}
    before = {kernel: session for session, kernel in damaged.sessions.items()}
    kernel = damaged.kernels["cut"]
    assert found[kernel] == before[kernel]
    assert "damaged" in _because(damaged, "cut")


def test_an_image_that_cannot_be_read_is_a_fresh_kernel_and_said(damaged: Damaged) -> None:
    assert _has_x(damaged, "unreadable") == "False"
    assert _because(damaged, "unreadable") == "Its image cannot be read."


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("imageless", "nothing of its memory"),
        ("recordless", "cannot be read"),
        ("old", "21 days"),
    ],
)
def test_a_kernel_of_which_half_is_missing_or_whose_date_is_over_is_said_to_be_gone(
    damaged: Damaged, name: str, because: str
) -> None:
    assert damaged.kernels[name] not in kernels_of(damaged.server)
    assert because in _because(damaged, name)
    assert not damaged.folders[name].exists()


def test_a_wake_that_criu_refuses_is_a_fresh_kernel_on_other_ports(damaged: Damaged) -> None:
    _because(damaged, "refused")
    old = damaged.connections["refused"]

    def is_new() -> bool:
        return bool(_connection(damaged, "refused").get("key", old["key"]) != old["key"])

    until(is_new, "the fresh kernel")
    assert not _ports(_connection(damaged, "refused")) & _ports(old)
    assert _has_x(damaged, "refused") == "False"


def _connection(damaged: Damaged, name: str) -> dict[str, Any]:
    """What clients of this kernel are told; nothing while it is written."""
    file = damaged.server.home / "runtime" / f"kernel-{damaged.kernels[name]}.json"
    with suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    return {}


def _ports(connection: dict[str, Any]) -> set[int]:
    return {port for name, port in connection.items() if name.endswith("_port")}


def test_a_library_that_changed_meanwhile_is_named(damaged: Damaged) -> None:
    assert _has_x(damaged, "library") == "False"
    assert "some_library.so" in _because(damaged, "library")


def test_a_kernel_that_cannot_be_saved_ends_as_ever_and_that_is_said(damaged: Damaged) -> None:
    kernel = damaged.kernels["shared"]

    assert damaged.stop_s < 45
    assert kernel not in damaged.kept
    assert kernel not in kernels_of(damaged.server)
    _because(damaged, "shared")
    # Its variables are not called gone: they are offered.
    assert lost(damaged.server)[kernel]["stored"] == 1


def test_a_woken_kernel_listens_where_nobody_could_have_waited_for_it(damaged: Damaged) -> None:
    """The old ports were seen by everybody on the machine."""
    page = damaged.server.page(damaged.kernels["moved"])

    assert page.run("print(x)") == "5"
    assert damaged.kernels["moved"] not in lost(damaged.server)
    new = _connection(damaged, "moved")
    assert new["key"] == damaged.connections["moved"]["key"]
    assert not _ports(new) & _ports(damaged.connections["moved"])


def test_a_port_of_its_own_programs_that_is_taken_is_moved(damaged: Damaged) -> None:
    page = damaged.server.page(damaged.kernels["moved"])

    now = page.run("print(own.getsockname()[1])")
    assert now.isdigit()
    assert now != damaged.own_port


def test_kernels_of_a_server_that_is_never_started_again_end_on_their_date(start: Start) -> None:
    first = start()
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first.stop()
    folder = kernel_folder(first, kernel)
    make_old(first, kernel)

    other = start(JUPYTERHUB_SERVER_NAME="another")
    until(lambda: not folder.exists(), "the removal")
    until(lambda: kept(first) == {}, "that nothing is kept any more")
    other.stop()

    again = start()
    assert "21 days" in lost(again)[kernel]["because"]

    # What is said can be closed, for good.
    again.ask("DELETE", f"gpucommons/lost-kernels/{kernel}")
    assert lost(again) == {}
    again.stop()
    assert lost(start()) == {}


def test_kernels_beyond_the_limit_are_not_kept_whoever_saves_them(start: Start) -> None:
    first = start(GPUCOMMONS_KERNELS_KEPT_GIB="0")
    alone, _ = opened(first, "alone.ipynb")
    first.page(alone).run("x = 7")
    folder = kernel_folder(first, alone)
    until((folder / "tree" / "not-alone.json").exists, "the limit")
    first.stop(signal.SIGKILL)
    until((folder / "tree" / "unsaved.json").exists, "the refusal")

    second = start(GPUCOMMONS_KERNELS_KEPT_GIB="0")
    assert not (folder / "tree" / "image").exists()
    assert kernels_of(second) == set()
    assert lost(second)[alone]["path"] == "alone.ipynb"
    stopped, _ = opened(second, "stopped.ipynb")
    second.page(stopped).run("x = 1")
    second.stop()
    assert kept(second) == {}

    reasons = lost(start())
    assert reasons.keys() == {alone, stopped}
    assert all("may be kept" in one["because"] for one in reasons.values())


def test_kernels_wait_where_a_start_cannot_wake_them(start: Start) -> None:
    first = start()
    kernel, session = opened(first)
    first.page(kernel).run("x = 41")
    first.greeting("hello")
    first.stop()
    told = kept(first)

    second = start(GPUCOMMONS_CRIU="/nowhere/criu")

    assert sessions(second) == {session: kernel}
    assert "NameError" in second.page(kernel).run("x")
    said = lost(second)[kernel]
    assert "CRIU" in said["because"]
    assert said["kept_until_ms"] == told[kernel]["kept_until_ms"]
    # Neither a restart nor the end of what runs in its place is its own.
    second.ask("POST", f"api/kernels/{kernel}/restart")
    second.ask("DELETE", f"api/kernels/{kernel}")
    second.stop()
    assert kept(second) == told
    third = start()
    assert third.page(kernel).run("print(x + 1)") == "42"
    assert lost(third) == {}
    until(lambda: kept(third) == {}, "that it is kept no more is told")


def test_a_kernel_waits_where_the_processor_lacks_something_and_nothing_takes_its_folder(
    start: Start,
) -> None:
    first = start()
    kernel, session = opened(first)
    first.page(kernel).run("x = 41")
    first.greeting("hello")
    first.stop()
    told = kept(first)
    description = kernel_folder(first, kernel) / "tree" / "image" / "image.json"
    as_saved = description.read_text()
    wants = json.loads(as_saved)
    wants["cpu"]["features"] = [*wants["cpu"]["features"], "imaginary"]
    description.write_text(json.dumps(wants))

    second = start()

    assert sessions(second) == {session: kernel}
    assert "NameError" in second.page(kernel).run("x")
    said = lost(second)[kernel]
    assert "which has imaginary" in said["because"]
    assert said["kept_until_ms"] == told[kernel]["kept_until_ms"]
    other, _ = opened(second, "b.ipynb")
    second.page(other).run("y = 5")
    second.ask("POST", f"api/kernels/{kernel}/restart")
    second.stop()
    assert kept(second).keys() == {kernel, other}
    description.write_text(as_saved)
    third = start()
    assert third.page(kernel).run("print(x + 1)") == "42"
    assert third.page(other).run("print(y + 1)") == "6"
    assert lost(third) == {}


def test_a_kernel_that_waits_ends_on_its_date_or_when_it_is_switched_off(start: Start) -> None:
    first = start()
    old, _ = opened(first)
    off, _ = opened(first, "b.ipynb")
    for each in (old, off):
        first.page(each).run("x = 41")
    first.greeting("hello")
    first.stop()
    start(GPUCOMMONS_CRIU="/nowhere/criu").stop()
    make_old(first, old)

    last = start(GPUCOMMONS_HIBERNATE_KERNELS="0")

    said = lost(last)
    assert [said[each]["kept_until_ms"] for each in (old, off)] == [0, 0]
    assert said[old]["because"].startswith("It was kept for"), said
    assert "switched off" not in said[old]["because"]
    assert "switched off" in said[off]["because"]
    until(lambda: kept(last) == {}, "that nothing is kept is told")


def test_where_it_is_switched_off_kernels_are_jupyters_own(start: Start) -> None:
    first = start(GPUCOMMONS_HIBERNATE_KERNELS="0")
    kernel, _ = opened(first)
    first.page(kernel).run("x = 1")
    first_keeps = first.greeting("hello")["keeps"]

    first.stop()

    # Its variables are stored all the same: they need no image.
    assert first_keeps == "variables"
    assert not list((first.home / "state").rglob("kernels"))
    assert kernels_of(start()) == set()

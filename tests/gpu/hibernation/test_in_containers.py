"""A container gives all its processes a filter of system calls: trees are saved and woken below it."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.preload import for_criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused, Saved
from tests.gpu.hibernation.conftest import Start, line, python

pytestmark = [
    pytest.mark.criu,
    pytest.mark.skipif(for_criu() is None, reason="without a compiler CRIU's library is not there"),
]
_SECONDS = 60

#: Installs a filter that allows everything, as a container's runtime installs its own, and goes on.
FILTER = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), 8)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(allow)), 16)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0, ctypes.get_errno()
"""
CONTAINER = FILTER + "import os, sys\nos.execv(sys.argv[1], sys.argv[1:])\n"
ASLEEP = """
import pathlib, time
print("ready", flush=True)
time.sleep(0.5)
status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
print("awake", status["Seccomp"], status["Seccomp_filters"], flush=True)
"""


def in_container(command: list[str]) -> list[str]:
    return [sys.executable, "-c", CONTAINER, *command]


def test_a_tree_below_a_containers_filter_wakes_below_one(
    tree: HibernatableTree, start: Start
) -> None:
    first = start(in_container(tree.run_command(python(ASLEEP))))
    assert line(first) == "ready"
    assert isinstance(tree.save(_SECONDS), Saved)
    woken = start(in_container(tree.wake_command()))
    assert line(woken) == "awake 2 1"


def test_without_our_library_it_is_refused_and_runs_on(
    tree: HibernatableTree, criu: Criu, start: Start
) -> None:
    ours = str(for_criu())
    words = [word for word in criu.command if ours not in word and word != "--preload"]
    bare = replace(criu, command=tuple(word for word in words if not word.endswith("/env")))
    plain = HibernatableTree(tree.folder, bare)
    first = start(in_container(plain.run_command(python(ASLEEP))))
    assert line(first) == "ready"
    assert plain.save(_SECONDS) == Refused(
        because="It installed a filter of system calls (seccomp) of its own.", alive=True
    )
    assert line(first) == "awake 2 1"


def test_a_filter_of_its_own_is_refused_and_it_runs_on(
    tree: HibernatableTree, start: Start
) -> None:
    first = start(in_container(tree.run_command(python(FILTER + ASLEEP))))
    assert line(first) == "ready"
    answer = tree.save(_SECONDS)
    assert isinstance(answer, Refused)
    assert answer.because == "It installed a filter of system calls (seccomp) of its own."
    assert line(first) == "awake 2 2"

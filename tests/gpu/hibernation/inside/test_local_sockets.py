"""Which local sockets wait for a server that has not taken their call, as the kernel tells it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation.inside.local_sockets import has_unaccepted_connection

CALLS = """
import socket, sys
call = socket.socket(socket.AF_UNIX)
call.connect(sys.argv[1])
pair = socket.socketpair()
print("called", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "server"))
        listener.listen()
        yield listener


@pytest.fixture
def caller(server: socket.socket) -> Iterator[int]:
    words = [sys.executable, "-c", CALLS, server.getsockname()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        yield program.pid
        program.kill()


def test_a_call_is_untaken_until_its_server_takes_it(server: socket.socket, caller: int) -> None:
    assert has_unaccepted_connection([caller])
    taken, _ = server.accept()
    with taken:
        assert not has_unaccepted_connection([caller])
    # Its server hung up: that is an end, and no wait.
    assert not has_unaccepted_connection([caller])


def test_a_call_to_one_of_its_own_is_none_to_outside(server: socket.socket, caller: int) -> None:
    assert not has_unaccepted_connection([caller, os.getpid()])


def test_processes_without_sockets_have_called_nobody() -> None:
    assert not has_unaccepted_connection([])
    assert not has_unaccepted_connection([1 << 22])


def test_who_only_sends_has_called_nobody_also_where_the_receiver_is_gone(tmp_path: Path) -> None:
    code = (
        "import socket, sys\nreceiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "receiver.bind(sys.argv[1])\nsender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "sender.connect(sys.argv[1])\nreceiver.close()\nprint('sent', flush=True)\nsys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "log")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        assert not has_unaccepted_connection([program.pid])
        program.kill()

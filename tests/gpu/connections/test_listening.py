"""A port that is kept for a server between its choice and its use."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
import zmq

from gpucommons.gpu.connections.listening import hold_tcp, listen_tcp

HERE = "127.0.0.1"
#: As in Linux' `in.h`: from which ports the system chooses one for this socket.
_LOCAL_PORT_RANGE = 51


@pytest.fixture
def held() -> Iterator[int]:
    with closing(hold_tcp(0, HERE)) as one:
        yield one.getsockname()[1]


def _given_only(port: int, *, reuses: bool) -> socket.socket:
    """A socket for which the system has this port and no other."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuses))
    try:
        one.setsockopt(socket.IPPROTO_IP, _LOCAL_PORT_RANGE, struct.pack("=I", port << 16 | port))
    except OSError:
        one.close()
        pytest.skip("Linux before 6.3 chooses from one range for all")
    return one


def _refused(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


@pytest.mark.parametrize("reuses", [False, True])
def test_the_system_gives_it_to_nobody_who_listens(held: int, *, reuses: bool) -> None:
    with _given_only(held, reuses=reuses) as other, _refused(errno.EADDRINUSE):
        other.bind((HERE, 0))


def test_the_system_gives_it_to_nobody_who_calls(held: int) -> None:
    with closing(listen_tcp(0)) as called, _given_only(held, reuses=False) as other:
        address = called.getsockname()
        with _refused(errno.EADDRNOTAVAIL):
            other.connect(address)


def test_its_server_listens_beside_it(held: int) -> None:
    with zmq.Context() as context, context.socket(zmq.REP) as server:
        server.bind(f"tcp://{HERE}:{held}")
        with context.socket(zmq.REQ) as client:
            client.connect(f"tcp://{HERE}:{held}")
            client.send(b"6 * 7")
            assert server.recv() == b"6 * 7"
            client.setsockopt(zmq.LINGER, 0)


def test_one_that_somebody_listens_at_is_refused() -> None:
    with closing(listen_tcp(0)) as other, _refused(errno.EADDRINUSE):
        hold_tcp(other.getsockname()[1], HERE)

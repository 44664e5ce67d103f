"""An endpoint that is out of descriptors closes its reserve, and never what has the number of it by then."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from gpucommons.gpu.connections import accepting
from gpucommons.gpu.connections.accepting import Acceptor


class Full:
    """A listener of a process that is out of descriptors."""

    def accept(self) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_reserve_that_another_thread_took_is_not_closed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acceptor = Acceptor()
    number = acceptor._spare
    assert number is not None

    def refused(*_of: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as full:
        full.setattr(accepting.os, "open", refused)
        assert list(acceptor.accept(Full())) == []  # type: ignore[arg-type] # as much as is asked of it
    others = os.open(os.devnull, os.O_RDONLY)
    assert others == number, "the number is another file's now"
    try:
        assert list(acceptor.accept(Full())) == []  # type: ignore[arg-type] # as above
        os.fstat(others)
    finally:
        os.close(others)
        acceptor.close()

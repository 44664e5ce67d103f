"""Whoever listens on ports of the machine fails nobody's job."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest
from launches import a_launch

from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.local.free_ports import ports_for
from gpucommons.scheduler.launchers.worker_addresses import PORTS


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def create_server(*_args: Any, **_named: Any) -> socket.socket:
        raise OSError(number, "no")

    monkeypatch.setattr(socket, "create_server", create_server)


def test_a_worker_alone_needs_no_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, errno.EADDRINUSE)
    assert len(ports_for(a_launch("true"))) == PORTS


@pytest.mark.parametrize(
    "asked", [{"workers": 2}, {"launcher": "torchrun"}], ids=["gang", "launcher"]
)
def test_workers_that_find_no_port_are_tried_again(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, errno.EADDRINUSE)
    with pytest.raises(Unavailable, match="only 0 are free now"):
        ports_for(a_launch("true", **asked))


def test_a_failure_that_says_nothing_of_a_port_is_none_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing(monkeypatch, errno.EMFILE)
    with pytest.raises(OSError) as raised:  # noqa: PT011 - its number is what counts
        ports_for(a_launch("true", workers=2))
    assert raised.value.errno == errno.EMFILE


def test_each_worker_of_a_gang_has_ports_of_its_own() -> None:
    assert len(set(ports_for(a_launch("true", workers=3)))) == 3 * PORTS

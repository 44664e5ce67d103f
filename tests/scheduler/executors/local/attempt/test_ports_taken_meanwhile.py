"""A port that is free when it is chosen and taken when it is used fails nobody's job."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launches import a_launch, ended, python

from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local import local
from gpucommons.scheduler.executors.local.attempt.ports import hold
from gpucommons.scheduler.executors.local.free_ports import ports_for
from gpucommons.scheduler.executors.local.local import LocalExecutor

#: As a framework does: the first worker listens, the others wait for it.
_MEETS = (
    "import os, socket, time\n"
    "if os.environ['GPUCOMMONS_RANK'] == '0':\n"
    "    socket.create_server(('', int(os.environ['MASTER_PORT'])))\n"
    "else:\n"
    "    time.sleep(600)\n"
)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Take the first port of each attempt as soon as it is chosen."""
    held: list[socket.socket] = []

    def then_taken(launch: Launch) -> tuple[int, ...]:
        ports = ports_for(launch)
        held.append(socket.create_server(("127.0.0.1", ports[0])))
        return ports

    monkeypatch.setattr(local, "ports_for", then_taken)
    yield held
    for one in held:
        one.close()


def test_workers_whose_port_was_taken_meanwhile_are_lost_and_not_failed(
    executor: LocalExecutor, taken: list[socket.socket]
) -> None:
    launch = a_launch(*python(_MEETS), workers=2)

    executor.start(launch)
    end = ended(executor)

    port = taken[0].getsockname()[1]
    assert (end.exit_code, end.start_failed) == (None, False)
    assert end.text == (
        f"Port {port}, meant for its workers, was taken by another program before they used it"
    )


def test_the_next_attempt_has_other_ports(
    executor: LocalExecutor, taken: list[socket.socket]
) -> None:
    executor.start(a_launch(*python(_MEETS), workers=2))
    ended(executor)

    first = taken[0].getsockname()[1]
    assert first not in ports_for(a_launch(*python(_MEETS), workers=2))


@pytest.mark.usefixtures("taken")
def test_a_failure_that_speaks_of_no_port_is_the_jobs_own(executor: LocalExecutor) -> None:
    executor.start(a_launch(*python("raise SystemExit(3)"), workers=2))

    assert ended(executor).exit_code == 3


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
@pytest.mark.parametrize("only_v6", [True, False])
def test_a_port_that_is_taken_for_ipv6_alone_is_taken(only_v6: bool) -> None:
    """A framework that listens for both would find it taken."""
    with socket.socket(socket.AF_INET6) as taken:
        taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_v6)
        taken.bind(("::", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert hold(port) is None
    held = hold(port)
    assert held is not None
    held.close()


@pytest.mark.parametrize("address", ["", "127.0.0.1"])
def test_a_port_that_is_taken_for_ipv4_alone_is_taken(address: str) -> None:
    with socket.create_server((address, 0)) as taken:
        assert hold(taken.getsockname()[1]) is None


def test_a_machine_that_has_no_address_of_ipv6_has_its_ports_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = socket.create_server

    def without_ipv6(address: tuple[str, int], **options: Any) -> socket.socket:
        if ":" in address[0]:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return create(address, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with create(("", 0)) as taken:
        port = taken.getsockname()[1]
        assert hold(port) is None
    held = hold(port)
    assert held is not None
    held.close()


def test_a_script_that_takes_its_own_port_twice_fails_by_itself(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    script = tmp_path / "twice.py"
    script.write_text(_MEETS.replace("    socket", "    first = socket", 1) + _MEETS)

    executor.start(a_launch("python", str(script), workers=2))

    assert ended(executor).exit_code == 1

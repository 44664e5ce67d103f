"""A port that is free when it is chosen and taken when it is used fails nobody's job."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from launches import a_launch, ended, python

from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local import local
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


def test_a_script_that_takes_its_own_port_twice_fails_by_itself(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    script = tmp_path / "twice.py"
    script.write_text(_MEETS.replace("    socket", "    first = socket", 1) + _MEETS)

    executor.start(a_launch("python", str(script), workers=2))

    assert ended(executor).exit_code == 1

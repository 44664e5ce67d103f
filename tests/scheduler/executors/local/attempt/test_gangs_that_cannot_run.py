"""Workers that cannot be joined, by real processes: the page says why, not that one ended with 1."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace

import pytest
from launches import a_launch, ended, lines, python

from gpucommons.scheduler.core.model.types import NodeId, Role, WorkerPlacement
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.local import local
from gpucommons.scheduler.executors.local.local import LocalExecutor

SERVES = ("sleep", "300")


def with_a_server(chief: tuple[str, ...], server: tuple[str, ...]) -> Launch:
    """A chief, and a parameter server that stays for as long as it does."""
    roles = (Role(name="chief", command=chief), Role(name="ps", command=server))
    launch = a_launch(launcher="tensorflow", roles=roles)
    placements = tuple(
        WorkerPlacement(role=role.name, index=0, node_id=NodeId("here"), cpu_milli=1000)
        for role in roles
    )
    return replace(launch, attempt=replace(launch.attempt, placements=placements))


def test_a_role_that_ends_early_is_named_and_ends_the_others(executor: LocalExecutor) -> None:
    executor.start(with_a_server(SERVES, ("true",)))
    over = ended(executor)
    assert over.exit_code == 1
    assert over.text == (
        "Worker 1 failed: it ended with exit status 1; its log says:"
        " gpucommons: this worker ended with 0 while the first worker still needed it"
    )


def test_an_error_of_a_roles_own_is_told_before_what_is_remarked_of_it(
    executor: LocalExecutor,
) -> None:
    executor.start(with_a_server(SERVES, python("raise ValueError('no such shard')")))
    assert ended(executor).text == "Worker 1 failed: ValueError: no such shard (<string>:1)"


def test_a_framework_that_is_missing_where_the_job_runs_is_named(executor: LocalExecutor) -> None:
    executor.start(
        a_launch(*python("print('trains')"), workers=2, launcher="ray", env={"PATH": "/bin"})
    )
    assert ended(executor).text.endswith(
        "its log says: gpucommons: Ray is not in this job's environment: install it there (pip install ray)"
    )


def test_a_port_at_which_workers_meet_and_that_was_taken_meanwhile_is_not_their_failure(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]
        monkeypatch.setattr(local, "ports_for", lambda _launch: (port,) * 6)
        launch = with_a_server(python("print('trains')"), SERVES)
        executor.start(launch)
        end = ended(executor)
    taken = f"Port {port}, meant for its workers, was taken by another program before they used it"
    assert (end.exit_code, end.text) == (None, taken)
    said = "\n".join(lines(executor, launch))
    assert (
        f"port {port}, at which the workers meet, cannot be used: {os.strerror(errno.EADDRINUSE)}"
        in said
    )

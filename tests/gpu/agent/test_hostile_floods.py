"""A flood of connections, and curious neighbours."""

from __future__ import annotations

import socket
import stat
from itertools import islice
from pathlib import Path
from typing import cast

from gpucommons.gpu.agent.control.connections import Connection
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.connections.accepting import Acceptor


def test_what_names_everybodys_slices_is_for_the_agent_alone(tmp_path: Path) -> None:
    path = tmp_path / "open-slices.json"
    StateFile(path).save([])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_flood_of_connections_is_taken_in_portions() -> None:
    class Flood:
        def accept(self) -> tuple[object, str]:
            return object(), ""

    acceptor = Acceptor()
    taken = list(islice(acceptor.accept(cast("socket.socket", Flood())), 1000))
    acceptor.close()
    assert 0 < len(taken) < 100


def test_a_flood_of_empty_lines_is_taken_in_portions() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours, max_line_bytes=1024, max_pending_bytes=1024)
        theirs.sendall(b"\n" * 60_000)
        lines = connection.receive()
    assert lines is not None
    assert 0 < len(lines) <= 1024

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from kernel_server import KernelServer, Start, criu_of_tests


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server in the same home again and again; everything of it is gone at the end."""
    with _starting(tmp_path / "home") as start:
        yield start


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """As `start`, for what several tests look at."""
    with _starting(tmp_path_factory.mktemp("servers") / "home") as start:
        yield start


@pytest.fixture(scope="module")
def fresh_servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], AbstractContextManager[Start]]:
    """As `servers`, for a story that is set up in many steps: a second try begins in another home."""
    return lambda: _starting(tmp_path_factory.mktemp("servers") / "home")


@contextmanager
def _starting(home: Path) -> Iterator[Start]:
    place = criu_of_tests()
    servers: list[KernelServer] = []

    def begin(**environ: str) -> KernelServer:
        made = KernelServer(home, {"GPUCOMMONS_CRIU": place, **environ})
        servers.append(made)
        return made.start()

    try:
        yield begin
    finally:
        end_servers(servers)


def end_servers(servers: list[KernelServer]) -> None:
    for server in servers:
        server.hang_up()
        if server.process is not None and server.process.poll() is None:
            process = psutil.Process(server.process.pid)
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.Error):
                    one.kill()
            server.process.wait()

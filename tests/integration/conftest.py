"""Real processes, started once for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.running_hub import OneGpuScheduler, RunningHub
from playwright.sync_api import Browser, expect
from ui.browser import kept_browser
from ui.product import PATIENCE_MS

# As those of the UI: five seconds are not enough on a machine with other tests beside this one.
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    scheduler = OneGpuScheduler()
    running = RunningHub(tmp_path_factory.mktemp("hub"), scheduler)
    running.start()
    for name in ("alice", "ada", "admin"):
        running.ensure_user(name)
    yield running
    for name in ("alice", "ada"):
        running.stop_server(name)
    running.kill()
    running.api.close()
    scheduler.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with kept_browser() as kept:
        yield kept

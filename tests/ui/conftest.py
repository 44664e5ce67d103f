"""A browser for the UI tests of a process, and patience: what they wait for are real processes.

A test that fails waits this long once; one that passes never does. A machine of CI may be four
times slower than a desk, with other tests beside this one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
)
from ui.browser import find_chromium, kept_browser
from ui.fake_server.lab_server import TOKEN, LabServer
from ui.panel_page import THEMES, WIDE, Open, show_panel
from ui.product import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        find_chromium()
    except FileNotFoundError as error:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            raise
        pytest.skip(str(error))
    with kept_browser() as kept:
        yield kept


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(folder=tmp_path_factory.mktemp("lab"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for all tests: Lab's own files are fetched once."""
    made = browser.new_context(locale="en-GB", timezone_id="UTC")
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


def _errors(said: ConsoleMessage) -> list[str]:
    """What is an error of the page; a server that refuses on purpose is one of the browser's."""
    refused = said.text.startswith(("Failed to load resource", "WebSocket connection to"))
    return [said.text] if said.type == "error" and not refused else []


@pytest.fixture
def open_lab(lab: LabServer, context: BrowserContext) -> Iterator[Open]:
    """Open Lab with a notebook in front (or nothing) and the panel shown; no page may fail."""
    problems: list[str] = []
    pages: list[Page] = []

    def begin(
        *,
        size: Any = WIDE,
        theme: str = "JupyterLab Light",
        notebook: bool = True,
        panel: bool = True,
    ) -> Page:
        lab.put_setting(THEMES, {"theme": theme})
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size(size)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.extend(_errors(said)))
        path = "lab/tree/train.ipynb" if notebook else "lab"
        page.goto(f"{lab.url}/{path}?reset&token={TOKEN}")
        expect(page.locator(".jp-Notebook" if notebook else ".jp-Launcher")).to_be_visible()
        if panel:
            show_panel(page)
        return page

    yield begin
    # What a page says of a request that its closing cut off is no failure of its own.
    found = list(problems)
    for page in pages:
        page.close()
    lab.greet_with()

    assert found == []

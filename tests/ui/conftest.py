"""A browser for the UI tests of a process, and patience: what they wait for are real processes.

A test that fails waits this long once; one that passes never does. A machine of CI may be four
times slower than a desk, with other tests beside this one.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
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


@dataclass(kw_only=True)
class Pages:
    """Opens Lab; no page may fail."""

    lab: LabServer
    context: BrowserContext
    problems: list[str] = field(default_factory=list)
    opened: list[Page] = field(default_factory=list)
    #: As Lab was opened, for the next test.
    ready: Page | None = None

    def open(
        self,
        *,
        size: Any = WIDE,
        theme: str = "JupyterLab Light",
        notebook: bool = True,
        panel: bool = True,
    ) -> Page:
        self.lab.put_setting(THEMES, {"theme": theme})
        page = self.context.new_page()
        self.opened.append(page)
        page.set_viewport_size(size)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: self.problems.extend(_errors(said)))
        path = "lab/tree/train.ipynb" if notebook else "lab"
        page.goto(f"{self.lab.url}/{path}?reset&token={TOKEN}")
        expect(page.locator(".jp-Notebook" if notebook else ".jp-Launcher")).to_be_visible()
        if panel:
            show_panel(page)
        return page

    def close(self) -> None:
        for page in self.opened:
            page.close()
        self.opened.clear()
        self.problems.clear()
        self.ready = None


@pytest.fixture(scope="module")
def shared_pages(lab: LabServer, context: BrowserContext) -> Iterator[Pages]:
    pages = Pages(lab=lab, context=context)
    yield pages
    pages.close()


@pytest.fixture
def open_lab(lab: LabServer, context: BrowserContext, shared_pages: Pages) -> Iterator[Open]:
    """Open Lab with a notebook in front (or nothing) and the panel shown; no page may fail."""
    # Two pages share the notebook's kernel, and each would complain of the other's comms.
    shared_pages.close()
    pages = Pages(lab=lab, context=context)
    yield pages.open
    # What a page says of a request that its closing cut off is no failure of its own.
    found = list(pages.problems)
    pages.close()
    lab.greet_with()

    assert found == []


@pytest.fixture
def shared_lab(request: pytest.FixtureRequest, shared_pages: Pages) -> Iterator[Page]:
    """As `open_lab` has it at first, in the page of the test before: a load of Lab computes for three seconds.

    For tests that only open tabs and send what the next greeting replaces. After one that failed, or that
    asked for a page of its own, it is another one.
    """
    pages = shared_pages
    if pages.ready is None:
        pages.close()
        pages.ready = pages.open()
    page, pages.ready = pages.ready, None
    pages.lab.greet_again()
    yield page
    found = list(pages.problems)
    pages.lab.greet_with()
    if not found and not request.node.stash[_FAILED]:
        _close_tabs(page)
        pages.ready = page

    assert found == []


def _close_tabs(page: Page) -> None:
    """Those that the test opened: the notebook stays."""
    tabs = page.locator("#jp-main-dock-panel .lm-TabBar-tab").filter(has_not_text="train.ipynb")
    for _ in range(tabs.count()):
        tabs.last.click(button="middle")
    expect(tabs).to_have_count(0)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = report.failed
    return report

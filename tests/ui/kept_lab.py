"""JupyterLab with our real extension and a real CRIU, in a home that outlives it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any

from kernel_server import TOKEN, KernelServer
from playwright.sync_api import Browser, Locator, Page
from playwright.sync_api import TimeoutError as NotInTime

from tests.ui.fake_server.lab_server import BUILT, ROOT
from tests.ui.product import PATIENCE_MS, WIDE, write_notebook

NOTEBOOK = "work.ipynb"


@dataclass
class KeptLab(KernelServer):
    """Start, stop and start it again."""

    def _command(self) -> list[str]:
        assert BUILT.exists(), "The Lab extension is not built: run `npm run build` first."
        *words, _without_lab = super()._command()
        extensions = {"gpucommons.labextension": True, "notebook": False}
        return [
            *(sys.executable, "-m", "jupyterlab", *words[words.index("--no-browser") :]),
            f"--ServerApp.jpserver_extensions={extensions}",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]

    def _env(self) -> dict[str, str]:
        return {**super()._env(), "JUPYTER_PATH": str(ROOT / "build")}

    def write(self, *sources: str, name: str = NOTEBOOK) -> None:
        write_notebook(self.work / name, *sources)
        settings = self.home / "config" / "lab" / "user-settings" / "gpucommons"
        settings.mkdir(parents=True, exist_ok=True)
        seen: Any = {"seen": ["welcome", "first-job", "job-goes-on", "idle"]}
        (settings / "panel.jupyterlab-settings").write_text(json.dumps(seen))
        asks = settings.parent / "@jupyterlab" / "apputils-extension"
        asks.mkdir(parents=True, exist_ok=True)
        (asks / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')

    def open(self, browser: Browser, *, name: str = NOTEBOOK, runs: bool = False) -> Page:
        """The notebook in a browser of its own: nothing is shared with those before."""
        context = browser.new_context(locale="en-GB", timezone_id="UTC", viewport=WIDE)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        close_dialogs(page)
        address = f"http://127.0.0.1:{self.port}/lab/tree/{name}?reset&token={TOKEN}"
        page.goto(address)
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        state = says(page, "Busy" if runs else "Idle")
        try:
            state.wait_for()
        except NotInTime as error:
            told = page.locator("#jp-main-statusbar").inner_text()
            message = f"{name}: the status bar says {told!r}; its server says\n{self._tail()}"
            raise AssertionError(message) from error
        return page

    def _tail(self) -> str:
        return "\n".join(self.log.read_text().splitlines()[-40:])


def close_dialogs(page: Page) -> None:
    """What Lab says of a server that is away stays until it is closed, again and again; one lies over
    the other, whichever came first.
    """
    away = page.locator(".jp-Dialog .jp-mod-accept").first
    close = lambda button: button.dispatch_event("click")  # noqa: E731
    page.add_locator_handler(away, close, no_wait_after=True)


def says(page: Page, state: str) -> Locator:
    """The status bar's word for the kernel."""
    return page.get_by_text(re.compile(rf"\| {state}$"))


def cell(page: Page, number: int) -> Locator:
    return page.locator(".jp-Notebook .jp-Cell").nth(number)


def run(page: Page, number: int) -> None:
    cell(page, number).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")


def prompt(page: Page, number: int) -> Locator:
    return cell(page, number).locator(".jp-InputPrompt")


def output(page: Page, number: int) -> Locator:
    return cell(page, number).locator(".jp-OutputArea")


def numbers(page: Page, number: int) -> list[int]:
    """What a cell that counts has printed on this page."""
    text = output(page, number).inner_text()
    return [int(word) for word in text.split() if word.isdigit()]

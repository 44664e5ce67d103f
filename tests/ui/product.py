"""The whole product for UI tests: one ``gpucommons up --demo``, and people in browsers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from playwright.sync_api import TimeoutError as NotInTime

from tests.harness.free_ports import free_port

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "labextensions" / "gpucommons" / "package.json"
PICTURES = Path(os.environ.get("GPUCOMMONS_SCREENSHOTS", ROOT / "build" / "screenshots"))
WIDE: Any = {"width": 1280, "height": 860}
PHONE: Any = {"width": 390, "height": 844}
THEMES = "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
_START_S = 180
#: For a server, a job or a page on a machine four times slower than a desk, and busy.
PATIENCE_MS = 90_000

#: Lab shows a panel that fast; if it did not, the click had closed what was being restored.
_OPENED_MS = 3000

#: The panel as it was built here, whichever one is installed.
LAB_FROM_HERE = f"""
c.Spawner.environment.update({{'JUPYTER_PATH': {str(ROOT / "build")!r}}})
c.Spawner.start_timeout = c.Spawner.http_timeout = 180
"""

#: Notebook 7.6 says this on its pages, also without any extension: when its settings load, and when
#: Lab was left with a file open.
_NOT_OURS = (
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
)

_OF_THE_BROWSER = ("Failed to load resource", "WebSocket connection to")

#: Lab has put something into its main area.
_RESTORED = "#jp-main-dock-panel :is(.jp-Document, .jp-Launcher, .gc-JobPage)"

#: A notebook whose function can become a job, and a cell that works until it is told to end.
NOTEBOOK = (
    "def train(resume_dir):\n    print('trained')",
    "import os\nwhile not os.path.exists('enough'):\n    sum(range(10_000))",
)


@dataclass
class Product:
    """A running ``gpucommons up --demo`` with alice's folder filled."""

    folder: Path
    #: Tests of other files that had failed before.
    failed_before: int = 0
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    #: A page's server goes down: what its browser says of that is no problem.
    restarts: bool = False
    #: What went wrong in any page.
    problems: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> Path:
        return self.folder / "s"

    @property
    def password(self) -> str:
        return (self.state / "password").read_text().strip()

    def home(self, user: str) -> Path:
        return self.state / "homes" / user

    def start(self) -> None:
        if not BUILT.exists():
            message = "The Lab extension is not built: run `npm run build` first."
            raise FileNotFoundError(message)
        self.state.mkdir(mode=0o700)
        (self.state / "jupyterhub_extra.py").write_text(LAB_FROM_HERE)
        self._fill(self.home("alice"))
        self.port = free_port()
        output = self.folder / "up.out"
        command = [
            *(sys.executable, "-m", "gpucommons.scheduler.up", "--demo"),
            *("--state", str(self.state), "--port", str(self.port), "--stop-jobs"),
        ]
        with output.open("wb") as sink:
            self.process = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=self.folder)
        deadline = time.monotonic() + _START_S
        while "GPU Commons is running." not in output.read_text():
            assert self.process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)

    def _fill(self, home: Path) -> None:
        settings = home / ".jupyter" / "lab" / "user-settings"
        (settings / THEMES).parent.mkdir(parents=True)
        (home / "train_digits.py").write_text(self._example())
        (home / ".env").write_text("A=1\n")
        write_notebook(home / "train.ipynb", *NOTEBOOK)

    def _example(self) -> str:
        """The example, at its own pace until the story has seen what it is to see."""
        text = (ROOT / "examples" / "train_digits.py").read_text()
        pause = "run.wait(seconds_per_epoch)"
        assert pause in text
        return text.replace(pause, f"Path({str(self._hurry)!r}).exists() or {pause}")

    @property
    def _hurry(self) -> Path:
        return self.folder / "hurry"

    def hurry(self) -> None:
        """Jobs go on without a pause after each epoch."""
        self._hurry.touch()

    def end_busy_cell(self) -> None:
        (self.home("alice") / "enough").touch()

    def set_theme(self, user: str, theme: str) -> None:
        path = self.home(user) / ".jupyter" / "lab" / "user-settings" / THEMES
        path.write_text(json.dumps({"theme": theme}))

    def stop(self) -> None:
        """End it with all its notebooks and jobs, also on a machine too busy to do it in time."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for left in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                known = [left.environ().get("HOME", ""), *left.cmdline()]
                if any(str(self.state) in each for each in known):
                    left.kill()

    def _problem(self, user: str, text: str) -> None:
        if text not in _NOT_OURS and not (self.restarts and text.startswith(_OF_THE_BROWSER)):
            self.problems.append(f"{user}: {text}")

    def log_in(self, browser: Browser, user: str) -> Page:
        """A browser of this person's own, at the hub's first page after the login."""
        context: BrowserContext = browser.new_context(
            viewport=WIDE, locale="en-GB", color_scheme="light"
        )
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: self._problem(user, str(error)))
        page.on(
            "console", lambda said: self._problem(user, said.text) if said.type == "error" else None
        )
        page.goto(self.url)
        page.get_by_label("Username").fill(user)
        page.locator("#password_input").fill(self.password)
        page.get_by_role("button", name="Sign in").click()
        return page


def write_notebook(path: Path, *sources: str) -> None:
    cells = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook))


def picture(target: Page | Locator, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    target.screenshot(path=PICTURES / f"product-{name}.png")


def both_themes(page: Page, name: str) -> None:
    """Pages that follow the system's colour scheme."""
    picture(page, f"{name}-light")
    page.emulate_media(color_scheme="dark")
    # Bootstrap lets colours change slowly: in the midst of it links are too dark to be read.
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.evaluate("Promise.all(document.getAnimations().map(one => one.finished))")
    picture(page, f"{name}-dark")
    page.emulate_media(color_scheme="light")


def take_and_start(page: Page, size: str) -> None:
    """The options form: take a size, press Start."""
    card_of(page, size).click()
    page.get_by_role("button", name="Start").click()


def card_of(page: Page, size: str) -> Locator:
    exactly = page.locator(".gc-size", has_text=re.compile(rf"^\s*{size}\s*$"))
    return page.locator(".gc-slot").filter(has=exactly).locator(".gc-card")


def open_panel(page: Page) -> Locator:
    """The panel, shown. Lab may just be restoring it: then its tab closes what it opened."""
    tab = page.locator('[data-id="gpucommons-panel"]').first
    expect(tab).to_be_visible()
    expect(page.locator(_RESTORED).filter(visible=True).first).to_be_visible()
    panel = page.locator("#gpucommons-panel")
    for _ in range(5):
        if panel.is_visible():
            break
        tab.click()
        with contextlib.suppress(NotInTime):
            panel.wait_for(state="visible", timeout=_OPENED_MS)
    expect(panel.get_by_role("region", name="My GPU")).to_be_visible()
    return panel


def call_panel(page: Page) -> Locator:
    """The panel from the menu of Notebook 7, which has no tabs. While it loads, menus close again."""
    expect(page.locator(":is(.jp-DirListing-item, .jp-Cell)").first).to_be_visible()
    panel = page.locator("#gpucommons-panel")
    for _ in range(10):
        with contextlib.suppress(NotInTime):
            page.get_by_role("menuitem", name="View").click(timeout=_OPENED_MS)
            page.locator(".lm-Menu-item", has_text="Left Sidebar").hover(timeout=_OPENED_MS)
            item = page.locator(".lm-Menu-item", has_text="Show GPU Commons")
            item.click(timeout=_OPENED_MS)
            panel.wait_for(state="visible", timeout=_OPENED_MS)
            break
        page.keyboard.press("Escape")
    expect(panel.get_by_role("region", name="My GPU")).to_be_visible()
    return panel


def section(panel: Locator, name: str) -> Locator:
    return panel.get_by_role("region", name=name, exact=True)


def job_row(panel: Locator, name: str) -> Locator:
    button = panel.page.get_by_role("button", name=name, exact=True)
    return panel.locator("li.gc-Job").filter(has=button)


def ask_for(panel: Locator, gpus: str) -> None:
    """Choose a size in *Train*; the radio itself is drawn by its label."""
    panel.get_by_role("radio", name=gpus, exact=True).check(force=True)


LogIn = Callable[[str], Page]

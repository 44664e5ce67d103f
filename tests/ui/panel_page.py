"""What tests of the panel share: names of its parts, pictures, messages of the scripted server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

PICTURES = Path(os.environ.get("GPUCOMMONS_SCREENSHOTS", "build/screenshots"))
WIDE = {"width": 1400, "height": 1040}
THEMES = "@jupyterlab/apputils-extension:themes"

Open = Callable[..., Page]


def now_ms() -> int:
    return int(time.time() * 1000)


def show_panel(page: Page) -> None:
    tab = page.locator('[data-id="gpucommons-panel"]').first
    if not page.locator("#gpucommons-panel").is_visible():
        tab.click()
    expect(page.locator(".gc-Section").first).to_be_visible()


def section(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def picture(target: Page | Locator, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    target.screenshot(path=PICTURES / f"{name}.png")


def usage(*samples: dict[str, Any], state: str = "ok") -> dict[str, Any]:
    return {"type": "usage", "state": state, "samples": samples}


def job_row(page: Page, name: str) -> Locator:
    button = page.get_by_role("button", name=name, exact=True)
    return page.locator("li.gc-Job").filter(has=button)


def jobs(*each: dict[str, Any]) -> dict[str, Any]:
    return {"type": "jobs", "jobs": each}


def open_job(page: Page) -> None:
    page.get_by_role("button", name="digits-7", exact=True).click()
    expect(page.locator(".gc-JobPage h1")).to_have_text("digits-7")

"""The pages in a real browser: what scripts do, and how it looks on wide and narrow screens."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright

pytestmark = pytest.mark.ui

PICTURES = Path(os.environ.get("GPUCOMMONS_SCREENSHOTS", "build/screenshots"))
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture
async def open_page(
    start_pages: Callable[..., Any], browser_module: Any, cluster: Any
) -> AsyncIterator[Callable[..., Any]]:
    """Open a page as a user; no error may reach the console."""
    problems: list[str] = []
    async with async_playwright() as playwright:
        browser = await browser_module.launch(playwright.chromium)

        async def begin(
            name: str, path: str, *, scheme: str = "light", size: dict[str, int] = WIDE, **settings: Any
        ) -> Page:
            server = await start_pages(**settings)
            context = await browser.new_context(
                viewport=size, color_scheme=scheme, locale="en-GB", timezone_id="UTC"
            )
            cookie = cluster.login_cookie(f"token-{name}")
            await context.add_cookies(
                [{"name": "service-gpucommons", "value": cookie, "url": server.url}]
            )
            page = await context.new_page()
            page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda error: problems.append(str(error)))
            await page.clock.set_fixed_time(cluster.NOW)
            await page.goto(server.url + cluster.PREFIX + path)
            return page

        yield begin
        await browser.close()
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize(
    ("name", "user", "path"),
    [
        ("start", "alice", ""),
        ("ticket", "alice", "ticket/0190aaaa-0000-7000-8000-000000000001"),
        ("new-ticket", "alice", "ticket?milli_gpu=1000"),
        ("admin", "admin", "admin"),
        ("admin-idle", "admin", "admin/idle"),
        ("admin-evictions", "admin", "admin/evictions"),
        ("admin-report", "admin", "admin/report"),
    ],
)
async def test_no_page_is_wider_than_the_screen(
    open_page: Any, name: str, user: str, path: str, size: dict[str, int], scheme: str
) -> None:
    page = await open_page(user, path, scheme=scheme, size=size, allow_admin_writes=True)
    kind = "phone" if size is PHONE else "wide"
    PICTURES.mkdir(parents=True, exist_ok=True)

    await page.screenshot(path=PICTURES / f"{name}-{kind}-{scheme}.png", full_page=True)

    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= size["width"]

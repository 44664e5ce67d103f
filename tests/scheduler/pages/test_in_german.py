"""The pages in another language: which one is taken, that nothing is left in English, how it looks."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright
from ui.browser import launch

from deploy.translations.catalogues import PAGES, ROOT
from gpucommons.scheduler.languages import texts
from tests.scheduler.languages.left_in_english import left_in_english

PICTURES = Path(os.environ.get("GPUCOMMONS_SCREENSHOTS", "build/screenshots"))
TICKET = "ticket/0190aaaa-0000-7000-8000-000000000001"
SHOWN = (
    ("start", "alice", ""),
    ("ticket", "alice", TICKET),
    ("new-ticket", "alice", "ticket?milli_gpu=1000"),
    ("admin", "admin", "admin"),
    ("admin-teams", "admin", "admin/teams"),
    ("admin-waiting", "admin", "admin/waiting"),
    ("admin-idle", "admin", "admin/idle"),
    ("admin-evictions", "admin", "admin/evictions"),
    ("admin-report", "admin", "admin/report"),
    ("admin-utilisation", "admin", "admin/utilisation"),
    ("calibration", "alice", "calibration"),
)
GERMAN = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.8"}


@pytest.mark.parametrize(("name", "user", "path"), SHOWN, ids=[one[0] for one in SHOWN])
async def test_no_text_of_the_catalogue_stays_english(
    visit: Any, name: str, user: str, path: str
) -> None:
    visitor = await visit(user, allow_admin_writes=True)
    answer = await visitor.get(path, headers=GERMAN)

    assert '<html lang="de">' in answer.text
    assert answer.headers["Content-Language"] == "de"
    assert left_in_english(answer.text) == set()
    assert "&lt;Macro" not in answer.text, "a value of the page is called as what it imports"


async def test_the_browser_s_language_is_taken_unless_one_was_chosen(visit: Any) -> None:
    visitor = await visit("alice")

    assert '<html lang="en">' in await visitor.page("")
    answer = await visitor.get("language/de?then=admin/report%3Fmonth%3D2026-11")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/services/gpucommons/admin/report?month=2026-11"
    assert "; Path=/;" in answer.headers["Set-Cookie"], "the hub's pages are in it, too"
    chosen = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}

    page = await visitor.get(
        "calibration", headers={"Accept-Language": "en"} | _with(visitor, chosen)
    )
    assert "Wie richtig liegen wir?" in page.text
    assert 'href="/services/gpucommons/language/en?then=calibration"' in page.text


def _with(visitor: Any, cookie: dict[str, str]) -> dict[str, str]:
    own = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    return {"Cookie": f"{own}; {cookie['Cookie']}"}


@pytest.mark.parametrize(
    "then",
    [
        "//evil.example",
        "../../hub/logout",
        "%2e%2e/.%2E/hub/logout",
        ".\t./hub/logout",
        "\\evil",
        "/hub/logout",
        "admin\r\nSet-Cookie: a=b",
        "https://evil.example",
    ],
)
async def test_a_choice_of_language_leads_nowhere_else(visit: Any, then: str) -> None:
    answer = await (await visit(None)).get("language/de", params={"then": then})

    assert answer.headers["Location"] == "/services/gpucommons/"


async def test_there_is_no_switch_to_a_language_that_is_not_there(visit: Any) -> None:
    assert (await (await visit(None)).get("language/xx")).status_code == 404


async def test_errors_are_said_in_the_reader_s_language(visit: Any) -> None:
    answer = await (await visit("alice")).get("nowhere", headers=GERMAN)

    assert "Diese Seite gibt es nicht." in answer.text


async def test_numbers_agree_with_their_nouns_and_thousands_are_apart(cluster: Any) -> None:
    from gpucommons.scheduler.pages.present import words  # noqa: PLC0415 - beside its use

    with texts.spoken("de"):
        assert texts.ngettext("%(num)s worker", "%(num)s workers", 2) == "2 Worker"
        assert (
            texts.ngettext("may ask once more", "may ask %(num)s more times", 1)
            == "noch einmal möglich"
        )
        assert words.amount(1234.5, ",.1f") == "1\u202f234,5"
        assert words.place(2) == "2. in der Schlange"
        assert [words.hours(one) for one in (1234.5, 0.044, 0.00008)] == [
            "1\u202f234,5", "0,044", "<0,001",
        ]  # fmt: skip
    assert words.amount(1234.5, ",.1f") == "1,234.5"
    assert [words.hours(one) for one in (1234.5, 0.044, 0)] == ["1,234.5", "0.044", "0"]
    assert words.place(2) == "2nd in line"


async def test_every_text_that_is_asked_for_is_found() -> None:
    """A text inside an f-string, or one of a variable alone, is none that Babel finds."""
    for path in PAGES.sources():
        inside = re.findall(r"\{n?gettext\(['\"]", path.read_text(encoding="utf-8"))
        assert inside == [], path.relative_to(ROOT)


#: How many have words that stand beyond them, if these are a little longer yet.
BEYOND = """all => all.filter(one => {
    one.textContent = 'von 11 1/2 GPUs';
    return one.scrollWidth > one.clientWidth;
}).length"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of this file."""
    async with async_playwright() as playwright:
        started = await launch(playwright.chromium)
        yield started
        await started.close()


@pytest.mark.ui
@pytest.mark.parametrize("shown", SHOWN, ids=[one[0] for one in SHOWN])
async def test_the_longer_words_fit_and_everybody_can_read_them(
    start_pages: Any, cluster: Any, browser: Browser, shown: tuple[str, str, str]
) -> None:
    name, user, path = shown
    server = await start_pages(allow_admin_writes=True)
    for width, scheme in ((1280, "light"), (300, "dark")):
        async with await browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            locale="de-DE",
            timezone_id="UTC",
        ) as context:
            cookie = cluster.login_cookie(f"token-{user}")
            await context.add_cookies(
                [{"name": "service-gpucommons", "value": cookie, "url": server.url}]
            )
            page = await context.new_page()
            await page.clock.set_fixed_time(cluster.NOW / 1000)
            await page.goto(server.url + cluster.PREFIX + path)
            await page.screenshot(path=PICTURES / f"de-{name}-{width}-{scheme}.png", full_page=True)

            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.locator(".scaled > span").evaluate_all(BEYOND) == 0
            assert await _violations(page) == []


async def _violations(page: Page) -> list[str]:
    found = (await Axe().run(page)).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]

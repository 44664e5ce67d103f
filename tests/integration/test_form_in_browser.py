"""The options form in a real browser, inside the hub's own page: what its buttons and keys send."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from gpucommons.scheduler.languages.chosen import COOKIE
from tests.scheduler.languages.left_in_english import left_in_english

pytestmark = pytest.mark.ui

PICTURES = Path(os.environ.get("GPUCOMMONS_SCREENSHOTS", "build/screenshots"))


def log_in(page: Page, hub: Any, name: str) -> None:
    """On the way to the form."""
    page.goto(f"{hub.url}/hub/login?next=/hub/spawn")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(hub.facts["password"])
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def form(browser: Any, hub: Any) -> Any:
    """The form as alice sees it while ada has one half of the only GPU."""
    if hub.server("ada") is None:
        assert hub.start_server("ada", {"milli_gpu": 500}).status_code == 201
    page = browser.new_page(color_scheme="light")
    log_in(page, hub, "alice")
    expect(page.get_by_role("heading", name="Start a notebook")).to_be_visible()
    yield page
    page.close()


def test_in_german_it_fits_a_phone_and_everybody_can_read_it(browser: Any, hub: Any) -> None:
    """As the browser asks for it, and where English was chosen on the service's pages, in English."""
    page = browser.new_page(locale="de-DE")
    log_in(page, hub, "alice")
    expect(page.get_by_role("heading", name="Notebook starten")).to_be_visible()
    for width, scheme in ((1280, "light"), (300, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("theme => { document.documentElement.dataset.bsTheme = theme }", scheme)
        page.screenshot(
            path=PICTURES / f"options-de-{width}.png", full_page=True, animations="disabled"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
        assert [f"{one['id']}: {one['nodes'][0]['html']}" for one in found] == []
    assert left_in_english(page.locator(".gpucommons").evaluate("one => one.outerHTML")) == set()

    page.context.add_cookies([{"name": COOKIE, "value": "en", "url": hub.url}])
    page.goto(f"{hub.url}/hub/spawn")
    expect(page.get_by_role("heading", name="Start a notebook")).to_be_visible()
    page.close()


def test_waiting_takes_along_all_that_was_chosen(form: Page) -> None:
    form.route("**/services/gpucommons/ticket/chosen", lambda route: route.fulfill(body="the line"))
    form.evaluate(
        """document.querySelector('.gpucommons').insertAdjacentHTML(
            'beforebegin', '<input type=hidden name=profile value="big & new">'
            + '<input type=password name=key value="hunter2">')"""
    )
    form.screenshot(path=PICTURES / "options-light.png", full_page=True)
    form.evaluate("document.documentElement.dataset.bsTheme = 'dark'")
    form.screenshot(path=PICTURES / "options-dark.png", full_page=True, animations="disabled")

    with form.expect_request("**/services/gpucommons/ticket/chosen") as sent:
        form.get_by_role("button", name="Wait in line for 1 GPU").click()

    expect(form.get_by_text("the line")).to_be_visible()
    assert (sent.value.method, urlsplit(form.url).query) == ("POST", "")
    fields = parse_qs(sent.value.post_data or "")
    assert fields["wait"] == ["vision/gpu/1000"]
    assert fields["profile"] == ["big & new"]
    form.go_back()
    expect(form.get_by_role("button", name="Start", exact=True)).to_be_visible()


def test_the_enter_key_starts_what_is_chosen(form: Page) -> None:
    form.route("**/hub/spawn?*", lambda route: route.fulfill(body="starting"))
    form.get_by_label("½").focus()

    with form.expect_request("**/hub/spawn?*") as sent:
        form.keyboard.press("Enter")

    assert sent.value.method == "POST"
    assert 'name="wait"' not in (sent.value.post_data or "")

"""While the scheduler is away, the proxy shows the hub's page, which says what that means."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

pytestmark = pytest.mark.ui


def show(browser: Browser, hub: Any, path: str) -> tuple[Page, list[str]]:
    """A page behind the proxy, as it answers from then on; what is in the list is answered instead."""
    page = browser.new_page()
    instead: list[str] = []

    def proxy(route: Route) -> None:
        if instead:
            route.fulfill(body=instead[0], content_type="text/html")
        else:
            answer = route.fetch(url=f"{hub.url}/hub/error/503?url={path}")
            route.fulfill(response=answer, status=503)

    page.clock.install()
    page.route(f"{hub.url}{path}", proxy)
    page.goto(hub.url + path)
    return page, instead


def test_it_says_that_the_scheduler_is_away_and_comes_back_by_itself(
    browser: Browser, hub: Any
) -> None:
    page, instead = show(browser, hub, "/services/gpucommons/admin")

    expect(page.get_by_role("heading", level=1)).to_have_text("The GPU scheduler does not answer")
    expect(page.get_by_text("Notebooks and jobs that run go on")).to_be_visible()
    expect(page.get_by_text("Your server appears to be down")).to_be_hidden()
    with page.expect_response("**/admin"):
        page.clock.run_for(5000)
    expect(page.get_by_role("heading", level=1)).to_have_text("The GPU scheduler does not answer")
    instead.append("<h1>GPU admin</h1>")
    page.clock.run_for(5000)
    expect(page.get_by_role("heading", level=1)).to_have_text("GPU admin")


def test_of_a_notebook_server_it_says_what_the_hub_always_said(browser: Browser, hub: Any) -> None:
    page, _ = show(browser, hub, "/user/alice/lab")

    expect(page.get_by_text("Your server appears to be down")).to_be_visible()
    expect(page.get_by_text("Notebooks and jobs that run go on")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_have_text("503 : Service Unavailable")

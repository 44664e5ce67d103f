"""What alice does in a real browser: she logs in, takes half a GPU, and sees her slice in Lab."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Error, Page, expect, sync_playwright

from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, TourFailedError
from benchmarks.tour_z2jh.site import Site
from tests.ui.browser import find_chromium
from tests.ui.product import PICTURES, WIDE, card_of, open_panel, section

#: Of any step, on a machine with other work.
_PATIENCE_MS = 240_000


def open_notebook(line: Timeline, site: Site) -> tuple[Person, dict[str, float]]:
    """Half a GPU, in the release's own namespace; seconds from *Start* to Lab and to the slice."""
    alice = Person(site.url, "alice", site.password)
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**find_chromium().arguments())  # type: ignore[arg-type] # a plain dict
        page = browser.new_page(viewport=WIDE)
        page.set_default_timeout(_PATIENCE_MS)
        try:
            _log_in(page, site)
            seconds = _start(line, page)
        except (Error, AssertionError) as error:
            _picture(page, "failed")
            message = f"in the browser, at {page.url}: {error}"
            raise TourFailedError(message) from error
        finally:
            browser.close()
    return alice, seconds


def _log_in(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/hub/login?next=/hub/spawn")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill(site.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Start a notebook")).to_be_visible()


def _start(line: Timeline, page: Page) -> dict[str, float]:
    card_of(page, "½").click()
    _picture(page, "start")
    began = time.monotonic()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/lab**")
    panel = open_panel(page)
    lab_s = time.monotonic() - began
    line.row("G2", f"alice's browser shows JupyterLab with the panel {lab_s:.1f} s after Start")
    tile = section(panel, "My GPU")
    expect(tile).to_contain_text("½of A100-40")
    expect(tile).to_contain_text(re.compile(r"\d\.\d of 19\.4 GiB"))
    slice_s = time.monotonic() - began
    _picture(page, "lab")
    line.row("G2", f"and in it the slice as its node's agent reads it, {slice_s:.1f} s after Start")
    return {"spawn_s": round(lab_s, 2), "slice_shown_s": round(slice_s, 2)}


def _picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"z2jh-{name}.png")

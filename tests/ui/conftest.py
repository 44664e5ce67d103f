"""A browser for each file of UI tests, and patience: what they wait for are real processes.

A test that fails waits this long once; one that passes never does. A machine of CI may be four
times slower than a desk, with other tests beside this one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from ui.browser import find_chromium
from ui.product import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        chromium = find_chromium()
    except FileNotFoundError as error:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            raise
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(**chromium.arguments())  # type: ignore[arg-type] # a plain dict
        yield started
        started.close()

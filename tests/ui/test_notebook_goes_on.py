"""A notebook in a real JupyterLab whose browser is closed, and whose server is stopped, in the middle.

One story in one home: what a cell prints is there, whoever opens the notebook and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import psutil
import pytest
from kernel_server import criu_of_tests, until
from playwright.sync_api import Browser, Page, expect

from tests.ui.kept_lab import KeptLab, numbers, output, prompt, run
from tests.ui.product import picture

pytestmark = [pytest.mark.ui, pytest.mark.criu, pytest.mark.timeout(600)]

COUNTS = """import os, time
for n in range(10_000):
    print(n, flush=True)
    if os.path.exists('enough'): break
    time.sleep(0.1)
print("over")"""
SHOWN, SLIDER = range(2)
CELLS = (
    COUNTS,
    "import ipywidgets\nipywidgets.IntSlider(5)",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptLab]:
    one = KeptLab(tmp_path_factory.mktemp("lab") / "home", {"GPUCOMMONS_CRIU": criu_of_tests()})
    one.write(*CELLS)
    one.start()
    yield one
    assert one.process is not None
    process = psutil.Process(one.process.pid)
    for each in (*process.children(recursive=True), process):
        with suppress(psutil.Error):
            each.kill()
    one.process.wait()


def _is_whole(page: Page, number: int) -> bool:
    """Nothing twice, nothing out of turn; what was under way when it was saved and woken may be lost."""
    shown = numbers(page, number)
    return shown == sorted(set(shown)) and shown[-1] + 1 - len(shown) <= 5


def _grown(page: Page, number: int, most: int) -> list[int]:
    """Once it shows more than this."""

    def look() -> list[int] | None:
        found = numbers(page, number)
        return found if found and found[-1] > most else None

    found: list[int] = until(look, f"more than {most}")
    return found


def test_what_a_cell_prints_with_no_page_open_is_there_when_it_is_opened_elsewhere(
    lab: KeptLab, browser: Browser
) -> None:
    first = lab.open(browser)
    run(first, SHOWN)
    before = _grown(first, SHOWN, 5)
    first.context.close()

    second = lab.open(browser, runs=True)
    expect(prompt(second, SHOWN)).to_have_text("[*]:")
    shown = _grown(second, SHOWN, before[-1] + 10)
    picture(second, "notebook-opened-elsewhere")

    assert shown == list(range(len(shown)))
    second.context.close()
    (lab.work / "enough").touch()
    until(lambda: lab.ask("GET", "api/kernels")[0]["execution_state"] == "idle", "its end")
    third = lab.open(browser)
    expect(output(third, SHOWN)).to_contain_text("over")
    expect(prompt(third, SHOWN)).to_have_text("[1]:")
    shown = numbers(third, SHOWN)
    assert shown == list(range(len(shown)))
    third.keyboard.press("Control+s")
    until(lambda: "over" in (lab.work / "work.ipynb").read_text(), "the save")
    until(lambda: lab.ask("GET", "gpucommons/cell-runs?path=work.ipynb")["runs"] == [], "that")
    (lab.work / "enough").unlink()
    third.context.close()


def test_after_a_stop_and_a_start_the_cell_goes_on_in_both_tabs(
    lab: KeptLab, browser: Browser
) -> None:
    page = lab.open(browser)
    run(page, SLIDER)
    expect(output(page, SLIDER).locator(".widget-slider")).to_be_visible()
    run(page, SHOWN)
    _grown(page, SHOWN, 5)
    # Opened last: it is the page that Jupyter keeps outputs for.
    beside = lab.open(browser, runs=True)
    _grown(beside, SHOWN, 10)
    until(lambda: lab.greeting("hello")["keeps"] == "kernels", "the self-test")

    lab.stop()
    before = max(numbers(one, SHOWN)[-1] for one in (page, beside))
    lab.start()

    for one in (page, beside):
        _grown(one, SHOWN, before + 20)
        # The other page asks for what it missed once it is back.
        until(partial(_is_whole, one, SHOWN), "all that came meanwhile")
    (lab.work / "enough").touch()
    for one in (page, beside):
        expect(output(one, SHOWN)).to_contain_text("over")
        expect(prompt(one, SHOWN)).not_to_have_text("[*]:")
    picture(page, "notebook-woken")
    for one in (page, beside):
        one.context.close()

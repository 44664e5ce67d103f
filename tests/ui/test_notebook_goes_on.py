"""A notebook in a real JupyterLab whose browser is closed, and whose server is stopped, in the middle.

One story in one home: what a cell prints is there, whoever opens the notebook and when.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import psutil
import pytest
from kernel_server import criu_of_tests, until
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as NotInTime

from tests.ui.kept_lab import KeptLab, numbers, output, prompt, run, says
from tests.ui.product import picture

pytestmark = [pytest.mark.ui, pytest.mark.criu, pytest.mark.timeout(600)]

COUNTS = """import os, time
for n in range(10_000):
    print(n, flush=True)
    if os.path.exists('enough'): break
    time.sleep(0.1)
print("over")"""
WIDGET = """import ipywidgets
moved, slider = [], ipywidgets.IntSlider(5)
slider.observe(lambda change: moved.append(change["new"]), "value")
slider"""
STATE = """import threading, time
book, ticks = open("book.txt", "a"), []
def tick():
    while True:
        ticks.append(1)
        time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()"""
ASKS_FOR_ALL = """before = len(ticks)
time.sleep(0.5)
print(book.write("more"), book.close(), open("book.txt").read(), len(ticks) > before, moved)"""
FIGURE = """from IPython.display import SVG, display
def drawn(points):
    line = f'<polyline points="{points}" fill="none" stroke="teal"/>'
    return SVG(f'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60">{line}</svg>')
figure = display(drawn("0,50 40,10 80,30"), display_id=True)"""
DRAWS_ON = 'figure.update(drawn("0,50 40,10 80,30 88,2"))'
SHOWN, SLIDER, THREAD, ALL, DRAWN, DRAWN_ON = range(6)
CELLS = (COUNTS, WIDGET, STATE, ASKS_FOR_ALL, FIGURE, DRAWS_ON)
#: Lab takes the box away soon after it has taken Enter.
TRY_MS = 5_000
ASKING = "asking.ipynb"
#: Something is printed meanwhile, so that the page has missed some of it when it is back.
ASKS = """import threading, time
asked = True
def tick():
    while asked:
        print(".", end="", flush=True)
        time.sleep(0.2)
threading.Thread(target=tick, daemon=True).start()
name = input("name? ")
asked = False
print("hello", name)"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptLab]:
    one = KeptLab(
        tmp_path_factory.mktemp("lab") / "home",
        {"GPUCOMMONS_CRIU": criu_of_tests(), "GPUCOMMONS_NODE": "node-1"},
    )
    one.write(*CELLS)
    one.write(ASKS, name=ASKING)
    one.start()
    yield one
    assert one.process is not None
    process = psutil.Process(one.process.pid)
    for each in (*process.children(recursive=True), process):
        with suppress(psutil.Error):
            each.kill()
    one.process.wait()


def _is_whole(page: Page, number: int) -> bool:
    """Nothing twice, nothing out of turn, nothing lost."""
    shown = numbers(page, number)
    return shown == list(range(len(shown)))


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
    # Jupyter hands what came over a stop to one page alone, the last.
    third.context.close()


def _begin_all(lab: KeptLab, browser: Browser) -> tuple[Page, Page, Page]:
    """Something under way in each cell: two pages of one notebook, and one of another that asks."""
    page, asking = lab.open(browser), lab.open(browser, name=ASKING)
    run(asking, 0)
    expect(output(asking, 0)).to_contain_text("name?")
    run(page, THREAD)
    run(page, SLIDER)
    expect(output(page, SLIDER).locator(".widget-slider")).to_be_visible()
    run(page, DRAWN)
    expect(output(page, DRAWN).locator("img, svg").first).to_be_visible()
    run(page, SHOWN)
    _grown(page, SHOWN, 5)
    # Opened last: it is the page that Jupyter keeps outputs for.
    beside = lab.open(browser, runs=True)
    _grown(beside, SHOWN, 10)
    until(lambda: lab.greeting("hello")["keeps"] == "kernels", "the self-test")
    return page, beside, asking


def _goes_on(page: Page) -> None:
    """Thread, open file, widget with its callback, and a figure that is drawn further."""
    handle = output(page, SLIDER).locator(".noUi-handle")
    # Not by focus alone: what Lab says of the server that was away may still lie over it.
    handle.click()
    handle.press("ArrowRight")
    expect(output(page, SLIDER).locator(".widget-readout")).to_have_text("6")
    run(page, ALL)
    expect(output(page, ALL)).to_have_text("4 None more True [6]")
    drawn = output(page, DRAWN).inner_html()
    run(page, DRAWN_ON)
    expect(prompt(page, DRAWN_ON)).to_have_text(re.compile(r"\[\d+\]:"))
    until(lambda: output(page, DRAWN).inner_html() != drawn, "the figure drawn further")


def _answer(page: Page, text: str) -> None:
    """What Lab says of the server that was away takes the keys while it is open, whenever it comes."""
    box = output(page, 0).locator("input")
    expect(box).to_be_visible()

    def is_taken() -> bool:
        # Enter of a try before may be taken in the middle of this one.
        with suppress(NotInTime):
            box.click(timeout=TRY_MS)
            box.fill(text, timeout=TRY_MS)
            box.press("Enter", timeout=TRY_MS)
        with suppress(AssertionError):
            expect(box).to_have_count(0, timeout=TRY_MS)
        return box.count() == 0

    until(is_taken, "that the box takes Enter")


def test_after_a_stop_and_a_start_all_goes_on_in_the_same_tabs(
    lab: KeptLab, browser: Browser
) -> None:
    page, beside, asking = _begin_all(lab, browser)

    lab.stop()
    before = max(numbers(one, SHOWN)[-1] for one in (page, beside))
    lab.environ["GPUCOMMONS_NODE"] = "node-2"
    lab.start()

    # One of them may be awake before the other.
    moved = re.compile(r"Moved to another node, your (2 kernels are|kernel is) back\. \w+\.ipynb")
    expect(page.get_by_text(moved).first).to_be_visible()
    picture(page, "notebook-moved")
    for one in (page, beside):
        _grown(one, SHOWN, before + 20)
        # The other page asks for what it missed once it is back.
        until(partial(_is_whole, one, SHOWN), "all that came meanwhile")
    for one in (page, beside, asking):
        expect(says(one, "Busy")).to_be_visible()
    later = lab.open(browser, runs=True)
    picture(later, "notebook-woken-opened-later")
    later.context.close()
    (lab.work / "enough").touch()
    for one in (page, beside):
        expect(output(one, SHOWN)).to_contain_text("over")
        expect(prompt(one, SHOWN)).not_to_have_text("[*]:")
        expect(says(one, "Idle")).to_be_visible()
    _goes_on(page)
    picture(page, "notebook-woken")

    # A question that waited at the stop is answered after it.
    _answer(asking, "Ada")
    expect(output(asking, 0)).to_contain_text("hello Ada")
    expect(prompt(asking, 0)).to_have_text("[1]:")
    picture(asking, "notebook-woken-asking")
    for one in (page, beside, asking):
        one.context.close()

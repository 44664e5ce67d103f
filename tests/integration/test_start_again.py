"""A server that ended without a reason is started again from its old tab, which has unsaved changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration.workstation import Workstation, kept_machine, log_in, start_lab, until
from playwright.sync_api import Browser, expect

from tests.ui.kept_lab import numbers, run, says
from tests.ui.product import PATIENCE_MS, WIDE, picture, write_notebook

pytestmark = [pytest.mark.hub, pytest.mark.criu, pytest.mark.timeout(400)]


@pytest.fixture
def machine() -> Iterator[Workstation]:
    """Nobody is culled, however slowly a page loads; a second try begins on a new machine."""
    with kept_machine(idle_after_s=600) as one:
        yield one


COUNTS = """import time
for n in range(10_000):
    print(n, flush=True)
    time.sleep(0.1)"""


@pytest.mark.ui
def test_start_again_in_a_tab_with_unsaved_changes_is_one_press_and_its_cell_goes_on(
    machine: Workstation, browser: Browser
) -> None:
    write_notebook(machine.state / "homes" / "alice" / "counts.ipynb", COUNTS)
    context = browser.new_context(locale="en-GB", timezone_id="UTC", viewport=WIDE)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    log_in(page, machine)
    start_lab(page, "½")
    page.goto(f"{machine.url}/user/alice/lab/tree/counts.ipynb")
    says(page, "Idle").wait_for()
    run(page, 0)
    until(lambda: len(numbers(page, 0)) > 5, "the first lines")
    # Nobody knows of a reason, as where a node was drained.
    machine.close("alice")
    before = numbers(page, 0)[-1]

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Kept: 1 kernel")
    picture(page, "stopped-with-unsaved-changes")
    dialog.get_by_role("button", name="Start again").click()
    expect(page.get_by_text("This tab goes on when the server is back")).to_be_visible()
    picture(page, "starts-again-in-its-tab")
    until(lambda: machine.is_ready("alice"), "the start")

    expect(page.get_by_text("Your kernel is back, with its variables")).to_be_visible()
    expect(page.get_by_text("This tab goes on when the server is back")).to_have_count(0)
    picture(page, "old-tab-goes-on")
    until(lambda: numbers(page, 0)[-1] > before + 20, "more lines")
    expect(says(page, "Busy")).to_be_visible()
    shown = numbers(page, 0)
    assert shown == list(range(len(shown)))
    # In a second Lab the same notebook would be open twice.
    assert context.pages == [page]
    context.close()


@pytest.mark.ui
def test_variables_are_offered_in_the_tab_that_has_their_notebook_which_has_a_kernel_again(
    browser: Browser,
) -> None:
    with kept_machine(idle_after_s=600, has_criu=False) as machine:
        write_notebook(
            machine.state / "homes" / "alice" / "work.ipynb", "x = 41\nprint(x)", "print(x + 1)"
        )
        context = browser.new_context(locale="en-GB", timezone_id="UTC", viewport=WIDE)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        log_in(page, machine)
        start_lab(page, "½")
        page.goto(f"{machine.url}/user/alice/lab/tree/work.ipynb")
        says(page, "Idle").wait_for()
        run(page, 0)
        until(lambda: numbers(page, 0) == [41], "the first cell")
        machine.close("alice")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Kept: 1 variable")
        picture(page, "stopped-with-variables-kept")
        dialog.get_by_role("button", name="Start again").click()
        until(lambda: machine.is_ready("alice"), "the start")

        notice = page.get_by_role("alert").filter(has_text="1 of 1 variable of work.ipynb was kept")
        expect(notice).to_be_visible()
        says(page, "Idle").wait_for()
        picture(page, "variables-offered-in-their-tab")
        notice.get_by_role("button", name="Show…").click()
        page.get_by_role("dialog").get_by_role("button", name="Load").click()
        expect(page.get_by_text("1 variable was loaded.")).to_be_visible()
        run(page, 1)
        until(lambda: numbers(page, 1) == [42], "the variable")
        assert context.pages == [page]
        context.close()

"""A notebook in a real JupyterLab whose user may make no user namespaces: root's program keeps it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psutil
import pytest
from below_root.homes import home_of_user
from below_root.notebook_server import USER, BelowRoot
from kernel_server import criu_of_tests, until
from playwright.sync_api import Browser, Page, expect

from tests.ui.kept_lab import KeptLab, numbers, output, prompt, run
from tests.ui.product import picture

pytestmark = [
    pytest.mark.ui,
    pytest.mark.criu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root starts trees for others"
    ),
]
COUNTS = """import os, time
for n in range(10_000):
    print(n, flush=True)
    if os.path.exists('enough'): break
    time.sleep(0.1)
print("over")"""
CELLS = ("import os; x = 41; print(os.getuid())", COUNTS, "print(x + 1, os.getuid())")
SET, SHOWN, ASKED = range(3)


@dataclass
class LabBelowRoot(BelowRoot, KeptLab):
    """With JupyterLab."""


@pytest.fixture
def lab() -> Iterator[LabBelowRoot]:
    with home_of_user() as home:
        one = LabBelowRoot(home, criu=criu_of_tests())
        one.write(*CELLS)
        one.start()
        yield one
        assert one.process is not None
        process = psutil.Process(one.process.pid)
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.Error):
                each.kill()
        one.process.wait()


def _grown(page: Page, most: int) -> list[int]:
    def look() -> list[int] | None:
        found = numbers(page, SHOWN)
        return found if found and found[-1] > most else None

    found: list[int] = until(look, f"more than {most}")
    return found


def _is_whole(page: Page) -> bool:
    """Nothing twice, nothing out of turn; what was under way when it was saved and woken may be lost."""
    shown = numbers(page, SHOWN)
    return shown == sorted(set(shown)) and shown[-1] + 1 - len(shown) <= 5


def test_a_cell_goes_on_in_the_same_tab_after_a_stop_and_after_a_kill(
    lab: LabBelowRoot, browser: Browser
) -> None:
    page = lab.open(browser)
    run(page, SET)
    expect(output(page, SET)).to_have_text(str(USER))
    run(page, SHOWN)
    _grown(page, 5)
    until(lambda: lab.greeting("hello")["keeps"] == "kernels", "the self-test")

    lab.stop()
    before = numbers(page, SHOWN)[-1]
    lab.start()

    _grown(page, before + 20)
    until(partial(_is_whole, page), "all that came meanwhile")
    picture(page, "notebook-below-root-goes-on")
    (lab.work / "enough").touch()
    expect(output(page, SHOWN)).to_contain_text("over")
    expect(prompt(page, SHOWN)).not_to_have_text("[*]:")
    run(page, ASKED)
    expect(output(page, ASKED)).to_have_text(f"42 {USER}")

    until(lambda: lab.greeting("hello")["keeps"] == "kernels", "the self-test")
    # Noted every two seconds: by that the next server finds the session of what saves itself.
    [kernel] = [each["id"] for each in lab.ask("GET", "api/kernels")]
    server = lab.server()
    hub = lab.process
    assert hub is not None
    server.kill()
    hub.wait(60)
    lab.start()

    assert [each["id"] for each in lab.ask("GET", "api/kernels")] == [kernel]
    expect(page.get_by_text("| Idle").first).to_be_visible()
    run(page, ASKED)
    expect(prompt(page, ASKED)).to_have_text("[4]:")
    expect(output(page, ASKED)).to_have_text(f"42 {USER}")
    picture(page, "notebook-below-root-after-a-kill")
    page.context.close()

"""The first Lab of a user, and a Lab whose server was stopped: greeted once, told why."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator

import pytest
from kernel_server import until
from playwright.sync_api import Page, Response, expect
from playwright.sync_api import TimeoutError as NotInTime
from ui.fake_server.lab_server import FAKE, SETTINGS, LabServer
from ui.panel_page import WIDE, Open, picture, section

sys.path.insert(0, str(FAKE))
import scene
from ui.panel_page import now_ms

pytestmark = pytest.mark.ui
#: As the hub shows it in place of a server that was stopped.
STOPPED = """<h1>Your notebook server was stopped</h1>
<p data-gpucommons="why">Stopped at 14:02: idle 60 min.</p>
<span data-gpucommons="kept">Saved files.</span>
<span data-gpucommons="lost">Its kernels and terminals ended with it.</span>
<p data-gpucommons="again">½ GPU is free now.</p>
<a id="start" href="/hub/spawn/ada?next=%2Flab">Start again</a>"""
#: Lab takes no key while it still loads.
SAVED_MS = 10_000
THEMES = [("light", "JupyterLab Light"), ("dark", "JupyterLab Dark")]


@pytest.fixture
def first_lab(lab: LabServer, open_lab: Open) -> Iterator[Callable[..., Page]]:
    """Lab of somebody who never saw it; nothing is open but the launcher."""

    def begin(**options: str) -> Page:
        lab.put_setting(SETTINGS, {})
        return open_lab(**options, notebook=False, panel=False)

    lab.greet_with(*greeting())
    yield begin
    lab.greet_nobody()


def greeting() -> list[dict[str, object]]:
    return [
        scene.hello(now_ms()),
        {"type": "usage", "state": "ok", "samples": scene.history(now_ms())},
        {"type": "teams", "teams": scene.teams()},
        {"type": "jobs", "jobs": []},
    ]


@pytest.mark.parametrize(("name", "theme"), THEMES)
def test_the_first_lab_greets_with_panel_cards_and_one_tip(
    first_lab: Callable[..., Page], name: str, theme: str
) -> None:
    page = first_lab(theme=theme)

    expect(page.locator("#gpucommons-panel")).to_be_visible()
    expect(page.get_by_role("region", name="Tip")).to_have_count(1)
    expect(page.get_by_role("region", name="Tip")).to_contain_text(
        "Your first training job. Open the example and press Submit under Train;"
        " the job’s page opens by itself."
    )
    launcher = page.locator(".jp-Launcher")
    for card in ("Train on more GPUs", "Examples"):
        expect(launcher.get_by_text(card, exact=True)).to_be_visible()
    expect(section(page, "Train")).to_contain_text("Open a notebook or script first.")
    picture(page, f"first-lab-{name}")


def test_a_closed_tip_and_a_closed_panel_do_not_come_back(
    lab: LabServer, first_lab: Callable[..., Page]
) -> None:
    page = first_lab()
    tip = page.get_by_role("region", name="Tip")
    tip.get_by_role("button", name="Don’t show again").press("Enter")
    expect(tip).to_contain_text("Idle GPUs go back.")
    with page.expect_response(re.compile("/api/settings/gpucommons")):
        tip.get_by_role("button", name="Don’t show again").click()
    expect(tip).to_have_count(0)

    page.locator('[data-id="gpucommons-panel"]').first.click()
    stored = lab.ask("GET", f"lab/api/settings/{SETTINGS}")["raw"]
    assert all(name in stored for name in ("welcome", "first-job", "idle"))
    page.goto(f"{lab.url}/lab?reset")
    expect(page.locator(".jp-Launcher")).to_be_visible()
    expect(page.locator(".gc-Status-item")).to_be_visible()

    expect(page.locator("#gpucommons-panel")).to_be_hidden()


def test_the_example_is_copied_opened_and_ready_to_submit(
    lab: LabServer, first_lab: Callable[..., Page]
) -> None:
    page = first_lab()
    page.get_by_role("button", name="Open the example").click()

    expect(page.locator(".jp-FileEditor")).to_contain_text("epoch 1")
    train = section(page, "Train")
    expect(train.get_by_label("What to run")).to_have_value("gpu-examples/first_job.py")
    submit = train.get_by_role("button", name="Submit")
    expect(submit).to_be_focused()
    expect(submit).to_be_in_viewport()
    # The tip has given its room to the form.
    expect(page.get_by_role("region", name="Tip")).to_have_count(0)
    submit.click()
    expect(page.locator(".gc-JobPage h1")).to_have_text("train-1")
    assert lab.asked("submit-file")[-1]["path"] == "gpu-examples/first_job.py"


# --- a server that was stopped -----------------------------------------------------------------


def stop(page: Page, lab: LabServer, body: str = STOPPED) -> None:
    page.route(
        re.compile("/lab$"),
        lambda route: route.fulfill(status=424, content_type="text/html", body=body),
    )
    lab.go_away()


def is_saved_for_good(page: Page, lab: LabServer) -> bool:
    """A kernel's language that came after the save would make the notebook unsaved again: its server is
    then started in another tab.
    """
    try:
        with page.expect_response(is_save, timeout=SAVED_MS):
            page.keyboard.press("ControlOrMeta+S")
    except NotInTime:
        return False
    written = json.loads((lab.folder / "work" / "train.ipynb").read_text())
    is_known = "version" in written["metadata"]["language_info"]
    return is_known and page.locator(".jp-mod-dirty").count() == 0


def is_save(answer: Response) -> bool:
    return answer.request.method == "PUT" and "/api/contents/train.ipynb" in answer.url


@pytest.mark.parametrize(("name", "theme"), THEMES)
def test_a_lab_whose_server_was_stopped_says_why_also_without_the_panel(
    lab: LabServer, open_lab: Open, name: str, theme: str
) -> None:
    page = open_lab(theme=theme)
    page.locator('[data-id="gpucommons-panel"]').first.click()
    page.locator(".jp-Notebook").click()
    until(lambda: is_saved_for_good(page, lab), "the save with what the kernel says of itself")
    stop(page, lab)

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Stopped at 14:02: idle 60 min")
    expect(dialog).to_contain_text("Kept: Saved files.")
    expect(dialog).to_contain_text("Not kept: Its kernels and terminals ended with it.")
    expect(dialog).to_contain_text("½ GPU is free now.")
    picture(page, f"stopped-{name}")
    dialog.get_by_role("button", name="Not now").click()

    status = page.locator(".gc-Status-item")
    expect(status).to_have_text("Server stopped: start again")
    page.locator('[data-id="gpucommons-panel"]').first.click()
    panel = page.locator("#gpucommons-panel")
    expect(panel.locator(".gc-Callout").first).to_contain_text(
        "Stopped at 14:02: idle 60 min. Kept: Saved files."
    )
    page.route("**/hub/spawn/**", lambda route: route.fulfill(status=200, body="the hub's form"))
    status.click()
    page.wait_for_url(re.compile(r"/hub/spawn/ada\?next=%2Flab$"))


def test_without_a_reason_nothing_is_claimed(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    stop(page, lab, '<a id="start" href="/hub/spawn/ada">Launch Server</a>')

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your notebook server does not run")
    expect(dialog).not_to_contain_text(re.compile("[Kk]ept:"))
    expect(dialog.get_by_role("button", name="Start again")).to_be_visible()


def test_the_dialog_fits_a_phone_and_goes_when_the_server_is_back(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    stop(page, lab)
    expect(page.get_by_role("dialog")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("Not now", "Start again"):
        box = page.get_by_role("dialog").get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    page.set_viewport_size(WIDE)  # type: ignore[arg-type] # a plain dict

    page.unroute(re.compile("/lab$"))
    lab.greet_with()
    page.evaluate("window.dispatchEvent(new Event('focus'))")

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".gc-Status-item")).to_contain_text("GPU ½")


def test_a_start_address_of_another_host_is_not_followed(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    stop(page, lab, STOPPED.replace('href="/hub', 'href="//elsewhere.example/hub'))

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Stopped at 14:02")
    expect(dialog.get_by_role("button", name="Start again")).to_have_count(0)

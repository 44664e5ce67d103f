"""An idle notebook in a real JupyterLab: told, answered, returned; texts are asserted literally."""

from __future__ import annotations

import re
import sys

import pytest
from playwright.sync_api import expect
from ui.fake_server.lab_server import FAKE, LabServer
from ui.panel_page import Open, now_ms, picture, section

sys.path.insert(0, str(FAKE))
import scene

pytestmark = pytest.mark.ui
PHONE = {"width": 390, "height": 844}


def test_the_idle_warning_has_its_actions_and_goes_with_its_cause(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    lab.send({"type": "lease", "lease": scene.warned(now_ms())})

    toast = page.locator(".Toastify__toast")
    expect(toast).to_contain_text(
        "Idle 50 min. GPU is returned when idle for 60 min. It can be kept 2 times."
        " Otherwise its variables are lost."
    )
    expect(toast.get_by_role("button", name="Keep 30 min")).to_be_visible()
    expect(toast.get_by_role("button", name="Turn into job")).to_be_visible()
    expect(section(page, "My GPU")).to_contain_text("Idle 50 min · GPU is returned in 10 min")
    picture(page, "panel-idle")

    toast.get_by_role("button", name="Drop to CPU").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        "The notebook server restarts without its GPU: its variables are lost."
    )
    dialog.get_by_role("button", name="Cancel").click()

    lab.send({"type": "lease", "lease": scene.lease()})
    expect(toast).to_have_count(0)
    expect(section(page, "My GPU").get_by_role("button", name="Drop to CPU")).to_have_count(0)


def test_the_notice_closed_its_countdown_and_actions_stay(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    lab.send({"type": "lease", "lease": scene.warned(now_ms())})
    page.locator(".Toastify__toast").get_by_role("button", name="Hide notification").click()
    gpu = section(page, "My GPU")

    expect(gpu).to_contain_text("GPU is returned in 10 min")
    for action in ("Keep 30 min (2 left)", "Drop to CPU", "Turn into job"):
        expect(gpu.get_by_role("button", name=action)).to_be_visible()
    status = page.locator(".gc-Status-item")
    expect(status).to_contain_text("returned in 10 min")
    status.click()
    menu = page.get_by_role("menu")
    expect(menu).to_contain_text("Drop to CPU…")
    picture(page, "panel-idle-closed")
    menu.get_by_text("Keep the GPU 30 Minutes (2 Left)").click()

    expect(page.locator(".Toastify__toast", has_text="Your GPU stays yours")).to_be_visible()
    assert lab.asked(f"leases/{scene.LEASE}/keep")[-1] == {"minutes": 30}


def test_an_admins_wish_says_what_becomes_of_variables(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    asked = scene.warned(now_ms())
    asked["idle"]["reclaimed"] = True
    lab.send({"type": "lease", "lease": asked})
    notice = page.locator(".Toastify__toast")
    expect(notice).to_contain_text("An admin asks for your GPU")
    expect(notice).to_contain_text("Otherwise its variables are lost.")


def test_the_panel_says_that_an_admin_asked_for_it(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    over = scene.warned(now_ms() - 11 * scene.MINUTE)
    over["idle"]["reclaimed"] = True
    lab.send({"type": "lease", "lease": over})
    expect(section(page, "My GPU")).to_contain_text("GPU is returned in 0 s")
    lab.go_away()
    expect(page.locator("#gpucommons-panel")).to_contain_text(
        "An admin asked for your GPU. Your notebook was idle for 1 h"
    )


def test_the_panel_says_why_an_admin_stopped_the_notebook(lab: LabServer, open_lab: Open) -> None:
    panel = open_lab().locator("#gpucommons-panel")
    by_force = {
        "number": 99,
        "at_ms": now_ms(),
        "kind": "stop-announced",
        "by": "root",
        "text": "reclaimed by root: a demo at noon",
        "workload_id": scene.lease()["id"],
        "data": {"why": "reclaimed"},
    }
    lab.send({"type": "events", "events": [by_force]})
    lab.go_away()
    expect(panel).to_contain_text("Your notebook was stopped: reclaimed by root: a demo at noon.")
    expect(panel.get_by_role("button", name="Retry")).to_have_count(0)


def test_once_the_gpu_is_returned_nothing_counts_any_more(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    over = scene.warned(now_ms() - 11 * scene.MINUTE)
    lab.send({"type": "lease", "lease": over})
    expect(section(page, "My GPU")).to_contain_text("GPU is returned in 0 s")
    lab.go_away()

    panel = page.locator("#gpucommons-panel")
    expect(panel).to_contain_text(
        "Your notebook was idle for 1 h: its server was stopped and the GPU returned."
    )
    # When, only the hub knows: it may be a minute later than was announced.
    expect(section(page, "My GPU")).to_contain_text("The GPU was returned.")
    expect(panel).to_contain_text(re.compile(r"Data from \d+ s ago\."))
    stale = panel.locator(".gc-mod-stale")
    expect(stale.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(section(page, "My GPU")).not_to_contain_text(re.compile("Idle|Memory|Compute"))
    expect(page.locator(".gc-Status-item")).to_be_hidden()
    picture(page, "panel-returned")


def test_a_lost_connection_stops_the_idle_clock(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    expect(section(page, "My GPU")).to_contain_text("Active · returned after 60 idle min")
    lab.go_away()

    expect(section(page, "My GPU")).not_to_contain_text("idle min")
    expect(section(page, "My GPU")).to_contain_text("of A100-40")


def test_keep_asks_for_30_minutes(lab: LabServer, open_lab: Open) -> None:
    page = open_lab(size=PHONE)
    lab.send({"type": "lease", "lease": scene.warned(now_ms())})
    toast = page.locator(".Toastify__toast")
    toast.get_by_role("button", name="Keep 30 min").click()

    expect(
        toast.get_by_text("Your GPU stays yours: it is returned only after 60 idle min anyway.")
    ).to_be_visible()
    assert lab.asked(f"leases/{scene.LEASE}/keep")[-1] == {"minutes": 30}

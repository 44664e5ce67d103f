"""A job's page in a real JupyterLab, against a scripted server; texts are asserted literally."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from ui.fake_server.lab_server import FAKE, LabServer
from ui.panel_page import Open, job_row, jobs, now_ms, open_job, picture

sys.path.insert(0, str(FAKE))
import scene

pytestmark = pytest.mark.ui


@pytest.fixture
def job_page(shared_lab: Page) -> Page:
    open_job(shared_lab)
    return shared_lab


def test_the_job_page_tells_the_whole_story(job_page: Page) -> None:
    body = job_page.locator(".gc-JobPage")

    for text in (
        "borrowed, can be stopped",
        "2 × A100-40",
        "gpu-02, one node",
        "epoch 21 of 50",
        "epoch 20, 3.0 MiB, verified",
        "0.41 GPU-h",
        "0.6 GPU-min lost to stops",
        "vision · user-a",
        "waited 4 min",
        "attempt 1 · 8 min",
        "attempt 2 · running",
        "stopped for nlp (its guarantee): notice 30 s, saved in 2 s, 6 s of work lost",
        "loss and accuracy",
        "source: log, rank 0",
        "asked 2 GPUs, used 1.7",
        "11.9 GiB, the fullest worker",
        "epoch 21  loss 0.131  accuracy 0.969  saved",
    ):
        expect(body).to_contain_text(text, ignore_case=True)
    # A log line is text, never markup.
    log = job_page.get_by_role("log")
    expect(log).to_contain_text("<b>not markup</b>")
    expect(log.locator("b")).to_have_count(0)


def test_the_page_of_a_waiting_job_says_place_likely_start_and_what_would_help(
    lab: LabServer, job_page: Page
) -> None:
    waiting = scene.waiting(now_ms()) | {"id": scene.running(now_ms())["id"]}
    lab.send({"type": "job", "job": waiting})

    expect(job_page.locator(".gc-JobPage .gc-Callout")).to_have_text(
        "Needs 4 GPUs on one node; 3 are free. 2nd in line."
        " Likely 10–25 min (past estimates right 8 of 10)."
        " Would start now with 2 GPUs. Would start now in pool h100. Start now with 2"
    )


def day(at_ms: int) -> str:
    """As a browser of en-GB in UTC writes it."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%B}"


def test_a_job_on_a_slow_pair_of_nodes_says_since_when_and_until_when(
    lab: LabServer, job_page: Page
) -> None:
    running = scene.running(now_ms())
    *before, last = running["attempts"]
    place = {"nodes": ["gpu-02", "gpu-03"], "percent": 30, "since_ms": 1_795_000_000_000}
    slow = [place | {"until_ms": 1_795_500_000_000}]
    lab.send({"type": "job", "job": running | {"attempts": [*before, last | {"slow": slow}]}})

    said = job_page.locator(".gc-JobPage")
    expect(said).to_contain_text(
        "Steps take 30 % longer on gpu-02 and gpu-03 together than on other pairs of nodes, known since"
        f" {day(1_795_000_000_000)}: until {day(1_795_500_000_000)} "
    )
    picture(job_page, "job-slow-pair")


def test_the_page_of_a_waiting_job_starts_it_smaller(lab: LabServer, shared_lab: Page) -> None:
    page = shared_lab
    job_row(page, "resnet-2").get_by_role("button", name="resnet-2").click()
    action = page.locator(".gc-JobPage").get_by_role("button", name="Start now with 2")
    expect(action).to_be_visible()
    picture(page, "job-waiting")
    action.click()

    # The same job, on the same page.
    expect(page.locator(".gc-JobPage:visible h1")).to_have_text("resnet-2")
    expect(action).to_be_hidden()
    assert lab.asked(f"jobs/{scene.WAITING}/resize") == [{"milli_gpu": 2000}]


def test_in_a_narrow_page_every_button_is_within_it(job_page: Page) -> None:
    widget = job_page.locator(".gc-JobPage-widget")
    widget.evaluate("node => { node.style.maxWidth = '230px'; }")
    header = job_page.locator(".gc-JobHeader")
    expect(header).to_have_css("width", "210px")

    right = header.bounding_box()
    assert right is not None
    for name in ("Pause", "Cancel", "Run again…"):
        box = header.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= right["x"] + right["width"]


def test_a_job_that_is_over_goes_on_from_here_in_place_of_its_page(
    lab: LabServer, job_page: Page
) -> None:
    finished = {"state": "succeeded", "ended_ms": now_ms()}
    lab.send(jobs(scene.running(now_ms()) | finished))
    job_page.get_by_role("button", name="Run again from here").click()
    # One that has finished asks before it holds GPUs once more.
    dialog = job_page.get_by_role("dialog")
    expect(dialog).to_contain_text("goes on from what it saved last, epoch 20")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)

    ended = {"state": "failed", "ended_ms": now_ms(), "ended_text": "ValueError: x (train.py:8)."}
    lab.send(jobs(scene.running(now_ms()) | ended))
    picture(job_page, "job-from-here")
    job_page.get_by_role("button", name="Run again from here").click()

    expect(job_page.locator(".gc-JobPage:visible h1")).to_have_text("digits-8")
    # The old page has given way.
    expect(job_page.locator(".gc-JobPage")).to_have_count(1)
    assert lab.asked(f"jobs/{scene.RUNNING}/again") == [{}]


def test_the_logs_of_several_workers_are_read_in_one_or_one_by_one(
    lab: LabServer, job_page: Page
) -> None:
    lab.send(jobs(scene.running(now_ms()) | {"workers": 2}))
    expect(job_page.get_by_role("log")).to_contain_text("epoch 21")
    ranks = job_page.get_by_role("group", name="Worker whose log is shown")
    ranks.get_by_role("button", name="all").click()
    several = jobs(scene.running(now_ms()) | {"workers": 2})
    # Whoever is followed is told of anew, as the script has it.
    expect(ranks).to_have_count(0)
    lab.send(several)
    place = {"type": "log", "job": scene.RUNNING, "attempt": 2, "end": False}
    lab.send(place | {"rank": 1, "lines": [f"line {n}" for n in range(20)]})

    log = job_page.get_by_role("log")
    expect(log).to_contain_text("1 │ … 12 lines")
    expect(log).to_contain_text("1 │ line 19")
    picture(job_page, "job-logs-in-one")
    ranks.get_by_role("button", name="1", exact=True).click()
    lab.send(place | {"rank": 1, "lines": ["alone"]})
    expect(log).to_contain_text("alone")
    expect(log).not_to_contain_text("│")


def test_new_log_lines_are_followed_until_the_reader_looks_back(
    lab: LabServer, job_page: Page
) -> None:
    def more(first: int) -> dict[str, Any]:
        lines = [f"line {number}" for number in range(first, first + 100)]
        place = {"job": scene.RUNNING, "attempt": 2, "rank": 0}
        return {"type": "log", **place, "lines": lines, "end": False}

    log = job_page.get_by_role("log")
    lab.send(more(0))
    expect(log.get_by_text("line 99", exact=True)).to_be_in_viewport()

    log.evaluate("node => { node.scrollTop = 0; }")
    expect(job_page.get_by_role("button", name="Follow")).to_be_visible()
    lab.send(more(100))
    expect(log).to_contain_text("line 199")
    expect(log.get_by_text("line 199", exact=True)).not_to_be_in_viewport()


def test_a_button_that_goes_away_leaves_the_focus_beside_it(job_page: Page) -> None:
    job_page.get_by_role("button", name="Pause", exact=True).press("Enter")
    job_page.get_by_role("dialog").get_by_role("button", name="Pause job").press("Enter")

    expect(job_page.locator(".gc-JobHeader")).to_contain_text("pausing")
    expect(job_page.locator(".gc-JobHeader button:focus")).to_have_count(1)


def test_a_pause_says_before_what_it_costs_and_is_asked_for_once(
    lab: LabServer, job_page: Page
) -> None:
    asked = len(lab.asked(f"jobs/{scene.RUNNING}/pause"))
    expect(job_page.locator(".gc-JobPage .gc-Callout")).to_contain_text(
        "If it is stopped: goes on from epoch 20."
    )
    job_page.get_by_role("button", name="Pause", exact=True).click()

    dialog = job_page.get_by_role("dialog")
    expect(dialog).to_contain_text(
        "Goes on from epoch 20; at most 40 s of work since then is repeated."
    )
    dialog.get_by_role("button", name="Let it run").click()
    expect(dialog).to_have_count(0)
    assert len(lab.asked(f"jobs/{scene.RUNNING}/pause")) == asked

    job_page.get_by_role("button", name="Pause", exact=True).click()
    dialog.get_by_role("button", name="Pause job").click()
    expect(job_page.locator(".gc-JobHeader")).to_contain_text("pausing")
    assert lab.asked(f"jobs/{scene.RUNNING}/pause")[asked:] == [{}]


def test_cancelling_a_job_that_waits_speaks_of_the_line(shared_lab: Page) -> None:
    page = shared_lab
    job_row(page, "resnet-2").click(button="right")
    page.get_by_role("menuitem", name="Cancel Job").click()
    dialog = page.get_by_role("dialog")

    expect(dialog).to_contain_text("It leaves the line for good. Nothing of it has run yet.")
    picture(page, "panel-cancel-waiting")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_have_count(0)


def test_a_job_leads_to_the_one_that_goes_on_from_it_and_back(
    lab: LabServer, job_page: Page
) -> None:
    now = now_ms()
    ended = {"state": "cancelled", "ended_ms": now, "way_to_go_on": None}
    old = scene.running(now) | ended
    made = scene.request("digits", 1000) | {"resume_from": scene.RUNNING}
    copy = scene.job("copy", "digits-8", now, submitted_ms=now, request=made)
    lab.send(jobs(old, copy))

    note = job_page.locator(".gc-JobPage .gc-Callout")
    expect(note).to_have_text("Goes on in digits-8")
    picture(job_page, "job-goes-on-in")
    note.get_by_role("button", name="digits-8").click()
    back = job_page.locator(".gc-Receipt").filter(visible=True)
    expect(back).to_contain_text("goes on from digits-7")
    picture(job_page, "job-goes-on-from")
    back.get_by_role("button", name="digits-7").click()
    expect(job_page.locator(".gc-JobPage h1").filter(visible=True)).to_have_text("digits-7")


def test_a_job_says_that_it_is_heard_no_more_and_offers_a_teammate_nothing_to_be_refused(
    lab: LabServer, job_page: Page
) -> None:
    body, header = job_page.locator(".gc-JobPage"), job_page.locator(".gc-JobHeader")
    said = "The scheduler refuses what this run reports."
    lab.send(jobs(scene.running(now_ms()) | {"reports_refused": said}))
    expect(body.get_by_role("alert")).to_have_text(said)

    theirs = {"owner": "user-b"}
    lab.send(jobs(scene.running(now_ms()) | theirs))
    expect(header.get_by_role("button")).to_have_text(["Run again…"])

    # Nor what needs files that its reader may not have.
    lab.send(jobs(scene.running(now_ms()) | theirs | {"again_hindrance": "Ask user-b."}))
    expect(body).to_contain_text("vision · user-b")
    expect(job_page.get_by_role("button", name="Run again")).to_have_count(0)


def test_a_job_that_is_over_says_nothing_of_being_stopped_and_cancelled_is_not_failed(
    lab: LabServer, job_page: Page
) -> None:
    over = {"state": "failed", "checkpoint": None, "ended_ms": now_ms()}
    lab.send(jobs(scene.running(now_ms()) | over))
    expect(job_page.locator(".gc-JobHeader")).to_contain_text("failed")
    expect(job_page.locator(".gc-Facts")).not_to_contain_text("no checkpoint yet")

    cancelled = scene.running(now_ms()) | {"state": "cancelled", "ended_ms": now_ms()}
    cancelled["attempts"][-1] |= {"state": "ended", "ended_ms": now_ms()}
    lab.send(jobs(cancelled))
    expect(job_page.locator(".gc-Timeline li").last).to_have_class("gc-seg-cancelled")
    picture(job_page, "job-cancelled")


def test_a_page_that_is_no_longer_kept_up_to_date_says_so(lab: LabServer, job_page: Page) -> None:
    lab.go_away()

    body = job_page.locator(".gc-JobPage")
    expect(body.get_by_role("alert")).to_contain_text(re.compile(r"is lost.*Data from \d+ s ago"))
    for name in ("Pause", "Cancel", "Run again…"):
        expect(body.get_by_role("button", name=name, exact=True)).to_be_disabled()
    expect(job_page.locator(".gc-JobHeader .gc-tone-running")).to_have_count(0)
    picture(job_page, "job-lost")

    lab.greet_with()
    # At once, and no matter if the page is back by itself already: then there is no button any more.
    job_page.evaluate(
        """() => [...document.querySelectorAll(".gc-JobPage button")]
            .find(each => each.textContent === "Retry")?.click()"""
    )
    expect(body.get_by_role("alert")).to_have_count(0)
    expect(body.get_by_role("button", name="Pause", exact=True)).to_be_enabled()


def test_the_job_page_comes_back_after_a_reload(job_page: Page) -> None:
    job_page.wait_for_timeout(1500)  # Lab saves its layout a second after a change.
    job_page.goto(job_page.url.replace("?reset", ""))

    expect(job_page.locator(".gc-JobPage h1")).to_have_text("digits-7")


def test_the_run_of_a_schedule_leads_to_its_schedule(lab: LabServer, job_page: Page) -> None:
    run = scene.running(now_ms())
    run["request"]["labels"] = {"origin": "schedule nightly"}
    lab.send({"type": "job", "job": run})
    job_page.get_by_role("button", name="schedule nightly").click()
    box = job_page.get_by_role("region", name="nightly", exact=True)
    expect(box).to_have_class(re.compile("gc-mod-wanted"))


# --- in pages of their own --------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_job_that_goes_on_from_another_leads_to_it(
    lab: LabServer, open_lab: Open, theme: str
) -> None:
    page = open_lab(theme=theme)
    now = now_ms()
    old = scene.running(now)
    resumed = old["attempts"][:1]
    made = scene.request("digits", 1000) | {"resume_from": scene.RUNNING}
    first = resumed[0] | {"resumed_from_step": 16}
    copy = scene.job("copy", "digits-8", now, submitted_ms=now, request=made, attempts=[first])
    lab.send(jobs(old, copy))
    job_row(page, "digits-8").get_by_role("button", name="digits-8").click()

    origin = page.locator(".gc-JobPage:visible .gc-Receipt").first
    expect(origin).to_have_text("goes on from digits-7 at step 16")
    picture(page, f"job-goes-on-{theme.split()[1].lower()}")
    origin.get_by_role("button", name="digits-7").click()
    expect(page.locator(".gc-JobPage:visible h1")).to_have_text("digits-7")


def test_lab_starts_without_the_code_of_pages(open_lab: Open) -> None:
    page = open_lab()
    fetched = """() => performance.getEntriesByType("resource").map(each => each.name)
        .filter(name => name.includes("extensions/gpucommons/"))"""

    expect(page.locator("li.gc-Job").first).to_be_visible()
    names = page.evaluate(fetched)

    assert any("/panel." in name for name in names)
    assert not any("/page-job." in name for name in names)
    open_job(page)
    assert any("/page-job." in name for name in page.evaluate(fetched))


def test_a_page_whose_code_does_not_come_says_so_and_tries_again(open_lab: Open) -> None:
    page = open_lab()
    page.route("**/page-job.*", lambda route: route.fulfill(status=404))
    page.get_by_role("button", name="digits-7", exact=True).click()
    tab = page.locator(".gc-JobPage-widget")

    expect(tab).to_contain_text(
        "This part could not be loaded. Where GPU Commons was updated since this page was opened,"
        " reload the page."
    )
    page.unroute("**/page-job.*")
    tab.get_by_role("button", name="Try again").click()

    expect(page.locator(".gc-JobPage h1")).to_have_text("digits-7")

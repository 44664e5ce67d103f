"""The panel in a real JupyterLab and a real browser, against a scripted server.

Texts are asserted literally: they are promises to people.
"""

from __future__ import annotations

import re
import sys

import pytest
from playwright.sync_api import Page, expect
from ui.fake_server.lab_server import FAKE, LabServer
from ui.panel_page import (
    Open,
    job_row,
    jobs,
    now_ms,
    open_job,
    picture,
    section,
    usage,
)

sys.path.insert(0, str(FAKE))
import scene

pytestmark = pytest.mark.ui

#: The job's page, with the focus in it.
OPENED = ".jp-MainAreaWidget:has(.gc-JobPage):focus-within"
#: What of the panel can be scrolled sideways.
SIDEWAYS = """() => [...document.querySelectorAll('#gpucommons-panel, #gpucommons-panel *')]
    .filter(each => each.scrollWidth > each.clientWidth && each.clientWidth > 0
        && /auto|scroll/.test(getComputedStyle(each).overflowX))
    .map(each => `${each.className}: ${each.scrollWidth} > ${each.clientWidth}`)"""
PHONE = {"width": 390, "height": 844}


# --- my GPU ----------------------------------------------------------------------------------


def test_slice_team_and_jobs_say_what_they_are_and_do(open_lab: Open) -> None:
    page = open_lab()
    tile = section(page, "My GPU")

    expect(tile).to_contain_text("½")
    expect(tile).to_contain_text("of A100-40")
    expect(tile).to_contain_text("gpu-03")
    expect(tile).to_contain_text(
        "Isolation cooperative: memory limited for programs that cooperate; compute is shared"
    )
    expect(tile).to_contain_text("Nobody else on this GPU")
    expect(tile).to_contain_text("12.6 of 19.4 GiB")
    expect(tile).to_contain_text("74 %")
    expect(tile).to_contain_text("simulated")
    expect(tile).to_contain_text("Active · returned after 60 idle min")
    team = section(page, "vision")
    expect(team).to_contain_text("1½ of 2 fixed")
    expect(team).to_contain_text("4 of 4 + 2 borrowed")
    expect(job_row(page, "digits-7")).to_contain_text("running · 2 borrowed")
    expect(job_row(page, "digits-7")).to_contain_text("epoch 21 of 50 · loss 0.131")
    expect(job_row(page, "digits-7")).to_contain_text(re.compile(r"saved \d+ s ago"))
    expect(job_row(page, "resnet-2")).to_contain_text("waiting · 4 GPUs")
    expect(job_row(page, "resnet-2")).to_contain_text("Needs 4 GPUs on one node; 3 are free.")
    expect(job_row(page, "resnet-2")).to_contain_text("2nd in line · likely 10–25 min")
    expect(job_row(page, "digits-6")).to_contain_text(
        re.compile(r"finished \d\d:\d\d · accuracy 96\.9 %")
    )
    expect(section(page, "Jobs")).to_contain_text("simulated")


def test_new_samples_move_the_tile_and_the_status_bar_and_too_much_memory_is_said(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    tile = section(page, "My GPU")
    lab.send(usage(scene.sample(now_ms() + 1000, 31, used_mib=2048)))

    expect(tile).to_contain_text("2.0 of 19.4 GiB")
    expect(tile).to_contain_text("31 %")
    expect(page.locator(".gc-Status-item")).to_have_text("GPU ½ 2.0/19.4 GiB · simulated")
    lab.send(usage(scene.sample(now_ms() + 2000, 50, used_mib=25_600)))
    expect(tile).to_contain_text("over your 19.4 GiB")


def test_without_readings_nothing_is_broken(lab: LabServer, open_lab: Open) -> None:
    lab.greet_with(scene.hello(now_ms()), usage(state="no-data"))
    page = open_lab()

    expect(section(page, "My GPU")).to_contain_text("no GPU data")
    expect(section(page, "My GPU")).to_contain_text("½")
    expect(section(page, "Train")).to_be_visible()


def test_a_notebook_without_gpu_says_so(lab: LabServer, open_lab: Open) -> None:
    lab.greet_with(scene.hello(now_ms(), lease=None), usage(state="no-gpu"))
    page = open_lab()

    expect(section(page, "My GPU")).to_contain_text("CPU only")
    expect(page.locator(".gc-Status-item")).to_be_hidden()


def test_a_shared_account_is_never_silent(lab: LabServer, open_lab: Open) -> None:
    lab.greet_with(scene.hello(now_ms(), shared_account=True))

    expect(section(open_lab(), "My GPU")).to_contain_text(
        "All users of this machine share one account: nothing isolates your files and processes"
        " from theirs."
    )


# --- jobs ------------------------------------------------------------------------------------


def test_an_announced_stop_is_told_with_its_reason_and_the_stopped_job_where_it_goes_on(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    row = job_row(page, "digits-7")
    lab.send(jobs(scene.announced(now_ms())))

    stop = re.compile(
        r"Will be stopped in \d+ s for nlp \(its guarantee\)\. Goes on from epoch 20\."
    )
    expect(row).to_contain_text(stop)
    at = re.compile(r"Will be stopped at \d\d:\d\d:\d\d for nlp \(its guarantee\)\.")
    expect(page.locator(".Toastify__toast")).to_contain_text(at)

    stopped = scene.running(now_ms()) | {"state": "queued", "position": 1, "hold_class": None}
    stopped["attempts"][-1] |= {"state": "ended", "ended_ms": now_ms()}
    stopped["reason"] = {"code": "share", "text": "All 8 GPUs are in use."}
    stopped["forecast"] = scene.waiting(now_ms())["forecast"]
    stopped["forecast"] |= {"from_ms": 20 * scene.MINUTE, "to_ms": 45 * scene.MINUTE}
    lab.send(jobs(stopped))
    expect(row).to_contain_text("Goes on from epoch 20. All 8 GPUs are in use.")
    expect(row).to_contain_text("1st in line · likely 20–45 min")


def test_start_now_with_less_is_the_same_job(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    start = job_row(page, "resnet-2").get_by_role("button", name="Start now with 2")
    expect(start).to_have_attribute("title", "The same job goes on with it; curve and log go on.")
    before = len(lab.asked("jobs"))
    start.click()

    expect(page.locator(".gc-JobPage:visible h1")).to_have_text("resnet-2")
    expect(page.locator(OPENED).filter(has_text="resnet-2")).to_have_count(1)
    picture(page, "panel-start-now")
    assert lab.asked(f"jobs/{scene.WAITING}/resize") == [{"milli_gpu": 2000}]
    assert len(lab.asked("jobs")) == before


# --- train -----------------------------------------------------------------------------------


def test_the_quota_line_follows_the_form_and_a_refusal_is_a_sentence(open_lab: Open) -> None:
    page = open_lab()
    train = section(page, "Train")
    quote, submit = train.locator("#gc-quote"), train.get_by_role("button", name="Submit")
    train.get_by_role("radio", name="2", exact=True).check()
    expect(quote).to_have_text(scene.QUOTE["text"])
    expect(train.get_by_text(scene.QUOTE["stop_text"])).to_be_visible()

    train.get_by_role("radio", name="8", exact=True).check()
    sentence = "8 GPUs on one node is more than any node has: ask for 4 or less."
    expect(train.get_by_role("alert")).to_have_text(sentence)
    expect(submit).to_be_disabled()
    expect(submit).to_have_attribute("title", sentence)
    picture(train, "panel-refused")
    train.get_by_role("radio", name="2", exact=True).check()
    expect(submit).to_be_enabled()

    # What was said of another size looks stale at once.
    expect(quote).to_have_text(scene.QUOTE["text"])
    page.route("**/gpucommons/quote*", lambda route: None)
    train.get_by_role("radio", name="1", exact=True).check()
    expect(quote.locator(".gc-mod-stale")).to_have_text(scene.QUOTE["text"])


def test_what_is_typed_stays_and_what_cannot_be_sent_is_marked(open_lab: Open) -> None:
    train = section(open_lab(), "Train")
    train.get_by_role("button", name="More…").click()
    submit = train.get_by_role("button", name="Submit")
    secrets = train.get_by_label("Secrets, by name, one per line")
    secrets.fill("TOKEN=Abc/123+")
    expect(train).to_contain_text(
        "“TOKEN=Abc/123+” is no secret’s name: write VARIABLE=name, never a value."
    )
    expect(submit).to_be_disabled()
    secrets.fill("")
    expect(submit).to_be_enabled()

    workers = train.get_by_label("Workers", exact=True)
    workers.press("End")
    workers.press("Backspace")
    expect(workers).to_have_value("")
    expect(workers).to_have_attribute("aria-invalid", "true")
    expect(train).to_contain_text("Workers: a whole number from 1 to 1024.")
    expect(submit).to_be_disabled()
    workers.press("4")
    expect(workers).to_have_value("4")
    expect(train.get_by_label("At least")).to_have_value("4")
    expect(submit).to_be_enabled()
    memory = train.get_by_label("Memory, GiB")
    memory.select_text()
    memory.press_sequentially("-3")
    expect(memory).to_have_value("-3")
    expect(submit).to_be_disabled()


def test_submit_sends_what_the_form_says(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    train = section(page, "Train")
    train.get_by_label("Part of it").select_option("train")
    train.get_by_role("radio", name="2", exact=True).check()
    train.get_by_label("Time limit").select_option(label="4 h")
    train.get_by_role("button", name="More…").click()
    train.get_by_label("Secrets, by name, one per line").fill("HF_TOKEN=hugging-face")

    expect(train).to_contain_text("2 files, 3.0 MiB")
    expect(train).to_contain_text("larger than 32 MiB")
    expect(train).to_contain_text("2.1.0 → 2.3.1")
    picture(train, "panel-train-more")

    train.get_by_role("button", name="Submit").click()
    expect(job_row(page, "train-1")).to_contain_text("3rd in line")
    sent = lab.asked("submit-file")[-1]

    assert (sent["path"], sent["function"]) == ("train.ipynb", "train")
    assert sent["request"]["roles"][0]["milli_gpu"] == 2000
    assert sent["request"]["max_run_s"] == 14_400
    assert sent["request"]["secrets"] == {"HF_TOKEN": "hugging-face"}
    assert "results_to" not in sent["request"]  # decided by the file's folder


def test_without_a_notebook_the_command_says_to_open_one(open_lab: Open) -> None:
    page = open_lab(notebook=False)
    page.keyboard.press("ControlOrMeta+Shift+C")
    page.locator("#modal-command-palette input").fill("notebook into a job")
    found = "#modal-command-palette .lm-CommandPalette-item"
    item = page.locator(found, has_text="Turn a Notebook into a Job (Open One First)")

    expect(item).to_have_class(re.compile("lm-mod-disabled"))
    picture(page, "panel-no-notebook")
    page.keyboard.press("Escape")
    train = section(page, "Train")
    expect(train).to_contain_text("Open a notebook or script first.")
    expect(train.get_by_role("button", name="Another file…")).to_be_visible()


def test_the_notebook_toolbar_turns_the_notebook_into_a_job(open_lab: Open) -> None:
    page = open_lab()
    page.locator('[data-jp-item-name="gpucommons-train"]').click()

    expect(section(page, "Train").get_by_label("Part of it")).to_have_value("train")


def run_command(page: Page, label: str) -> None:
    page.keyboard.press("ControlOrMeta+Shift+C")
    asked = page.locator("#modal-command-palette input")
    expect(asked).to_be_focused()
    asked.fill(label)
    active = page.locator("#modal-command-palette .lm-CommandPalette-item.lm-mod-active")
    expect(active).to_contain_text(label)
    page.keyboard.press("Enter")


def test_the_palette_leads_into_the_panel(open_lab: Open) -> None:
    page = open_lab()
    page.get_by_role("button", name="Train", exact=True).click()  # closed
    page.locator(".jp-Notebook .jp-CodeCell").first.click()
    run_command(page, "Run as a Job")

    expect(page.get_by_label("What to run")).to_be_focused()
    expect(page.get_by_label("What to run")).to_have_value("train.ipynb")

    page.locator(".jp-Notebook .jp-CodeCell").first.click()
    run_command(page, "Show GPU Commons")
    expect(page.locator("#gpucommons-panel")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="My GPU", exact=True)).to_be_focused()


def test_who_submits_goes_on_at_the_jobs_page(open_lab: Open) -> None:
    page = open_lab()
    train = section(page, "Train")
    train.get_by_role("button", name="More…").press("Enter")
    expect(train.get_by_label("CPU cores")).to_be_focused()

    train.get_by_role("button", name="Submit").press("Enter")
    expect(page.locator(".gc-JobPage h1")).to_have_text("train-1")
    expect(page.locator(OPENED)).to_have_count(1)
    picture(page, "panel-submitted")


def test_who_types_elsewhere_by_then_is_left_there(open_lab: Open) -> None:
    page = open_lab()
    section(page, "Train").get_by_role("button", name="Submit").focus()
    page.evaluate(
        """() => {
            document.activeElement.click();
            document.querySelector('.jp-Notebook .cm-content').focus();
        }"""
    )
    expect(job_row(page, "train-1")).to_be_visible()
    expect(page.locator(".jp-Notebook .cm-content").first).to_be_focused()
    expect(page.locator(".gc-JobPage")).to_have_count(0)


# --- trouble ---------------------------------------------------------------------------------


def test_an_unreachable_scheduler_leaves_the_data_with_its_age(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab(size={"width": 1280, "height": 600})
    sentence = "The scheduler does not answer. Jobs go on; nothing can be changed now."
    lab.send(scene.hello(now_ms(), scheduler="unreachable"))

    expect(page.get_by_role("alert")).to_contain_text(sentence)
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Data from \d+ s ago\."))
    expect(job_row(page, "digits-7")).to_be_visible()
    expect(section(page, "Train").get_by_role("button", name="Submit")).to_be_disabled()
    picture(page.locator("#gpucommons-panel"), "panel-unreachable")

    page.get_by_role("button", name="Submit").scroll_into_view_if_needed()
    expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text(sentence)).to_have_count(0)


def test_a_cut_connection_comes_back_by_itself(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    with page.expect_websocket(lambda socket: "gpucommons/ws" in socket.url) as opened:
        lab.hang_up()
    opened.value.wait_for_event("framereceived")
    lab.send(usage(scene.sample(now_ms() + 2000, 12)))
    expect(section(page, "My GPU")).to_contain_text("12 %")


def test_without_a_hub_the_panel_says_what_is_missing(lab: LabServer, open_lab: Open) -> None:
    lab.greet_with(
        scene.hello(
            now_ms(),
            scheduler="none",
            whoami=None,
            lease=None,
            message="No GPU Commons scheduler here: this server was not started by its hub.",
        ),
        usage(state="no-gpu"),
    )
    page = open_lab()

    expect(page.locator("#gpucommons-panel")).to_contain_text(
        "No GPU Commons scheduler here: this server was not started by its hub."
    )
    expect(section(page, "Train")).to_have_count(0)


# --- keyboard, looks -------------------------------------------------------------------------


def test_sections_and_sizes_work_by_keyboard(open_lab: Open) -> None:
    page = open_lab()
    head = page.get_by_role("button", name="My GPU", exact=True)
    head.focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-expanded", "true")

    page.get_by_role("radio", name="1", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="2", exact=True)).to_be_checked()


def test_only_changes_of_the_queue_are_spoken(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    spoken = page.locator('#gpucommons-panel [aria-live="polite"]')
    expect(spoken).to_have_text("")
    lab.send(jobs(scene.running(now_ms()), scene.waiting(now_ms()) | {"position": 1}))

    expect(spoken).to_have_text("resnet-2: 1st in line")


@pytest.mark.parametrize(
    ("name", "theme"),
    [
        ("light", "JupyterLab Light"),
        ("dark", "JupyterLab Dark"),
        ("contrast", "JupyterLab Dark High Contrast"),
    ],
)
def test_pictures_of_panel_and_job_page(open_lab: Open, name: str, theme: str) -> None:
    page = open_lab(theme=theme)
    expect(page.locator("#gc-quote")).to_be_visible()
    picture(page.locator("#gpucommons-panel"), f"panel-{name}")
    open_job(page)
    expect(page.locator(".gc-Curve svg")).to_be_visible()
    page.mouse.move(700, 900)
    picture(page, f"job-{name}")


def test_a_narrow_window_scrolls_no_part_of_the_panel_sideways(open_lab: Open) -> None:
    page = open_lab(size={"width": 860, "height": 860})
    section(page, "Train").get_by_role("button", name="More…").click()
    expect(section(page, "Train").get_by_label("Workers")).to_be_visible()
    picture(page, "panel-860")
    assert page.evaluate(SIDEWAYS) == []


def test_a_phone_shows_all_of_it(open_lab: Open) -> None:
    page = open_lab(size=PHONE)
    panel = page.locator("#gpucommons-panel")
    picture(page, "panel-phone")
    width = panel.evaluate("node => [node.scrollWidth, node.clientWidth]")

    assert width[0] <= width[1]

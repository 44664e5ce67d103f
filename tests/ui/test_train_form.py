"""The *Train* form in a real JupyterLab: environments, files that stay, GPUs by memory, stops."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from ui.fake_server.lab_server import TOKEN, LabServer
from ui.panel_page import WIDE, Open, picture, section, show_panel

pytestmark = pytest.mark.ui
PROFILES = {
    "profiles": [
        {
            "team": "vision",
            "name": name,
            "description": description,
            "callback_line": "",
            "job": job,
            "published_by": "ada",
            "steerable": False,
        }
        for name, description, job in (
            (
                "ddp",
                "Two workers on one node.",
                {"workers": 2, "environment": "jax", "env": {"NCCL_DEBUG": "INFO"}},
            ),
            ("ready", "Evaluates the newest model.", {"command": ["python", "-m", "evaluate"]}),
        )
    ]
}


@pytest.mark.parametrize(
    ("name", "theme", "size"),
    [
        ("light", "JupyterLab Light", WIDE),
        ("dark", "JupyterLab Dark", WIDE),
        ("400", "JupyterLab Light", {"width": 400, "height": 900}),
    ],
)
def test_the_form_asks_by_memory_and_for_what_happens_at_a_stop(
    open_lab: Open, name: str, theme: str, size: Any
) -> None:
    train = section(open_lab(theme=theme, size=size), "Train")
    expect(train.get_by_label("Environment, this kernel’s own")).to_be_visible()
    expect(train.locator("#gc-quote")).to_be_visible()
    expect(train).to_contain_text("Results come back to digits/results/, beside the file.")
    picture(train, f"train-{name}")
    train.get_by_role("radio", name="GiB", exact=True).check()
    expect(train.get_by_label("GPU memory of each worker, GiB")).to_have_value("12")
    train.get_by_label("Workers", exact=True).fill("2")
    launcher = train.get_by_label("Launcher")
    expect(launcher).to_have_value("auto")
    # With what another package brings.
    expect(launcher.get_by_role("option", name="halves")).to_be_attached()
    expect(train).to_contain_text("torchrun, as train.ipynb starts torch.distributed.")
    launcher.select_option("plain")
    expect(train).to_contain_text("without torchrun each of the workers trains alone.")
    train.get_by_role("button", name="More…").click()
    train.get_by_label("When a stop is announced, the script gets").select_option("SIGUSR1")
    expect(train).to_contain_text("SIGUSR1 ends a script that does not handle it.")
    picture(train, f"train-more-{name}")
    width = train.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert width[0] <= width[1]


def test_the_function_that_is_proposed_follows_edits_that_are_not_saved(open_lab: Open) -> None:
    page = open_lab()
    part = section(page, "Train").get_by_label("Part of it")
    expect(part).to_have_value("train")
    page.locator(".jp-CodeCell .cm-content").first.click()
    keyboard = page.keyboard
    keyboard.press("ControlOrMeta+Home")
    keyboard.type("model.train()\n")
    # Of all that follows, Lab only says that the content is another: it is unsaved already.
    expect(page.locator(".lm-TabBar-tab.jp-mod-dirty")).to_be_visible()
    expect(part).to_have_value("train")
    keyboard.type("if model: train(None)\n")
    keyboard.press("Shift+Home")
    keyboard.press("Delete")
    expect(part).to_have_value("")


def test_a_plan_fills_the_form(lab: LabServer, open_lab: Open) -> None:
    train = section(open_lab(theme="JupyterLab Dark"), "Train")
    train.get_by_role("button", name="Advise").click()
    # It opens below the form, at the end of the panel.
    expect(train.get_by_label("What is trained")).to_be_focused()
    expect(train.get_by_role("button", name="Show plans")).to_be_in_viewport()
    model = train.get_by_label("Model: config.json of a Hugging Face model")
    # No such file lies there: its name is an example.
    expect(model).to_have_value("")
    expect(model).to_have_attribute("placeholder", "config.json")
    expect(train.get_by_role("button", name="Show plans")).to_be_disabled()
    model.fill("config.json")
    train.get_by_label("Samples per step").fill("")
    expect(train.get_by_role("button", name="Show plans")).to_be_disabled()
    train.get_by_label("Samples per step").fill("128")
    train.get_by_role("button", name="Show plans").click()
    expect(train).to_contain_text("4 GPUs of train, borrowed")
    expect(train).to_contain_text("wait 3–8 min (past estimates right 8 of 10)")
    expect(train).to_contain_text("Why not 8: The largest node of train has 4 GPUs.")
    assert lab.asked("advise")[-1]["asked"]["batch"] == 128
    picture(train, "train-advice")
    train.get_by_label("What is trained").select_option(index=1)
    expect(model).to_have_count(0)
    picture(train, "train-advice-like")
    train.get_by_role("button", name="Show plans").click()
    expect(train).to_contain_text("4 GPUs of train, borrowed")
    assert len(lab.asked("advise")[-1]["like"]) == 1
    width = train.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert width[0] <= width[1]
    train.get_by_role("button", name="Use this plan").first.click()
    expect(train).to_contain_text("Only in pool train, as the plan says.")
    # What it filled in lies above the answer: the reader is led there.
    expect(train.get_by_label("Workers", exact=True)).to_be_focused()
    expect(train.get_by_label("Workers", exact=True)).to_be_in_viewport()
    expect(train.get_by_role("radio", name="4", exact=True)).to_be_checked()
    train.get_by_role("button", name="Submit").click()
    expect(train.get_by_role("button", name="Submit")).to_be_enabled()
    request = lab.asked("submit-file")[-1]["request"]
    assert (request["launcher"], request["pools"]) == ("torchrun", ["train"])
    assert request["roles"][0]["milli_gpu"] == 4000


def test_a_profile_fills_the_form_and_none_takes_it_back(lab: LabServer, open_lab: Open) -> None:
    page = open_lab(panel=False)
    page.route("**/gpucommons/api/profiles*", lambda route: route.fulfill(json=PROFILES))
    # Without the panel of before: one that Lab is about to restore would be closed by a click.
    page.goto(f"{lab.url}/lab/tree/train.ipynb?reset&token={TOKEN}")
    expect(page.locator(".jp-Notebook")).to_be_visible()
    show_panel(page)
    train = section(page, "Train")
    profile = train.get_by_label("Profile", exact=True)
    environment = train.locator("#gc-environment")
    workers = train.get_by_label("Workers", exact=True)
    expect(profile.locator("option:checked")).to_have_text("None")
    expect(train.get_by_label("Environment, this kernel’s own")).to_be_visible()
    own = environment.locator("option:checked").inner_text()
    began = workers.input_value()
    picture(train, "train-profile-none")

    profile.select_option("vision/ddp")
    expect(train).to_contain_text("Two workers on one node. Published by ada.")
    expect(train).to_contain_text("NCCL_DEBUG=INFO")
    expect(workers).to_have_value("2")
    expect(environment.locator("option:checked")).to_have_text("jax (Python 3.13)")
    expect(train.get_by_label("Environment", exact=True)).to_be_visible()
    picture(train, "train-profile-chosen")

    profile.select_option("vision/ready")
    expect(train).to_contain_text("Evaluates the newest model.")
    picture(train, "train-profile-ready")

    profile.select_option("")
    expect(workers).to_have_value(began)
    expect(environment.locator("option:checked")).to_have_text(own)
    expect(train).not_to_contain_text("Published by")
    expect(train.get_by_label("Environment, this kernel’s own")).to_be_visible()
    picture(train, "train-profile-none-again")


def test_large_files_are_asked_about_before_anything_is_sent(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    page.goto(f"{lab.url}/lab/tree/prepare.py?reset&token={TOKEN}")
    show_panel(page)
    train = section(page, "Train")
    choice = train.get_by_label("Stays here: data/raw.bin")
    expect(choice).to_be_visible()
    expect(train.get_by_role("button", name="Submit")).to_be_disabled()
    picture(train, "train-left-behind")
    choice.select_option("link")
    train.get_by_role("button", name="Submit").click()
    expect(train.get_by_role("button", name="Submit")).to_be_enabled()
    sent = lab.asked("submit-file")[-1]
    assert (sent["path"], sent["left_out"]) == ("prepare.py", "link")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_schedule_is_made_with_its_next_times_in_sight(
    lab: LabServer, open_lab: Open, theme: str
) -> None:
    page = open_lab(theme=f"JupyterLab {theme}")
    train = section(page, "Train")
    train.get_by_label("When", exact=True).select_option("schedule")
    expect(train.get_by_label("Time zone")).to_have_value("UTC")
    train.get_by_label("Time zone").fill("Europe/Berlin")
    expect(train.locator("#gc-times")).to_have_text(
        "Next: Tue 24 Nov 02:00, Wed 25 Nov 02:00, Thu 26 Nov 02:00, Fri 27 Nov 02:00, Sat 28 Nov 02:00"
    )
    expect(train).to_contain_text("Each run takes the files as they are now.")
    below = train.get_by_label("falls below")
    below.fill("97.5")
    expect(train.locator("#gc-trigger-metric-mistake")).to_have_text(
        "Write a metric and the number that it falls below, or neither."
    )
    below.fill("")
    train.get_by_label("Time zone").fill("")
    expect(train.locator("#gc-times")).to_have_text("Name a time zone, as in Europe/Berlin.")
    train.get_by_label("Time zone").fill("Europe/Berlin")
    train.get_by_label("Promote the best by").fill("loss")
    train.get_by_label("Best is").select_option("lowest")
    expect(train).to_contain_text("The results of the promoted one stay.")
    picture(train, f"train-schedule-{theme.lower()}")
    cron = train.get_by_label("Minute, hour, day, month, weekday")
    cron.fill("often")
    expect(train.locator("#gc-times")).to_contain_text("cron: 'often' has not five fields.")
    expect(train.get_by_role("button", name="Schedule", exact=True)).to_be_disabled()
    cron.fill("0 2 * * *")
    train.get_by_role("button", name="Schedule", exact=True).click()
    # It opens on the page of schedules.
    box = page.get_by_role("region", name="train", exact=True)
    expect(box).to_contain_text("None yet.")
    sent = lab.asked("schedule")[-1]
    assert (sent["schedule"], sent["time_zone"]) == ("0 2 * * *", "Europe/Berlin")
    assert sent["file"]["path"] == "train.ipynb"
    assert sent["promote"] == {"metric": "loss", "direction": "minimize"}


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_page_of_schedules_tells_what_comes_and_what_came(
    lab: LabServer, open_lab: Open, theme: str
) -> None:
    page = open_lab(theme=f"JupyterLab {theme}")
    page.get_by_role("button", name="Schedules", exact=True).click()
    nightly = page.get_by_role("region", name="nightly", exact=True)
    for text in (
        "1 GPU: python -u train.py",
        "0 2 * * * Europe/Berlin",
        "Tue 24 Nov 02:00",
        "Sat 28 Nov 02:00",
        "While one runs, the next is skipped. Starts at most 4 h late.",
        "Missed: The scheduler did not run at that time, and 4 h later it was too late.",
        "Sat 21 Nov 02:00 – Sun 22 Nov 02:00, 2 times",
        "by hand",
        "When /home/ann/data changed. Looked at every 5 min."
        " The look nightly-look-1 did not end well: There is no /home/ann/data for you.",
        "Nothing was posted yet: gpucommons schedule metric nightly METRIC VALUE posts one.",
        "Promoted: nightly-1 (accuracy 98, ",
        "), since Fri 20 Nov 04:00. Its results stay.",
        "promoted: accuracy 98, the first",
        "not promoted: accuracy 97, was 98: nightly-1 kept",
    ):
        expect(nightly).to_contain_text(text)
    expect(nightly.get_by_text("simulated", exact=True)).to_be_visible()
    expect(nightly.get_by_role("button", name="digits-6")).to_be_visible()
    # The list of jobs has left it long ago.
    first = nightly.get_by_role("row").filter(has_text="nightly-1finished")
    expect(first).to_contain_text("promoted: accuracy 98, the first")
    weekly = page.get_by_role("region", name="weekly", exact=True)
    expect(weekly).to_contain_text("suspended by a lead or an admin")
    expect(weekly.get_by_role("button")).to_have_count(0)
    picture(page.locator(".gc-JobPage"), f"schedules-{theme.lower()}")
    # The one that is promoted is not offered.
    nightly.get_by_role("button", name="Promote").click()
    expect(nightly).to_contain_text("Promoted: digits-6 (accuracy 97, chosen by user-a)")
    nightly.get_by_role("button", name="Promote").click()
    expect(nightly).to_contain_text("Promoted: nightly-1 (accuracy 98, chosen by user-a)")
    promoted = [each["job"] for each in lab.asked("schedules/user-a/nightly/promote")]
    assert promoted[-2:] == ["0190f000-0000-7000-8000-000000000006", "gone"]
    nightly.get_by_role("button", name="Run now").click()
    expect(nightly).to_contain_text("A run was asked for. It starts within seconds.")
    nightly.get_by_role("button", name="Suspend").click()
    expect(nightly).to_contain_text("No times while it is suspended.")
    nightly.get_by_role("button", name="Resume").click()
    expect(nightly).to_contain_text("Sat 28 Nov 02:00")
    nightly.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Jobs that it started stay.")
    dialog.get_by_role("button", name="Keep it").click()
    expect(nightly).to_be_visible()
    asked = [
        each
        for each in ("run", "suspend", "resume", "remove")
        if lab.asked(f"schedules/user-a/nightly/{each}")
    ]
    assert asked == ["run", "suspend", "resume"]


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_page_of_pipelines_draws_the_graph(open_lab: Open, theme: str) -> None:
    page = open_lab(theme=f"JupyterLab {theme}")
    page.get_by_role("button", name="Pipelines", exact=True).click()
    box = page.get_by_role("region", name="nightly-assembly-41", exact=True)
    for text in (
        "failed at vit",
        "2 of 4 steps done",
        "vit: failed. ValueError: expected 64 channels, got 32 (train_vit.py:88).",
        "Kept: what clean, cnn left.",
        "clean.parquet",
        "model.pt",
        "Needs vit, which failed.",
    ):
        expect(box).to_contain_text(text)
    expect(box.get_by_role("listitem", name="assembly")).to_contain_text("blocked")
    expect(box.get_by_text("simulated", exact=True)).to_be_visible()
    picture(page.locator(".gc-JobPage"), f"pipeline-{theme.lower()}")


def test_a_pipeline_is_retried_from_the_failed_step(lab: LabServer, open_lab: Open) -> None:
    page = open_lab()
    page.get_by_role("button", name="Pipelines", exact=True).click()
    box = page.get_by_role("region", name="nightly-assembly-41", exact=True)
    expect(box).to_contain_text("failed at vit")
    box.get_by_role("button", name="Retry from vit").click()
    expect(box.get_by_role("listitem", name="vit")).to_contain_text("try 2 · waiting")
    expect(box.get_by_role("listitem", name="assembly")).to_contain_text("Waits for vit.")
    assert lab.asked("pipelines/user-a/nightly-assembly-41/retry") == [{"step": "vit"}]

    # On the same page, as a page of Lab is dear: a file is shown, refused where it was run, and runs.
    page.get_by_role("button", name="Run a pipeline file…").click()
    chooser = page.get_by_role("dialog")
    chooser.get_by_text("pipeline.yaml").click()
    chooser.get_by_role("button", name="Select", exact=True).click()
    dialog = page.get_by_role("dialog").filter(has_text="Run the pipeline nightly-assembly?")
    for text in (
        "train × 2",
        "reads clean/clean.parquet",
        "after the end of train",
        "runs with vision-2026 · is told the secrets HF_TOKEN=hugging-face · also says pools=gpu",
        "Goes along: 4 files of this server’s folder, 4.0 KiB.",
        "Stays here: raw.bin is larger than 32 MiB.",
        "Steps cannot read what stays here.",
    ):
        expect(dialog).to_contain_text(text)
    picture(page, "pipeline-file")
    dialog.get_by_role("button", name="Run it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("You have 100 pipelines")
    dialog.get_by_role("button", name="Run it").click()
    box = page.get_by_role("region", name="nightly-assembly-42", exact=True)
    expect(box).to_contain_text("running")
    wanted = {"path": "pipeline.yaml", "team": None, "seen": "5ee2"}
    assert lab.asked("pipeline") == [None, wanted] * 2

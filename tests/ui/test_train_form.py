"""The *Train* form in a real JupyterLab: environments, files that stay, GPUs by memory, stops."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect
from ui.lab_server import TOKEN, LabServer
from ui.panel_page import WIDE, Open, picture, section, show_panel

pytestmark = pytest.mark.ui


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
    expect(train).to_contain_text("torchrun, as train.ipynb starts torch.distributed.")
    launcher.select_option("plain")
    expect(train).to_contain_text("without torchrun each of the workers trains alone.")
    train.get_by_role("button", name="More…").click()
    train.get_by_label("When a stop is announced, the script gets").select_option("SIGUSR1")
    expect(train).to_contain_text("SIGUSR1 ends a script that does not handle it.")
    picture(train, f"train-more-{name}")
    width = train.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert width[0] <= width[1]


def test_a_plan_fills_the_form(lab: LabServer, open_lab: Open) -> None:
    train = section(open_lab(theme="JupyterLab Dark"), "Train")
    train.get_by_role("button", name="Advise").click()
    model = train.get_by_label("Model: config.json of a Hugging Face model")
    expect(model).to_have_value("config.json")
    train.get_by_label("Samples per step").fill("")
    expect(train.get_by_role("button", name="Show plans")).to_be_disabled()
    train.get_by_label("Samples per step").fill("128")
    train.get_by_role("button", name="Show plans").click()
    expect(train).to_contain_text("4 GPUs of train, borrowed")
    expect(train).to_contain_text("wait 3–8 min (past estimates right 8 of 10)")
    expect(train).to_contain_text("Why not 8: The largest node of train has 4 GPUs.")
    assert lab.asked("advise")[-1]["asked"]["batch"] == 128
    picture(train, "train-advice")
    width = train.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert width[0] <= width[1]
    train.get_by_role("button", name="Use this plan").first.click()
    expect(train).to_contain_text("Only in pool train, as the plan says.")
    expect(train.get_by_role("radio", name="4", exact=True)).to_be_checked()
    train.get_by_role("button", name="Submit").click()
    expect(train.get_by_role("button", name="Submit")).to_be_enabled()
    request = lab.asked("submit-file")[-1]["request"]
    assert (request["launcher"], request["pools"]) == ("torchrun", ["train"])
    assert request["roles"][0]["milli_gpu"] == 4000


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

"""The widgets in a real notebook: what they say once their kernel is gone."""

from __future__ import annotations

import copy
import json

import pytest
from playwright.sync_api import Page, expect
from ui.fake_server.lab_server import NOTEBOOK, TOKEN, LabServer
from ui.panel_page import Open, picture

pytestmark = pytest.mark.ui

CELL = """from IPython.display import display
from gpucommons.labextension import GpuMonitor, TrainPanel
display(GpuMonitor(), TrainPanel('prepare.py'))"""


def run_widgets(lab: LabServer, page: Page) -> None:
    notebook = copy.deepcopy(NOTEBOOK)
    notebook["cells"][0]["source"] = CELL
    (lab.folder / "work" / "widgets.ipynb").write_text(json.dumps(notebook))
    page.goto(f"{lab.url}/lab/tree/widgets.ipynb?reset&token={TOKEN}")
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_role("group", name="Train", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("name", "theme"), [("light", "JupyterLab Light"), ("dark", "JupyterLab Dark")]
)
def test_after_a_restart_of_the_kernel_widgets_say_what_to_do(
    lab: LabServer, open_lab: Open, name: str, theme: str
) -> None:
    page = open_lab(theme=theme)
    run_widgets(lab, page)
    output = page.locator(".jp-OutputArea-output")
    expect(output.first).to_be_visible()
    picture(page.locator(".jp-Notebook"), f"widgets-{name}")
    page.get_by_role("menuitem", name="Kernel").click()
    page.locator(".lm-Menu-item", has_text="Restart Kernel…").first.click()
    page.locator(".jp-Dialog .jp-mod-accept").click()

    expect(page.locator(".jp-Notebook")).to_contain_text(
        "Not connected any more: the kernel was restarted or shut down. Run the cell again."
    )
    expect(page.locator(".jp-Notebook")).to_contain_text(
        "The kernel was restarted or shut down: this tile lasts until the page is closed."
    )
    picture(page.locator(".jp-Notebook"), f"widgets-restarted-{name}")

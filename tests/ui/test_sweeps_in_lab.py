"""Sweeps in a real JupyterLab: asked for in *Train*, looked at and gone on with on their page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from ui.fake_server.lab_server import LabServer
from ui.panel_page import Open, picture, section

pytestmark = pytest.mark.ui


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_page_draws_a_sweep_with_the_charts_of_lab(open_lab: Open, theme: str) -> None:
    page = open_lab(theme=f"JupyterLab {theme}")
    page.get_by_role("button", name="Sweeps", exact=True).click()
    box = page.get_by_role("region", name="digits-sweep-3", exact=True)
    for text in (
        "8 of 40 trials",
        "1 running, 1 waiting, 3 paused, 2 finished, 1 failed",
        "2.70 of 10.00 GPU-hours",
        "Best: trial 1, accuracy 0.98 at step 40",
        "paused at rung 1",
        "waits for a GPU, was at step 15",
        "3 of 7 went on",
        "Drawn from lr: 0.0001 to 0.1, log · batch: 32, 64, 128 · dropout: 0 to 0.4",
        "For fair share the whole sweep counts as one job of vision.",
    ):
        expect(box).to_contain_text(text)
    expect(box.get_by_text("simulated", exact=True)).to_be_visible()
    # Drawn by the renderer that Lab ships.
    expect(box.locator(".gc-Chart .vega-embed")).to_have_count(3)
    expect(box.locator(".gc-Chart :is(svg, canvas)").nth(2)).to_be_visible()
    picture(page.locator(".gc-JobPage"), f"sweep-{theme.lower()}")


def test_a_sweep_is_stopped_and_its_best_becomes_a_prefilled_form(
    lab: LabServer, open_lab: Open
) -> None:
    page = open_lab()
    page.get_by_role("button", name="Sweeps", exact=True).click()
    box = page.get_by_role("region", name="digits-sweep-3", exact=True)
    box.get_by_role("button", name="Retrain it nightly…").click()
    train = section(page, "Train")
    expect(train.get_by_label("When", exact=True)).to_have_value("schedule")
    expect(train.get_by_label("Minute, hour, day, month, weekday")).to_have_value("0 2 * * *")
    for _ in range(2):
        box.get_by_role("button", name="Add budget…").click()
        page.get_by_role("dialog").get_by_label("Trials").fill("12")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    expect(box).to_contain_text("8 of 64 trials")
    added = lab.calls("sweeps/0190f000-0000-7000-8000-000000000100/budget")
    assert [each["body"] for each in added] == [{"trials": 12, "gpu_hours": 0}] * 2
    # The first was answered: the second is another order.
    assert len({each["key"] for each in added} - {None}) == 2
    box.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop it").click()
    expect(box).to_contain_text("It was stopped.")
    assert lab.asked("sweeps/0190f000-0000-7000-8000-000000000100/stop") == [{}]


def test_train_asks_for_a_sweep_and_sends_what_is_typed(lab: LabServer, open_lab: Open) -> None:
    train = section(open_lab(), "Train")
    train.get_by_role("radio", name="Sweep").check()
    expect(train).to_contain_text("Try: name at least one parameter and its values.")
    train.get_by_label("Parameter 1", exact=True).fill("--lr")
    values = train.get_by_label("Values of parameter 1")
    values.fill("0.1 to 0.0001")
    expect(train.locator("#gc-try-0-mistake")).to_have_text(
        "Try: the range of lr must go from low to high."
    )
    values.fill("0.0001 to 0.1")
    expect(train.locator("#gc-try-0-mistake")).to_have_count(0)
    train.get_by_label("At once").fill("many")
    expect(train.locator("#gc-sweep-atOnce-mistake")).to_have_text(
        "At once: a whole number from 1 to 256."
    )
    train.get_by_label("At once").fill("8")
    train.get_by_role("button", name="Add one").click()
    train.get_by_label("Parameter 2", exact=True).fill("batch")
    train.get_by_label("Values of parameter 2").fill("32, 64")
    train.get_by_label("Metric").fill("accuracy")
    train.get_by_label("GPU-hours, at most").fill("30")
    train.get_by_label("Pause trials that fall behind").check()
    expect(train).to_contain_text("Compared at steps 5, 15: the best third goes on")
    expect(train).to_contain_text("It ends after 40 trials or 30 GPU-h, whichever comes first.")
    picture(train, "train-sweep")
    train.get_by_role("button", name="Submit sweep").click()
    expect(train.get_by_role("button", name="Submit", exact=True)).to_be_visible()
    (sent,) = lab.asked("sweep")
    assert sent["sweep"] == {
        "space": {"lr": {"low": 0.0001, "high": 0.1, "log": True}, "batch": [32, 64]},
        "objective": {"metric": "accuracy", "direction": "maximize"},
        "budget": {"trials": 40, "gpu_hours": 30},
        "sampler": "tpe",
        "max_parallel": 8,
        "early_stopping": {"first_step": 5, "last_step": 45, "factor": 3},
    }
    assert sent["file"]["request"]["priority"] == "low"

"""How long a browser takes to show the page of many jobs: a sweep of 1,000 trials, a map of 200 jobs.

``python -m benchmarks.sweeps.page [--tries 5] [--json OUT]`` opens JupyterLab with the built extension in
a real Chromium and presses *Sweeps*, each time in a page that has not loaded the sweeps' code yet.

Counted, in the browser, from the press until its table is drawn (``to_table_ms``: the next frame after
the rows are there), and from *Show all* until all rows are (``to_all_rows_ms``). ``script_ms`` is the
processor time of the page's main thread within the first of both, charts included if they came by then.
The answers are made beforehand by the product's own view of stored trials and come over HTTP from the
server of Lab: how long the scheduler takes to make one is in ``benchmarks.sweeps.large``, how long Lab
takes to start is Lab's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from benchmarks.results import write
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.service.views.sweeps import sweep_view
from gpucommons.scheduler.sweeps.sweep import (
    Budget,
    Halving,
    Kept,
    Parameter,
    Standing,
    Sweep,
    Trial,
    TrialState,
)
from tests.ui.browser import find_chromium
from tests.ui.fake_server.lab_server import TOKEN, LabServer

SWEEP, MAP = "sweep of 1,000 trials", "map of 200 jobs"
_BEGAN_MS = 1_790_000_000_000
_PATIENCE_MS = 180_000
#: Times a press in the page itself: an order from outside would count the way to the browser.
_TIMED = """([button, rows]) => new Promise(resolve => {
  const began = performance.now();
  const look = () => {
    if (document.querySelectorAll('.gc-Trials tbody tr').length >= rows) {
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began), 0));
    } else {
      requestAnimationFrame(look);
    }
  };
  [...document.querySelectorAll('button')].find(one => one.textContent.trim() === button).click();
  look();
})"""


def _trial(number: int, *, is_map: bool) -> Trial:
    values = {"seed": number} if is_map else {"lr": 0.1 / number, "batch": 32 << number % 4}
    value = None if is_map else 1 - 1 / (number % 97 + 2)
    return Trial(
        number=number,
        values=values,
        state=TrialState.DONE,
        job=WorkloadId(f"0190f000-0000-7000-8000-{number:012}"),
        job_name=f"digits-{number}",
        best=value,
        best_step=number % 27,
        best_ms=Millis(_BEGAN_MS + number * 60_000),
        step=27,
        milli_gpu_s=90_000,
    )


def _answer(what: str) -> dict[str, Any]:
    is_map, count = what == MAP, 200 if what == MAP else 1000
    space = (
        Parameter(name="lr", low=1e-4, high=0.1, log=True),
        Parameter(name="batch", choices=(32, 64)),
    )
    sweep = Sweep(
        sweep_id=ParentId("0190f000-0000-7000-8000-000000000100"),
        kind=ParentKind.MAP if is_map else ParentKind.SWEEP,
        name="digits-1",
        owner=UserName("user-a"),
        team=TeamName("vision"),
        made_ms=Millis(_BEGAN_MS),
        budget=Budget(trials=count),
        request='{"name": "digits", "roles": [{"command": ["python", "train.py"]}]}',
        space=() if is_map else space,
        given=tuple({"seed": number} for number in range(1, count + 1)) if is_map else (),
        metric="" if is_map else "accuracy",
        maximize=True,
        halving=None if is_map else Halving(first_step=1, last_step=27),
    )  # fmt: skip
    over = Standing(ended_ms=Millis(_BEGAN_MS + 8 * 3_600_000), ended_text="All of it was tried.")
    trials = [_trial(number, is_map=is_map) for number in range(1, count + 1)]
    request = models.JobRequest.model_validate_json(sweep.request)
    view = sweep_view(Kept(sweep=sweep, standing=over), trials, {}, request=request, in_full=True)
    return view.model_copy(update={"steerable": True}).model_dump(mode="json")


def _script_s(session: CDPSession) -> float:
    found = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


def _try(page: Page, lab: LabServer, rows: int) -> dict[str, float]:
    page.set_default_timeout(_PATIENCE_MS)
    page.goto(f"{lab.url}/lab?reset&token={TOKEN}")
    page.locator(".jp-Launcher").wait_for()
    if not page.locator("#gpucommons-panel").is_visible():
        page.locator('[data-id="gpucommons-panel"]').first.click()
    page.get_by_role("button", name="Sweeps", exact=True).wait_for()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before_s = _script_s(session)
    to_table_ms = page.evaluate(_TIMED, ["Sweeps", 12])
    script_ms = (_script_s(session) - before_s) * 1000
    page.wait_for_timeout(2000)  # charts come behind the table
    to_all_ms = page.evaluate(_TIMED, ["Show all", rows])
    return {"to_table_ms": to_table_ms, "script_ms": script_ms, "to_all_rows_ms": to_all_ms}


def _measured(browser: Browser, lab: LabServer, tries: int) -> Iterator[dict[str, object]]:
    for what in (SWEEP, MAP):
        answer, found = _answer(what), []
        lab.keep_sweep(answer)
        for _ in range(tries):
            page = browser.new_page()
            found.append(_try(page, lab, len(answer["trials"])))
            page.close()
        middle = {name: round(statistics.median(one[name] for one in found)) for name in found[0]}
        worst = round(max(one["to_table_ms"] for one in found))
        load = round(os.getloadavg()[0], 1)
        yield {"page": what, "tries": tries, **middle, "longest_to_table_ms": worst, "load": load}


def main() -> None:
    """Measure and print one line for each page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps.page")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = LabServer(folder=Path(folder))
        lab.start()
        try:
            browser = playwright.chromium.launch(**find_chromium().arguments())  # type: ignore[arg-type] # a plain dict
            lines = list(_measured(browser, lab, asked.tries))
            browser.close()
        finally:
            lab.stop()
    for line in lines:
        sys.stdout.write(f"{line}\n")
    write(asked.json, lines)


if __name__ == "__main__":
    main()

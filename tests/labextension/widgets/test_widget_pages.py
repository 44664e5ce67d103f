"""The widgets' pages in a real browser, with the kernel's side and the socket faked there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright
from ui.browser import launch

from gpucommons import labextension

#: One browser for all, so one event loop.
pytestmark = [pytest.mark.ui, pytest.mark.asyncio(loop_scope="module")]
FOLDER = Path(labextension.__file__).parent / "widgets"
MARKUP = "<img src=x onerror=window.hacked=1>"
#: The kernel's side of a widget, and a socket that the test speaks through.
FAKES = """
window.sent = [];
window.watchers = [];
window.kernelIs = status => watchers.forEach(watcher => watcher(null, status));
const statusChanged = {
  connect: watcher => watchers.push(watcher),
  disconnect: watcher => watchers.splice(watchers.indexOf(watcher), 1)
};
const lines = [];
window.lineIs = status => lines.forEach(watcher => watcher(null, status));
const connectionStatusChanged = {
  connect: watcher => lines.push(watcher),
  disconnect: watcher => lines.splice(lines.indexOf(watcher), 1)
};
window.makeModel = state => {
  const callbacks = [];
  const tell = changed => callbacks.forEach(([names, callback]) => {
    if (['', ...changed.map(name => `:${name}`)].some(one => names.includes(`change${one}`))) {
      callback();
    }
  });
  return {
    get: name => state[name],
    widget_manager: { context: { sessionContext: { statusChanged, connectionStatusChanged } } },
    set: (name, value) => { state[name] = value; tell([name]); },
    save_changes: () => undefined,
    send: message => window.sent.push(message),
    on: (names, callback) => callbacks.push([names.split(' '), callback]),
    off: () => undefined,
    change: values => { Object.assign(state, values); tell(Object.keys(values)); }
  };
};
window.WebSocket = class {
  constructor(url) { window.socket = this; this.url = String(url); }
  send(text) { window.sent.push(JSON.parse(text)); }
  close() { window.hungUp = true; }
};
"""
#: How a page says that a Jupyter server made it.
CONFIG = """
const config = document.createElement('script');
config.type = 'application/json';
config.id = 'jupyter-config-data';
config.textContent = JSON.stringify({ baseUrl: '/user/a/' });
document.body.append(config);
"""
SLICE = {"gpu_kind": "A100-40", "milli_gpu": 500, "simulated": True}
SAMPLE = {"compute_percent": 74, "memory_used_mib": 12902, "memory_limit_mib": 19866}


class Widget:
    """One widget on a page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def show(self, name: str, state: dict[str, Any], *, jupyter: bool) -> None:
        await self.page.set_content("<div id=here></div>")
        await self.page.add_script_tag(content=FAKES)
        if jupyter:
            await self.page.add_script_tag(content=CONFIG)
        await self.page.evaluate(
            """async ([source, state]) => {
              const url = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
              const widget = (await import(url)).default;
              window.model = window.makeModel(state);
              window.cleanup = widget.render({
                model: window.model, el: document.getElementById('here')
              });
            }""",
            [(FOLDER / name).read_text(), state],
        )

    async def say(self, message: dict[str, Any]) -> None:
        await self.page.evaluate("m => socket.onmessage({data: JSON.stringify(m)})", message)

    async def sent(self) -> list[Any]:
        return list(await self.page.evaluate("window.sent"))

    async def text(self) -> str:
        """Every piece of text in order, apart as they are on screen."""
        pieces = await self.page.evaluate(
            "() => [...document.querySelectorAll('#here *')]"
            ".filter(e => e.children.length === 0).map(e => e.textContent)"
        )
        return " ".join(" ".join(pieces).split())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        started = await launch(playwright.chromium)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def widget(browser: Browser) -> AsyncIterator[Widget]:
    page = await browser.new_page()
    await page.route("**/*", lambda route: route.fulfill(body="<body></body>"))
    await page.goto("http://jupyter.test/user/a/lab")
    yield Widget(page)
    assert await page.evaluate("window.hacked") is None
    await page.close()


async def test_the_tile_moves_with_the_servers_socket(widget: Widget) -> None:
    await widget.show("monitor.js", {"text": ""}, jupyter=True)
    assert await widget.page.evaluate("socket.url") == "ws://jupyter.test/user/a/gpucommons/ws"
    await widget.say({"type": "hello", "lease": {"slice": SLICE}})
    await widget.say({"type": "usage", "state": "ok", "samples": [SAMPLE] * 3})
    text = await widget.text()
    assert text == "½ of A100-40 simulated Memory 12.6 of 19.4 GiB Compute, last 5 min 74 %"
    points = await widget.page.get_attribute("polyline", "points")
    assert points is not None
    assert len(points.split()) == 3
    await widget.say({"type": "usage", "state": "no-data", "samples": []})
    assert "no GPU data" in await widget.text()
    await widget.page.evaluate("cleanup()")
    assert await widget.page.evaluate("window.hungUp")


async def test_without_a_jupyter_page_the_tile_asks_the_kernel(widget: Widget) -> None:
    await widget.show("monitor.js", {"text": f"no GPU data {MARKUP}"}, jupyter=False)
    assert MARKUP in await widget.text()
    await widget.page.click("text=Refresh")
    assert await widget.sent() == ["refresh"]


FORM = {
    "target": "train.ipynb: train()",
    "sizes": [0, 500, 1000, 2000],
    "size_words": ["CPU", "½", "1", "2"],
    "time_limits": [[3600, "1 hour"], [7200, "2 hours"], [0, "The team's limit"]],
    "milli_gpu": 1000,
    "workers": 1,
    "launcher": "auto",
    "launchers": [],
    "proposed": "",
    "teams": ["vision", "nlp"],
    "team": "vision",
    "max_run_s": 7200,
    "quota_line": "Inside vision's guarantee.",
    "job": {},
    "trouble": "",
}


async def test_the_form_quotes_submits_and_follows(widget: Widget) -> None:
    await widget.show("train.js", {**FORM}, jupyter=True)
    await widget.page.click("button:text-is('2')")
    # Nothing is said or sent of a size before the kernel has asked about it.
    assert await widget.sent() == []
    assert "Asking… A running cell comes first." in await widget.text()
    assert "Inside vision's guarantee." not in await widget.text()
    assert await widget.page.is_disabled("text=Submit")
    await widget.page.select_option("select >> nth=0", "nlp")
    assert await widget.page.evaluate("[model.get('milli_gpu'), model.get('team')]") == [
        2000,
        "nlp",
    ]
    await widget.page.evaluate(
        "model.change({quota_line: 'Borrowed.', sizes: [0, 3000], size_words: ['CPU', '3']})"
    )
    assert await widget.page.inner_text("[aria-label=GPUs]") == "GPUsCPU3GiB"
    await widget.page.click("text=Submit")
    assert (await widget.sent())[-1] == "submit"
    job = {"id": "j1", "name": "digits-7", "state": "queued", "state_text": "waiting"}
    job["reason"] = {"text": MARKUP}
    await widget.page.evaluate("job => model.change({job})", job)
    assert f"digits-7: waiting · {MARKUP}" in await widget.text()
    await widget.page.evaluate("socket.onopen()")
    assert (await widget.sent())[-1] == {"type": "follow", "job": "j1", "rank": 0}
    await widget.say({"type": "log", "job": "j1", "lines": ["epoch 1", MARKUP]})
    assert f"epoch 1 {MARKUP}" in await widget.text()
    running = {"id": "j1", "name": "digits-7", "state": "running", "state_text": "running"}
    running["progress"] = {"step": 3}
    await widget.say({"type": "job", "job": running})
    assert "digits-7: running · step 3" in await widget.text()


async def test_the_form_asks_by_memory_and_for_what_happens_at_a_stop(widget: Widget) -> None:
    state = {**FORM, "gpu_memory_gib": 0, "notice_signal": "", "exit_after_signal": "preempted"}
    await widget.show("train.js", state, jupyter=True)
    field = widget.page.get_by_label("GPU memory of the worker, GiB")
    assert await field.is_hidden()
    await widget.page.click("button:text-is('GiB')")
    assert await field.input_value() == "12"
    assert await widget.page.get_attribute("button:text-is('1')", "aria-pressed") == "false"
    await widget.page.evaluate("model.change({quota_line: 'Guaranteed.'})")

    await field.fill("-1")
    await field.blur()
    assert "GPU memory: a number of GiB from 0.5 to 16384." in await widget.text()
    assert await widget.page.is_disabled("text=Submit")
    await field.fill("12")
    await field.blur()
    assert (await widget.sent())[-1] == "quote"

    await widget.page.click("text=More…")
    notice = widget.page.get_by_label("When a stop is announced, the script gets")
    await notice.select_option("SIGUSR1, so that it can save")
    assert "SIGUSR1 ends a script that does not handle it." in await widget.text()
    exit_ = widget.page.get_by_label("When it then exits with status 0, the job")
    await exit_.select_option("has succeeded")
    chosen = (
        "[model.get('gpu_memory_gib'), model.get('notice_signal'), model.get('exit_after_signal')]"
    )
    assert await widget.page.evaluate(chosen) == [12, "SIGUSR1", "success"]

    await widget.page.click("button:text-is('½')")
    assert await field.is_hidden()
    size = "[model.get('gpu_memory_gib'), model.get('milli_gpu')]"
    assert await widget.page.evaluate(size) == [0, 500]


async def test_the_form_asks_for_workers_and_what_joins_them(widget: Widget) -> None:
    await widget.show("train.js", {**FORM}, jupyter=True)
    field = widget.page.get_by_label("Workers")
    await field.fill("0")
    await field.blur()
    assert "Workers: a whole number from 1 to 1024." in await widget.text()
    await field.fill("2")
    await field.blur()
    launchers = [["auto", "torchrun (proposed)"], ["plain", "plain"], ["mpi", "mpi"]]
    why = "torchrun, as fit.py (line 3) starts torch.distributed."
    await widget.page.evaluate(
        "found => model.change(found)", {"launchers": launchers, "proposed": why}
    )
    assert why in await widget.text()
    await widget.page.get_by_label("Launcher").select_option("mpi")
    assert await widget.page.evaluate("[model.get('workers'), model.get('launcher')]") == [2, "mpi"]


async def test_a_followed_job_is_followed_again_when_the_server_is_back(widget: Widget) -> None:
    await widget.show("train.js", {**FORM}, jupyter=True)
    job = {"id": "j1", "name": "digits-7", "state": "running"}
    await widget.page.evaluate("job => model.change({job})", job)
    await widget.page.evaluate("socket.onopen()")
    await widget.say({"type": "log", "job": "j1", "lines": ["epoch 1"]})
    await widget.page.evaluate("window.first = socket; first.onclose()")
    await widget.page.wait_for_function("socket !== first")
    await widget.page.evaluate("socket.onopen()")
    assert (await widget.sent())[-1] == {"type": "follow", "job": "j1", "rank": 0}
    await widget.say({"type": "log", "job": "j1", "lines": ["epoch 1"]})
    assert (await widget.text()).count("epoch 1") == 1
    await widget.say({"type": "job", "job": {**job, "state": "succeeded"}})
    assert await widget.page.is_enabled("text=Submit")


@pytest.mark.parametrize("name", ["train.js", "monitor.js"])
async def test_without_its_kernel_a_widget_says_so_and_what_to_do(
    widget: Widget, name: str
) -> None:
    await widget.show(name, {**FORM, "text": "no GPU data"}, jupyter=False)
    assert "Not connected" not in await widget.text()
    await widget.page.evaluate("kernelIs('busy')")
    assert "Not connected" not in await widget.text()
    await widget.page.evaluate("kernelIs('restarting')")
    assert (
        "Not connected any more: the kernel was restarted or shut down. Run the cell again."
        in await widget.text()
    )
    assert await widget.page.evaluate(
        "[...here.querySelectorAll('button')].every(b => b.disabled || b.closest('[inert]'))"
    )
    await widget.page.evaluate("cleanup()")
    assert await widget.page.evaluate("watchers.length") == 0


async def test_a_form_that_nobody_hears_shows_its_age_and_cannot_be_sent(widget: Widget) -> None:
    await widget.show("train.js", {**FORM}, jupyter=False)
    assert await widget.page.is_enabled("text=Submit")
    await widget.page.evaluate("lineIs('connecting')")
    note = re.compile(r"Not connected: what stands here is as of \d\d:\d\d\.")
    assert note.search(await widget.text())
    inert = "here.querySelector('.gc-primary').closest('[inert]') !== null"
    assert await widget.page.evaluate(inert)
    await widget.page.evaluate("lineIs('connected')")
    assert not note.search(await widget.text())
    assert not await widget.page.evaluate(inert)


async def test_a_tile_without_its_server_says_since_when(widget: Widget) -> None:
    await widget.show("monitor.js", {}, jupyter=True)
    await widget.page.evaluate("socket.onclose()")
    said = re.compile(r"Not connected since \d\d:\d\d\. Connecting again…")
    assert said.search(await widget.text())


async def test_a_refusal_is_shown_and_the_button_works_again(widget: Widget) -> None:
    await widget.show("train.js", {**FORM}, jupyter=False)
    await widget.page.click("text=Submit")
    assert await widget.page.is_disabled("text=Submit")
    await widget.page.evaluate("t => model.change({trouble: t})", MARKUP)
    assert MARKUP in await widget.text()
    assert await widget.page.is_enabled("text=Submit")

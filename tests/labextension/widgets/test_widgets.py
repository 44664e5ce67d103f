"""The widgets without a page: their Python is all that decides anything."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ipywidgets
import pytest

from gpucommons import labextension
from gpucommons.gpu.connections import unix_sockets
from gpucommons.labextension import GpuMonitor, TrainPanel
from gpucommons.labextension.widgets import surroundings
from gpucommons.labextension.widgets.monitor import describe
from gpucommons.scheduler.client import SchedulerClient
from gpucommons.scheduler.errors import BadRequest, Misconfigured, SchedulerError, Unavailable

FOLDER = Path(labextension.__file__).parent / "widgets"


def train(resume_dir: str | None) -> None:
    """What a notebook defines."""


@pytest.fixture(autouse=True)
def _scheduler(monkeypatch: pytest.MonkeyPatch, api: Any) -> None:
    """The blocking client of a kernel, over the same fake."""

    def answer(request: httpx.Request) -> httpx.Response:
        response: httpx.Response = asyncio.run(api(request))
        return response

    def make(url: str, *, token: str) -> SchedulerClient:
        return SchedulerClient(url, token=token, transport=httpx.MockTransport(answer))

    monkeypatch.setattr(surroundings, "SchedulerClient", make)
    # The function of a notebook lives in its main module.
    monkeypatch.setattr(train, "__module__", "__main__")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    notebook = tmp_path / "train.ipynb"
    notebook.write_text("{}")
    return {
        "GPUCOMMONS_URL": "http://scheduler",
        "JUPYTERHUB_API_TOKEN": "secret-token",
        "JPY_SESSION_NAME": str(notebook),
    }


@pytest.fixture
def slice_socket(socket_folder: Path) -> Iterator[str]:
    """An agent that gives its history to whoever connects."""
    path = socket_folder / "usage.sock"
    listener = unix_sockets.listen(path)
    listener.setblocking(True)
    sample = {"compute_percent": 74, "memory_used_mib": 12902, "memory_limit_mib": 19866}

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(json.dumps({"history": [sample]}).encode() + b"\n")

    thread = threading.Thread(target=serve)
    thread.start()
    yield str(path)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_both_are_ipywidgets() -> None:
    assert issubclass(GpuMonitor, ipywidgets.DOMWidget)
    assert issubclass(TrainPanel, ipywidgets.DOMWidget)


@pytest.mark.parametrize("name", ["monitor.js", "train.js"])
def test_pages_get_small_modules_that_only_set_text(name: str) -> None:
    source = (FOLDER / name).read_text()
    assert len(source.encode()) < 30_000
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", source) == []
    )
    assert "http://" not in source.replace("http://www.w3.org/2000/svg", "")
    assert "react" not in source.lower()


def test_colours_come_from_the_theme() -> None:
    css = (FOLDER / "widgets.css").read_text()
    colours = re.findall(r":[^;]*#[0-9a-f]{3,6}[^;]*;", css)
    assert colours
    assert all("var(--jp-" in colour for colour in colours)


def test_the_server_loads_no_widgets_and_a_kernel_no_server() -> None:
    code = (
        "import sys, gpucommons.labextension as ours;"
        "ours._jupyter_server_extension_points();"
        "assert 'anywidget' not in sys.modules"
    )
    other = (
        "import sys; from gpucommons.labextension import TrainPanel;"
        "assert 'jupyter_server' not in sys.modules"
    )
    import subprocess  # noqa: PLC0415 - these two need a fresh interpreter

    for program in (code, other):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_the_monitor_reads_slice_and_usage(environ: dict[str, str], slice_socket: str) -> None:
    monitor = GpuMonitor(environ={**environ, "GPUCOMMONS_SLICE_SOCKET": slice_socket})
    assert repr(monitor) == "GpuMonitor: ½ of A100-40 (simulated): 12.6 of 19.4 GiB, 74 %"


def test_the_monitor_outside_gpu_commons_says_no_gpu_data() -> None:
    assert repr(GpuMonitor(environ={})) == "GpuMonitor: no GPU data"


def test_inside_a_job_the_widgets_ask_nothing_and_say_nothing(
    environ: dict[str, str], api: Any
) -> None:
    inside = {**environ, "GPUCOMMONS_JOB_ID": "j-1"}
    monitor, panel = GpuMonitor(environ=inside), TrainPanel(train, environ=inside)

    assert (repr(monitor), repr(panel), api.requests) == ("", "", [])
    for call in (panel.submit, panel.quote):
        with pytest.raises(Misconfigured, match="a job submits no other"):
            call()
    panel.milli_gpu = 2000
    assert (repr(panel), api.requests) == ("", [])


def test_the_form_offers_what_the_scheduler_offers_to_the_team(environ: dict[str, str]) -> None:
    assert TrainPanel(train, environ=environ).sizes == [0, 500, 1000, 3000]
    assert TrainPanel(train, milli_gpu=250, environ=environ).sizes == [0, 250, 500, 1000, 3000]


def test_the_form_writes_sizes_and_time_limits_as_the_panel_does(environ: dict[str, str]) -> None:
    panel = TrainPanel(train, milli_gpu=750, max_run_s=5400, environ=environ)
    assert panel.size_words == ["CPU", "½", "¾", "1", "3"]
    assert panel.time_limits == [
        *([5400, "90 minutes"], [1800, "30 minutes"], [3600, "1 hour"], [7200, "2 hours"]),
        *([14_400, "4 hours"], [28_800, "8 hours"], [86_400, "1 day"], [0, "The team's limit"]),
    ]


@pytest.mark.parametrize(
    "change",
    [
        *({"milli_gpu": 3000}, {"gpu_memory_gib": 12}, {"max_run_s": 60}, {"team": "nlp"}),
        # These change no quota, but the page waits for a word on what was chosen.
        *({"workers": 2}, {"launcher": "mpi"}),
        *({"left_out": "link"}, {"notice_signal": "SIGUSR1"}, {"exit_after_signal": "success"}),
    ],
)
def test_what_is_chosen_anew_is_quoted_anew(
    environ: dict[str, str], api: Any, change: dict[str, Any]
) -> None:
    panel = TrainPanel(train, environ=environ)
    asked = len(api.asked("POST"))
    panel.set_trait(*next(iter(change.items())))
    assert api.asked("POST")[asked:] == ["/v1/quote"]
    assert panel.quota_line == "Inside vision's guarantee."


def test_gpus_are_asked_for_by_memory_or_by_size(environ: dict[str, str], api: Any) -> None:
    panel = TrainPanel(train, gpu_memory_gib=19.4, notice_signal="none", environ=environ)
    assert repr(panel).startswith("TrainPanel: train.ipynb: train() on 19.4 GiB of GPU memory.")
    asked = api.body("/v1/quote")
    assert asked["roles"][0]["gpu_memory_mib"] == 19_866
    assert asked["notice_signal"] == "none"
    panel.submit()
    role = api.body("/v1/jobs")["roles"][0]
    assert (role["gpu_memory_mib"], role.get("milli_gpu", 0)) == (19_866, 0)
    both = TrainPanel(train, milli_gpu=500, gpu_memory_gib=12, environ=environ)
    assert both.trouble == "Say milli_gpu or gpu_memory_gib, not both: a size, or memory."


def test_the_form_says_its_own_time_limit_until_another_is_chosen(environ: dict[str, str]) -> None:
    panel = TrainPanel(train, environ=environ)
    own = "It may run for 2 hours and then ends, finished or not: choose another time limit if it needs"
    assert panel.settings.startswith(own)
    panel.max_run_s = 14_400
    assert own not in panel.settings


def test_a_refused_size_leaves_no_quota_line_of_another(environ: dict[str, str], api: Any) -> None:
    panel = TrainPanel(train, environ=environ)
    assert panel.quota_line != ""
    api.refusal = httpx.Response(422, json={"error": "Unplaceable", "message": "8 is too much."})
    panel.milli_gpu = 8000

    assert (panel.quota_line, panel.trouble) == ("", "8 is too much.")


def test_a_page_may_only_ask_the_monitor_to_refresh(environ: dict[str, str], api: Any) -> None:
    monitor = GpuMonitor(environ=environ)
    asked = len(api.requests)
    monitor._on_message(monitor, "refresh", [])
    assert len(api.requests) == asked + 1
    monitor._on_message(monitor, {"do": "rm"}, [])
    assert len(api.requests) == asked + 1


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        (None, "no GPU data"),
        ({"compute_percent": None, "memory_used_mib": None}, "no GPU data"),
        ({"compute_percent": 3, "memory_used_mib": None, "memory_limit_mib": 1}, "3 %"),
        (
            {"compute_percent": None, "memory_used_mib": 0, "memory_limit_mib": 2048},
            "0.0 of 2.0 GiB",
        ),
    ],
)
def test_numbers_nobody_knows_are_left_out(sample: Any, text: str) -> None:
    assert describe(None, sample) == text


def test_a_function_of_the_notebook_is_quoted_and_submitted(
    environ: dict[str, str], api: Any
) -> None:
    panel = TrainPanel(train, milli_gpu=2000, environ=environ)
    assert panel.trouble == ""
    assert (panel.target, panel.teams, panel.team) == ("train.ipynb: train()", ["vision"], "vision")
    assert repr(panel) == ("TrainPanel: train.ipynb: train() on 2 GPUs. Inside vision's guarantee.")
    job = panel.submit()
    assert job.name == "digits-7"
    request = api.body("/v1/jobs")
    assert request["roles"][0]["command"][-3:] == ["train.ipynb", "--function", "train"]
    assert request["roles"][0]["milli_gpu"] == 2000
    assert request["team"] == "vision"
    assert api.asked("PUT") == [f"/v1/snapshots/{request['snapshot']}"]
    assert repr(panel) == "TrainPanel: digits-7 is running"


def test_a_script_needs_no_notebook(environ: dict[str, str], tmp_path: Path, api: Any) -> None:
    (tmp_path / "fit.py").write_text("print(1)\n")
    del environ["JPY_SESSION_NAME"]
    TrainPanel(tmp_path / "fit.py", environ=environ).submit()
    assert api.body("/v1/jobs")["roles"][0]["command"] == ["python", "-u", "fit.py"]


def test_a_list_of_values_is_sent_as_one_with_its_files_once(
    environ: dict[str, str], tmp_path: Path, api: Any
) -> None:
    (tmp_path / "fit.py").write_text("print(1)\n")
    panel = TrainPanel(tmp_path / "fit.py", environ=environ)
    with pytest.raises(BadRequest, match="the list is empty"):
        panel.map([])
    with pytest.raises(SchedulerError):  # this fake has no such route
        panel.map([{"lr": 0.1}, {"lr": 0.2}])
    sent = api.body("/v1/sweeps")
    assert sent["given"] == [{"lr": 0.1}, {"lr": 0.2}]
    assert sent["job"]["roles"][0]["command"] == ["python", "-u", "fit.py"]
    assert api.asked("PUT") == [f"/v1/snapshots/{sent['job']['snapshot']}"]


def test_several_workers_get_the_launcher_that_the_script_proposes_until_another_is_chosen(
    environ: dict[str, str], tmp_path: Path, api: Any
) -> None:
    (tmp_path / "fit.py").write_text("import torch.distributed as d\nd.init_process_group()\n")
    assert TrainPanel(environ=environ).launchers == []
    api.requests.clear()
    panel = TrainPanel(tmp_path / "fit.py", workers=2, environ=environ)
    assert panel.proposed == "torchrun, as fit.py (line 2) starts torch.distributed."
    assert panel.launchers[0] == ["auto", "torchrun (proposed)"]
    asked = api.body("/v1/quote")
    assert (asked["roles"][0]["count"], asked["launcher"]) == (2, "torchrun")
    panel.launcher = "mpi"
    assert panel.proposed == ""
    panel.submit()
    sent = api.body("/v1/jobs")
    assert (sent["roles"][0]["count"], sent["launcher"]) == (2, "mpi")


def test_buttons_do_what_python_does(environ: dict[str, str], api: Any) -> None:
    panel = TrainPanel(train, environ=environ)
    panel._on_message(panel, "submit", [])
    assert panel.job["name"] == "digits-7"
    api.job = api.job.model_copy(update={"state": "succeeded"})
    panel._on_message(panel, "refresh", [])
    assert panel.job["state"] == "succeeded"


@pytest.mark.parametrize("message", ["__init__", "close", {"submit": 1}, None, ["submit"]])
def test_no_other_message_does_anything(environ: dict[str, str], api: Any, message: Any) -> None:
    panel = TrainPanel(train, environ=environ)
    asked = len(api.requests)
    panel._on_message(panel, message, [])
    assert len(api.requests) == asked


def test_a_refusal_shows_on_the_form_and_raises_in_python(
    environ: dict[str, str], api: Any
) -> None:
    panel = TrainPanel(train, environ=environ)
    body = {"error": "PolicyRefused", "message": "vision may hold 4."}
    api.refusal = httpx.Response(409, json=body)
    panel._on_message(panel, "submit", [])
    assert panel.trouble == "vision may hold 4."
    with pytest.raises(SchedulerError, match="vision may hold 4"):
        panel.submit()


def test_outside_gpu_commons_the_form_says_so(environ: dict[str, str]) -> None:
    del environ["GPUCOMMONS_URL"]
    panel = TrainPanel(train, environ=environ)
    assert "no GPU Commons scheduler here" in panel.trouble
    with pytest.raises(Unavailable):
        panel.submit()


def _no_argument() -> None:
    """Cannot be resumed."""


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("missing.py", "There is no file 'missing.py'"),
        (json.dumps, "dumps is not a function of this notebook"),
        (lambda folder: None, "is not a function of this notebook"),
        (_no_argument, "must take one argument"),
    ],
)
def test_what_cannot_run_is_said_on_the_form(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, target: Any, sentence: str
) -> None:
    monkeypatch.setattr(_no_argument, "__module__", "__main__")
    panel = TrainPanel(target, environ=environ)
    assert sentence in panel.trouble
    with pytest.raises(Misconfigured):
        panel.submit()


def test_a_kernel_without_notebook_asks_for_its_path(environ: dict[str, str]) -> None:
    path = environ.pop("JPY_SESSION_NAME")
    assert "Pass its path" in TrainPanel(train, environ=environ).trouble
    assert TrainPanel(train, notebook=path, environ=environ).trouble == ""

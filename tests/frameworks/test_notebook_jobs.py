"""jupyter-scheduler itself in a real Jupyter server: its REST API, with our backend behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
from frameworks.own_scheduler import own_scheduler
from free_ports import free_port

from benchmarks.real_scripts import environment
from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.client import SchedulerClient, calls

BESIDE = environment.find(environment.NOTEBOOK_JOBS)
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

CONFIG = """
pools: [{name: train, gpu_kind: A100-40, notice_s: 1, grace_s: 20, hibernation: "off"}]
teams:
- {name: vision, members: [ann], quotas: {train: {}}}
"""
CLASSES = "gpucommons.labextension.notebook_jobs"
PATIENCE_S = 90.0
HALF = "0.5 GPU · team vision"
#: A lead asks for a job of a member, whose results are theirs to fetch.
OF_BOB = """
import asyncio
from types import SimpleNamespace
from gpucommons.labextension.notebook_jobs import backend
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.models import JobRequest

request = JobRequest(team="vision", roles=[{"command": ["true"]}], labels={"notebook": "a.ipynb"})

class Scheduler:
    async def send(self, call):
        if call.path.endswith("/whoami"):
            return SimpleNamespace(name="lena")
        return SimpleNamespace(id="1", name="a-1", owner="bob", request=request)

try:
    asyncio.run(backend._job(Scheduler(), "1"))
except NotFound as error:
    print(error)
"""


class Lab:
    """A client of a server's Notebook Jobs."""

    def __init__(self, http: httpx.Client, root: Path, environ: dict[str, str]) -> None:
        self.http, self.root, self.environ = http, root, environ

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        answer = self.http.request(method, path, json=body, params=query)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def refusal(self, method: str, path: str, body: Any = None) -> str:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == 500
        return str(answer.json()["message"])

    def job(self, job_id: str) -> Any:
        return self.ask("GET", f"jobs/{job_id}")

    def until(self, job_id: str, *states: str) -> Any:
        wait_for(lambda: self.job(job_id)["status"] in states)
        return self.job(job_id)

    def scheduler(self) -> SchedulerClient:
        """Past this server, as the command line asks."""
        url, token = find(Namespace(url=None, state=None), self.environ)
        return SchedulerClient(url, token=token)


def wait_for(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if BESIDE is None:
        pytest.fail(environment.HOW_TO_GET)
    with (
        tempfile.TemporaryDirectory(prefix="gc") as folder,
        own_scheduler(Path(folder), CONFIG) as environ,
    ):
        root = Path(folder, "work")
        root.mkdir()
        port, log = free_port(), Path(folder, "server.log")
        asked = {
            "ServerApp": {
                "port": port, "ip": "127.0.0.1", "root_dir": str(root), "allow_root": True,
                "open_browser": False, "jpserver_extensions": {"jupyter_scheduler": True},
            },
            "IdentityProvider": {"token": "t"},
            "SchedulerApp": {
                "scheduler_class": f"{CLASSES}.backend.GpuScheduler",
                "environment_manager_class": f"{CLASSES}.environments.GpuEnvironments",
            },
            "GpuScheduler": {"job_defaults": {"priority": "high"}},
        }  # fmt: skip
        config = Path(folder, "config")
        config.mkdir()
        (config / "jupyter_server_config.json").write_text(json.dumps(asked))
        places = {"JUPYTER_CONFIG_DIR": str(config), "JUPYTER_DATA_DIR": str(Path(folder, "data"))}
        with log.open("w") as out:
            server = subprocess.Popen(
                [sys.executable, "-m", "jupyter_server"],
                env={**environ, **places, "PYTHONPATH": str(BESIDE)},
                cwd=root, stdout=out, stderr=out,
            )  # fmt: skip
        try:
            headers = {"Authorization": "token t"}
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: server.poll() is not None or _answers(url, headers))
            assert server.poll() is None, log.read_text()
            with httpx.Client(base_url=f"{url}/scheduler/", headers=headers, timeout=60) as http:
                yield Lab(http, root, environ)
        finally:
            server.terminate()
            server.wait(30)
        assert "Unexpected error" not in log.read_text()


def _answers(url: str, headers: dict[str, str]) -> bool:
    try:
        return httpx.get(f"{url}/api/status", headers=headers, verify=trusted_at(url)).is_success
    except httpx.HTTPError:
        return False


def written(lab: Lab, name: str, *cells: str) -> str:
    """A notebook whose first cell has its parameters."""
    first, *others = (nbformat.v4.new_code_cell(source) for source in cells)
    first.metadata["tags"] = ["parameters"]
    notebook = nbformat.v4.new_notebook(cells=[first, *others])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    path = lab.root / name
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return name


def asked(path: str, **fields: Any) -> dict[str, Any]:
    """As the form of Lab sends it."""
    return {
        "name": "My notebook", "input_uri": path, "runtime_environment_name": "default",
        "output_formats": ["ipynb", "html"], "compute_type": HALF, "tags": ["night"],
        "package_input_folder": False, **fields,
    }  # fmt: skip


def test_a_notebook_runs_with_its_parameters_and_its_outputs_are_downloaded(lab: Lab) -> None:
    environments = lab.ask("GET", "runtime_environments")
    assert environments[0]["name"] == "default"
    # This account runs the scheduler: it is in no team, and submits for each.
    sizes = {f"{size} · team vision" for size in ("No GPU", "0.5 GPU", "1 GPU")}
    assert sizes <= set(environments[0]["compute_types"])
    path = written(lab, "first.ipynb", "epochs = 1\nname = 'x'", "print('sum', name, epochs + 1)")
    values = {"epochs": "41", "name": '"a b"'}
    wanted = asked(path, parameters=values, idempotency_token="once")
    job_id, again = (lab.ask("POST", "jobs", wanted)["job_id"] for _ in range(2))
    assert again == job_id
    done = lab.until(job_id, "COMPLETED", "FAILED")
    assert (done["status"], done["name"], done["tags"]) == ("COMPLETED", "My notebook", ["night"])
    assert (done["compute_type"], done["parameters"]) == (
        "0.5 GPU",
        {"epochs": "41", "name": "'a b'"},
    )
    assert not done["downloaded"]
    listed = lab.ask("GET", "jobs", name="My", tags="night", max_items="5")["jobs"]
    assert [one["job_id"] for one in listed] == [job_id]
    assert lab.ask("GET", "jobs/count", status="completed")["count"] == 1
    assert lab.ask("GET", "jobs", name="My", status="FAILED")["total_count"] == 0

    lab.ask("GET", f"jobs/{job_id}/download_files")
    wait_for(lambda: lab.job(job_id)["downloaded"])
    files = {
        one["file_format"]: lab.root / one["file_path"] for one in lab.job(job_id)["job_files"]
    }
    made = nbformat.read(files["ipynb"], as_version=4)
    assert "sum a b 42" in made.cells[-1].outputs[0].text
    assert "sum a b 42" in files["html"].read_text()
    assert files["input"].read_bytes() == (lab.root / path).read_bytes()


def test_a_job_is_stopped_and_put_away(lab: Lab) -> None:
    path = written(lab, "long.ipynb", "x = 1", "import time; time.sleep(600)")
    job_id = lab.ask("POST", "jobs", asked(path))["job_id"]
    lab.until(job_id, "IN_PROGRESS")
    assert "its files come when it is over" in lab.refusal("GET", f"jobs/{job_id}/download_files")
    lab.ask("PATCH", f"jobs/{job_id}", {"status": "STOPPED"})
    lab.until(job_id, "STOPPED")
    lab.ask("DELETE", f"jobs/{job_id}")
    assert job_id not in {one["job_id"] for one in lab.ask("GET", "jobs")["jobs"]}


def test_a_folder_goes_along_where_the_box_is_ticked(lab: Lab) -> None:
    path = written(lab, "sub/reads.ipynb", "x = 1", "print(open('data.txt').read())")
    (lab.root / "sub" / "data.txt").write_text("from beside")
    alone = lab.ask("POST", "jobs", asked(path))["job_id"]
    along = lab.ask("POST", "jobs", asked(path, package_input_folder=True))["job_id"]
    assert lab.until(along, "COMPLETED", "FAILED")["status"] == "COMPLETED"
    failed = lab.until(alone, "COMPLETED", "FAILED")
    assert failed["status"] == "FAILED"
    lab.ask("GET", f"jobs/{alone}/download_files")
    wait_for(lambda: lab.job(alone)["downloaded"])
    made = next(one for one in lab.job(alone)["job_files"] if one["file_format"] == "ipynb")
    assert "FileNotFoundError" in (lab.root / made["file_path"]).read_text()


def test_a_definition_is_a_schedule_that_pauses_goes_on_and_runs_by_hand(lab: Lab) -> None:
    path = written(lab, "nightly.ipynb", "epochs = 1", "print('epochs', epochs)")
    times = {"schedule": "0 2 * * 1-5", "timezone": "Europe/Berlin"}
    wanted = asked(path, name="Nightly run", parameters={"epochs": "2"}, **times)
    del wanted["package_input_folder"]
    one = lab.ask("POST", "job_definitions", wanted)["job_definition_id"]
    place = f"job_definitions/{one}"
    found = lab.ask("GET", place)
    assert {name: found[name] for name in times} == times
    assert (found["name"], found["active"], found["parameters"]) == (
        "Nightly run",
        True,
        {"epochs": "2"},
    )

    lab.ask("PATCH", place, {"active": False})
    changed = {"schedule": "30 3 * * *", "timezone": "UTC", "input_uri": "nightly.ipynb"}
    lab.ask("PATCH", place, changed)
    found = lab.ask("GET", place)
    assert (found["active"], found["schedule"], found["timezone"]) == (False, "30 3 * * *", "UTC")
    lab.ask("PATCH", place, {"active": True})
    assert [
        each["job_definition_id"] for each in lab.ask("GET", "job_definitions")["job_definitions"]
    ] == [one]

    job_id = lab.ask("POST", f"{place}/jobs", {"parameters": {"epochs": "3"}})["job_id"]
    run = lab.until(job_id, "COMPLETED", "FAILED")
    assert (run["status"], run["parameters"], run["job_definition_id"]) == (
        "COMPLETED",
        {"epochs": "3"},
        one,
    )
    assert [each["job_id"] for each in lab.ask("GET", "jobs", job_definition_id=one)["jobs"]] == [
        job_id
    ]
    lab.ask("GET", f"jobs/{job_id}/download_files")
    wait_for(lambda: lab.job(job_id)["downloaded"])
    lab.ask("DELETE", place)
    assert lab.ask("GET", "job_definitions")["total_count"] == 0
    assert lab.job(job_id)["status"] == "COMPLETED"


def test_labels_of_a_job_lead_to_no_other_place(lab: Lab) -> None:
    """They are anybody's words: who submits by the API writes what they like."""
    path = written(lab, "bait.ipynb", "x = 1")
    made = lab.ask("POST", "jobs", asked(path))["job_id"]
    victim, bait = str(lab.root / ".bashrc"), str(lab.root / "theirs")
    with lab.scheduler() as scheduler:
        request = scheduler.send(calls.job(made)).request
        assert request is not None
        hostile = []
        for labels in ({"notebook": victim}, {"notebook": "../work/.bashrc"}, {}):
            led = {**request.labels, **labels, "notebook-definition": bait}
            other = request.model_copy(update={"labels": led})
            hostile.append(scheduler.send(calls.submit(other, key=str(uuid.uuid4()))).id)
    for job_id in hostile:
        assert "is no notebook job" in lab.refusal(
            "GET", f"jobs/{job_id}/download_files?redownload=1"
        )
    assert not {one["job_id"] for one in lab.ask("GET", "jobs")["jobs"]} & set(hostile)


def test_a_job_of_somebody_else_is_not_downloaded_here() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_BOB],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(BESIDE)])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "a-1 belongs to bob: see its own page.\n", done.stderr


def test_what_cannot_be_is_said_in_a_sentence(lab: Lab) -> None:
    path = written(lab, "strict.ipynb", "epochs = 1")
    for wrong, sentence in (
        ({"parameters": {"epoch": "1"}}, "does not know the parameter epoch"),
        ({"input_uri": "../up.log"}, "leads out of this server's folder"),
        ({"input_uri": "gone.ipynb"}, "There is no file 'gone.ipynb'"),
        ({"compute_type": "much"}, "'much' is no size: write No GPU"),
        ({"compute_type": "64 GPU · team vision"}, "64"),
    ):
        assert sentence in lab.refusal("POST", "jobs", asked(path, **wrong))
    definition = asked(path, schedule="at night", timezone="UTC")
    assert "at night" in lab.refusal("POST", "job_definitions", definition)
    assert "Say when" in lab.refusal("POST", "job_definitions", asked(path))
    assert "Not" not in lab.refusal("GET", "jobs/018f0000-0000-7000-8000-000000000001")[:3]

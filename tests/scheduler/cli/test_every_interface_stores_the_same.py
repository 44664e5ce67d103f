"""Command line, YAML, REST, panel and widget: the same wish is the same stored bytes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Cli, WatchedWorld

from gpucommons import labextension
from gpucommons.labextension.submission import Desk, Submission
from gpucommons.labextension.widgets import TrainPanel
from gpucommons.scheduler.client import AsyncSchedulerClient, SchedulerClient, calls
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.executors.local.machine_environments import MachineEnvironments
from gpucommons.scheduler.store.codec import encode

FORM = Path(labextension.__file__).parent / "src" / "testing"
NOTEBOOK = """{"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "torch"}},
"cells": [{"cell_type": "code", "source": "alpha = 1", "metadata": {"tags": ["parameters"]},
"outputs": [], "execution_count": null, "id": "a"}]}"""


@pytest.fixture
def world(tmp_path: Path) -> WatchedWorld:
    made = WatchedWorld(tmp_path)
    environments = MachineEnvironments(
        home_of=lambda _user: tmp_path / "home", account_of=None, environ={}
    )
    made.service = replace(made.service, environments=environments)
    return made


@pytest.fixture
def notebook(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a project with a large file, and a kernel in an environment of its own."""
    project = home / "project"
    project.mkdir()
    with (project / "data.bin").open("wb") as file:
        file.truncate((32 << 20) + 1)
    (project / "train.ipynb").write_text(NOTEBOOK)
    environment = home / "envs" / "torch"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "ipykernel").mkdir()
    (home / "link").symlink_to(environment)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    # It lies in the project too, so it is there before anything is packed.
    (project / "job.yaml").write_text(
        "run: train.ipynb\nname: digits\nenvironment: torch\nparameters: {alpha: 0.5}\n"
        "left_out: link\nmax_run_s: 7200\nroles: [{milli_gpu: 500}]\n"
    )
    return project / "train.ipynb"


def test_all_five_store_the_same_bytes(
    cli: Cli, notebook: Path, home: Path, state: Path, world: WatchedWorld
) -> None:
    url, wish = f"unix:{state / 'api.sock'}", {"name": "digits", "max_run_s": 7200}
    # Its environment is the one that is active in the terminal.
    by_options = cli(
        "submit", str(notebook), "--name", "digits", "--gpus", "½", "--max-run-s", "7200",
        "-p", "alpha", "0.5", "--left-out", "link", "--output", "json",
    )  # fmt: skip
    assert "the environment that is active here" in by_options.err
    by_yaml = cli("submit", "-f", str(notebook.parent / "job.yaml"), "--output", "json")
    found = {
        "options": by_options.json["id"],
        "yaml": by_yaml.json["id"],
        "rest": by_rest(url, notebook, wish, {"milli_gpu": 500}, str(home / "link")),
        "panel": asyncio.run(by_panel(url, home, by_half(wish))),
        "widget": by_widget(url, notebook, milli_gpu=500),
    }
    stored = {interface: spec_of(world, job_id) for interface, job_id in found.items()}
    assert stored == dict.fromkeys(stored, stored["options"])
    assert f'"environment":"{home}/envs/torch"' in stored["rest"]
    assert '"links":["data.bin"]' in stored["rest"]


def test_all_five_store_the_same_bytes_of_memory_and_stops(
    cli: Cli, notebook: Path, home: Path, state: Path, world: WatchedWorld
) -> None:
    url = f"unix:{state / 'api.sock'}"
    stops = {"notice_signal": "SIGUSR1", "exit_after_signal": "success"}
    wish = {"name": "digits", "max_run_s": 7200, **stops}
    yaml = notebook.parent / "job.yaml"
    lines = [f"{name}: {value}\n" for name, value in stops.items()]
    yaml.write_text(yaml.read_text().replace("milli_gpu: 500", "gpu_memory_mib: 12288"))
    yaml.write_text(yaml.read_text() + "".join(lines))
    # What the form sends: its own test holds it to this file.
    sent = (FORM / "submission.json").read_text()
    found = {
        "options": cli(
            "submit", str(notebook), "--name", "digits", "--gpu-memory", "12GiB",
            "--max-run-s", "7200", "-p", "alpha=0.5", "--left-out", "link",
            "--notice-signal", "SIGUSR1", "--exit-after-signal", "success", "--output", "json",
        ).json["id"],
        "yaml": cli("submit", "-f", str(yaml), "--output", "json").json["id"],
        "rest": by_rest(url, notebook, wish, {"gpu_memory_mib": 12_288}, str(home / "link")),
        "panel": asyncio.run(by_panel(url, home, Submission.model_validate_json(sent))),
        "widget": by_widget(url, notebook, gpu_memory_gib=12, **stops),
    }  # fmt: skip
    stored = {interface: spec_of(world, job_id) for interface, job_id in found.items()}
    assert stored == dict.fromkeys(stored, stored["options"])
    for told in (
        '"milli_gpu":500', '"gpu_memory_mib":12288',
        '"notice_signal":"SIGUSR1"', '"exit_after_signal":"success"',
    ):  # fmt: skip
        assert told in stored["rest"]


def spec_of(world: WatchedWorld, job_id: str) -> str:
    """As the store keeps it, but for the name, which is unique."""
    workload = world.store.workload(WorkloadId(job_id))
    assert workload is not None
    return encode(replace(workload.spec, name="digits"))


def by_rest(
    url: str, notebook: Path, wish: dict[str, Any], role: dict[str, Any], environment: str
) -> str:
    job = FileJob(
        root=notebook.parent, path=notebook.name, parameters={"alpha": 0.5}, links_left_out=True
    )
    request, packed = request_for_file(
        job, {**wish, "environment": environment}, role, max_bytes=1 << 20
    )
    with SchedulerClient(url, token="ann-token") as client:
        client.send(calls.put_snapshot(packed.sha256, packed.content))
        return client.send(calls.submit(request)).id


def by_half(wish: dict[str, Any]) -> Submission:
    return Submission(
        path="project/train.ipynb",
        request={**wish, "environment": "", "roles": [{"milli_gpu": 500}]},
        arguments="alpha=0.5",
        left_out="link",
    )


async def by_panel(url: str, home: Path, submission: Submission) -> str:
    async def kernel_spec(_name: str) -> Any:
        return SimpleNamespace(argv=[f"{home}/link/bin/python3", "-m", "ipykernel_launcher"])

    desk = Desk(root=home, home=home, kernel_spec=kernel_spec)
    client = AsyncSchedulerClient(url, token="ann-token")
    try:
        return (await desk.submit(submission, client, key=str(uuid.uuid4()))).id
    finally:
        await client.close()


def by_widget(url: str, notebook: Path, **options: Any) -> str:
    panel = TrainPanel(
        notebook,
        parameters={"alpha": 0.5},
        **options,
        environment="torch",
        left_out="link",
        environ={"GPUCOMMONS_URL": url, "JUPYTERHUB_API_TOKEN": "ann-token"},
    )
    assert panel.trouble == ""
    return panel.submit().id

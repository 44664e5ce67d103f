"""A real tracking server, and runs that a real client logged with what each of our jobs is told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from free_ports import free_port

from benchmarks.real_scripts import environment
from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.labextension.mlflow_runs import Tracking
from gpucommons.scheduler.experiment_trackers import variables
from gpucommons.scheduler.models import AttemptView, JobRequest, JobView

FOUND = environment.find(environment.MLFLOW)
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]

JOB_ID = "018f0000-0000-7000-8000-000000000001"
STARTS_S = 240.0
SCRIPT = """
import mlflow
mlflow.set_experiment("digits")
with mlflow.start_run(run_name="full"):
    mlflow.log_metric("loss", 0.5)
    mlflow.log_text("hello", "note.txt")
with mlflow.start_run(run_name="empty"):
    pass
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if FOUND is None:
        pytest.fail(environment.HOW_TO_GET)
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    options = ["--port", str(port), "--workers", "1"]
    options += ["--backend-store-uri", f"sqlite:///{folder}/db.sqlite"]
    options += ["--artifacts-destination", str(folder / "artifacts")]
    log = folder / "server.log"
    with log.open("w") as out:
        started = subprocess.Popen(
            [FOUND / "bin" / "mlflow", "server", *options],
            cwd=folder,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + STARTS_S
        while not _answers(url):
            assert started.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield url
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", verify=trusted_at(url)).is_success
    except httpx.HTTPError:
        return False


def a_job(url: str) -> JobView:
    env = {"MLFLOW_TRACKING_URI": url}
    request = JobRequest.model_validate({"roles": [{"command": ["true"]}], "env": env})
    attempt = AttemptView(
        id="a1", number=1, state="running", hold_class="over-quota", reserved_ms=1
    )
    return JobView(
        id=JOB_ID, name="digits-7", kind="training", team="vision", owner="ann",
        submitted_by="ann", state="running", pools=[], milli_gpu=0, workers=1, priority="normal",
        over_quota=True, submitted_ms=1, since_ms=1, attempts=[attempt], request=request,
    )  # fmt: skip


def test_runs_of_a_job_are_found_with_what_they_have(server: str, tmp_path: Path) -> None:
    assert FOUND is not None
    told = {**os.environ, "MLFLOW_TRACKING_URI": server}
    python = str(FOUND / "bin" / "python")
    for of in ({}, variables(JOB_ID, 1, {})):  # those of others are not the job's
        done = subprocess.run(
            [python, "-c", SCRIPT],
            env={**told, **of}, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    found = asyncio.run(Tracking(owner="ann", environ={}).runs(a_job(server)))
    assert found is not None
    assert not found.problem
    full, empty = sorted(found.runs, key=lambda run: run.name, reverse=True)
    assert (full.name, full.metrics, full.status) == ("full", 1, "finished")
    assert full.url.startswith(f"{server}/#/experiments/")
    assert (full.metrics_url, full.artifacts_url) == (
        f"{full.url}/model-metrics",
        f"{full.url}/artifacts",
    )
    assert (empty.name, empty.metrics_url, empty.artifacts_url) == ("empty", None, None)

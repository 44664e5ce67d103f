"""What of a tracking server's runs is told, by a server that speaks MLflow's REST API."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gpucommons.labextension.mlflow_runs import TrackedRuns, Tracking
from gpucommons.scheduler.experiment_trackers import variables
from gpucommons.scheduler.models import AttemptView, JobRequest, JobView

JOB_ID = "018f0000-0000-7000-8000-000000000001"
RUN_ID = "0123456789abcdef0123456789abcdef"
URI = "https://ann:s3cret@mlflow.example:5000/base/?x=1"


def job(uri: str | None = URI, owner: str = "ann", **env: str) -> JobView:
    given = {**({} if uri is None else {"MLFLOW_TRACKING_URI": uri}), **env}
    request = JobRequest.model_validate({"roles": [{"command": ["true"]}], "env": given})
    attempt = AttemptView(
        id="a1", number=1, state="running", hold_class="over-quota", reserved_ms=1
    )
    return JobView(
        id=JOB_ID, name="digits-7", kind="training", team="vision", owner=owner,
        submitted_by=owner, state="running", pools=[], milli_gpu=0, workers=1, priority="normal",
        over_quota=True, submitted_ms=1, since_ms=1, attempts=[attempt], request=request,
    )  # fmt: skip


class Mlflow:
    """Answers, and remembers what was asked."""

    def __init__(self, *, files: bool = True, metrics: int = 1, status: int = 200) -> None:
        self.files, self.metrics, self.status = files, metrics, status
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        what = request.url.path.removeprefix("/base/api/2.0/mlflow/")
        info = {"run_id": RUN_ID, "experiment_id": "3", "run_name": "calm-owl", "status": "RUNNING"}
        metrics = [{"key": f"m{number}"} for number in range(self.metrics)]
        answers: dict[str, Any] = {
            "experiments/search": {"experiments": [{"experiment_id": "0"}, {"experiment_id": "3"}]},
            "runs/search": {"runs": [{"info": info, "data": {"metrics": metrics}}]},
            "artifacts/list": {"files": [{"path": "model"}]} if self.files else {},
        }
        return httpx.Response(self.status, json=answers[what])


async def told(
    server: Mlflow, asked: JobView, environ: dict[str, str] | None = None
) -> TrackedRuns | None:
    transport = httpx.MockTransport(server)
    return await Tracking(owner="ann", environ=environ or {}, transport=transport).runs(asked)


async def test_a_run_is_linked_with_what_it_has_and_without_what_logs_in() -> None:
    server = Mlflow()
    found = await told(server, job())
    place = f"https://mlflow.example:5000/base/#/experiments/3/runs/{RUN_ID}"
    assert found is not None
    (run,) = found.runs
    assert (run.url, run.name, run.status) == (place, "calm-owl", "running")
    assert (run.metrics, run.metrics_url) == (1, f"{place}/model-metrics")
    assert run.artifacts_url == f"{place}/artifacts"
    assert "s3cret" not in found.model_dump_json()
    searched = json.loads(server.requests[1].content)
    tag = next(iter(json.loads(variables(JOB_ID, 1, {})["MLFLOW_RUN_CONTEXT"])))
    assert searched["filter"] == f"tags.`{tag}` = '{JOB_ID}'"
    assert all(one.headers["authorization"].startswith("Basic ") for one in server.requests)


async def test_what_a_run_has_not_is_not_linked() -> None:
    found = await told(Mlflow(files=False, metrics=0), job())
    assert found is not None
    assert (found.runs[0].metrics_url, found.runs[0].artifacts_url) == (None, None)


@pytest.mark.parametrize("uri", [None, "databricks", "file:///mlruns", "https://", "http://h:x"])
async def test_nobody_is_asked_where_there_is_no_address(uri: str | None) -> None:
    server = Mlflow()
    assert await told(server, job(uri)) is None
    assert server.requests == []


async def test_others_jobs_send_nobody_anywhere() -> None:
    server = Mlflow()
    assert await told(server, job(owner="bob")) is None
    assert server.requests == []


async def test_what_logs_in_at_the_teams_server_is_told_to_that_one_alone() -> None:
    ours = {"MLFLOW_TRACKING_URI": "https://team.example/base", "MLFLOW_TRACKING_TOKEN": "t0ken"}
    own, other = Mlflow(), Mlflow()
    assert await told(own, job(None), ours) is not None
    assert {one.headers["authorization"] for one in own.requests} == {"Bearer t0ken"}
    assert await told(other, job("https://other.example/base"), ours) is not None
    assert all("authorization" not in one.headers for one in other.requests)


async def test_a_server_that_fails_is_a_sentence() -> None:
    found = await told(Mlflow(status=500), job())
    assert found is not None
    assert found.runs == []
    assert found.problem == (
        "MLflow at https://mlflow.example:5000/base does not answer as it should: its runs are not shown."
    )


def test_a_users_own_tags_stay() -> None:
    assert variables(JOB_ID, 1, {"MLFLOW_RUN_CONTEXT": "{}"}) == {}

"""Runs of MLflow that a job logged, as its tracking server tells them to the job's owner.

Jobs tag their runs by themselves (``MLFLOW_RUN_CONTEXT``). Asked from the owner's notebook server and for
the owner's own jobs alone: the address is whatever a job's environment says, and is no matter of the service's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
from pydantic import Field

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.experiment_trackers import JOB_TAG
from gpucommons.scheduler.models import JobView, View

_URI = "MLFLOW_TRACKING_URI"
_USER, _PASSWORD, _TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"  # fmt: skip
_TIMEOUT_S = 5.0
_MOST_RUNS, _MOST_EXPERIMENTS = 20, 1000


class TrackedRun(View):
    """A run that is there; a page of it is linked where it has something."""

    run_id: str
    name: str
    status: str
    url: str
    #: How many metrics it has, and where they are drawn.
    metrics: int = 0
    metrics_url: str | None = None
    artifacts_url: str | None = None


class TrackedRuns(View):
    """What the tracking server has of a job, or why that is not known."""

    server: str
    runs: list[TrackedRun] = Field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Server:
    """A tracking server: its address without what only its caller may know."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    auth: tuple[str, str] | None = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracking:
    """Asks for the runs of one owner's jobs."""

    owner: str
    #: Of this notebook server: what an admin set for a team holds for its jobs, too.
    environ: Mapping[str, str] = field(repr=False)
    transport: httpx.AsyncBaseTransport | None = None

    async def runs(self, job: JobView) -> TrackedRuns | None:
        """The newest runs; None where nobody said where to ask."""
        request = job.request
        if request is None or job.owner != self.owner or not job.attempts:
            return None
        server = _server(request.env, self.environ)
        if server is None:
            return None
        try:
            async with httpx.AsyncClient(
                base_url=f"{server.url}/api/2.0/mlflow/",
                headers=dict(server.headers),
                auth=server.auth,
                timeout=_TIMEOUT_S,
                trust_env=False,
                verify=trusted_at(server.url),
                transport=self.transport,
            ) as http:
                found = await _search(http, job.id)
                runs = await asyncio.gather(*(_run(http, server.url, one) for one in found))
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
            problem = (
                f"MLflow at {server.url} does not answer as it should: its runs are not shown."
            )
            return TrackedRuns(server=server.url, problem=problem)
        return TrackedRuns(server=server.url, runs=list(runs))


def _server(asked: Mapping[str, str], ours: Mapping[str, str]) -> _Server | None:
    """Where the job logs; else what holds for this server. None where that is no address."""
    env = asked if asked.get(_URI) else ours
    try:
        parts = urlsplit(env.get(_URI, ""))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    # Who may log in is said to the server that it was said for, and to no other.
    known = {**(ours if ours.get(_URI) == env[_URI] else {}), **env}
    place = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{place}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    user = unquote(parts.username or "") or known.get(_USER, "")
    password = unquote(parts.password or "") or known.get(_PASSWORD, "")
    token = known.get(_TOKEN, "")
    headers = {"Authorization": f"Bearer {token}"} if token and not user else {}
    return _Server(url=url, headers=headers, auth=(user, password) if user else None)


async def _ask(http: httpx.AsyncClient, method: str, path: str, **rest: Any) -> Any:
    answer = await http.request(method, path, **rest)
    answer.raise_for_status()
    return answer.json()


async def _search(http: httpx.AsyncClient, job_id: str) -> list[Any]:
    """Its runs, newest first, in whichever experiment they are."""
    asked = {"max_results": _MOST_EXPERIMENTS}
    found = (await _ask(http, "POST", "experiments/search", json=asked)).get("experiments", [])
    if not found:
        return []
    body = {
        "experiment_ids": [one["experiment_id"] for one in found],
        "filter": f"tags.`{JOB_TAG}` = '{job_id}'",
        "max_results": _MOST_RUNS,
    }
    runs: list[Any] = (await _ask(http, "POST", "runs/search", json=body)).get("runs", [])
    return runs


async def _run(http: httpx.AsyncClient, url: str, run: Mapping[str, Any]) -> TrackedRun:
    info, metrics = run["info"], run.get("data", {}).get("metrics", [])
    run_id, experiment = str(info["run_id"]), str(info["experiment_id"])
    files = await _ask(http, "GET", "artifacts/list", params={"run_id": run_id})
    place = f"{url}/#/experiments/{quote(experiment, safe='')}/runs/{quote(run_id, safe='')}"
    return TrackedRun(
        run_id=run_id,
        name=str(info.get("run_name") or run_id),
        status=str(info.get("status", "")).lower(),
        url=place,
        metrics=len(metrics),
        metrics_url=f"{place}/model-metrics" if metrics else None,
        artifacts_url=f"{place}/artifacts" if files.get("files") else None,
    )

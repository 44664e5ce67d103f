"""The page's way to the scheduler: a fixed table of calls, sent with this server's own token.

Nothing of the request's address or headers is passed on. A row names the call, the pattern checks
the parameters, the body must be the call's model: what is not in the table does not exist.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from jupyter_server.auth.decorator import authorized
from pydantic import BaseModel
from tornado import web

from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.scheduler import models
from gpucommons.scheduler.client import (
    calls,
    parking_calls,
    pipeline_calls,
    plan_calls,
    profile_calls,
    report_calls,
    schedule_calls,
    sweep_calls,
)
from gpucommons.scheduler.client.calls import Call
from gpucommons.scheduler.errors import BadRequest, NotFound, SchedulerError
from gpucommons.scheduler.models.jobs.schedules import PromotionRequest

#: What the API appends to a reference: never the name of a job, which ends in a number.
_VERBS = "again|budget|cancel|curve|data|figures|log|outlook|pause|resize|results|resume|stop|why"
_NAME = "[a-z0-9][a-z0-9-]{0,49}"
#: An id or a name, or a name behind its team's.
REF = rf"(?P<ref>{_NAME}(?:/(?!(?:{_VERBS})(?:/|$)){_NAME})?)"
ID = r"(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
#: JupyterLab adds the time to each address, as a name without a value, against browsers' caches.
_STAMP = re.compile(r"[0-9]{13}")
#: A schedule, by its owner's name and its own.
SCHEDULE = rf"schedules/(?P<owner>[^/]{{1,255}})/(?P<name>{_NAME})"
PIPELINE = rf"pipelines/(?P<owner>[^/]{{1,255}})/(?P<name>{_NAME})"
SWEEP = rf"sweeps/{REF}"
#: A profile, by its team's name and its own.
PROFILE = rf"profiles/(?P<owner>{_NAME})/(?P<name>{_NAME})"
_LISTED = frozenset({"team", "owner", "state", "live", "limit", "cursor"})


class Nothing(models.Model):
    """An empty body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a row may use of a request."""

    ref: str = ""
    id: str = ""
    owner: str = ""
    name: str = ""
    query: Mapping[str, str]
    body: Any = None
    #: Makes a repeated request harmless.
    key: str = ""
    server_name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One route."""

    method: str
    pattern: str
    call: Callable[[Asked], Call[Any]]
    body: type[BaseModel] = Nothing


#: How another run loads its data.
_LOADER = {"loader_workers": "0|[1-9][0-9]{0,2}", "loader_prefetch": "[1-9][0-9]{0,2}"}


def _again(asked: Asked) -> Call[models.JobView]:
    here = asked.query.get("from_here", "false")
    numbers = {name: text for name, text in asked.query.items() if name in _LOADER}
    unknown = asked.query.keys() - {"from_here", *_LOADER}
    fits = all(re.fullmatch(_LOADER[name], text) for name, text in numbers.items())
    if unknown or here not in ("true", "false") or not fits:
        message = (
            "A job is run again with from_here true or false, loader_workers and loader_prefetch,"
            " and nothing else."
        )
        raise BadRequest(message)
    loader = None
    if numbers and "loader_workers" not in numbers:
        raise BadRequest(models.LONE_PREFETCH)
    if numbers:
        told = {name.removeprefix("loader_"): int(text) for name, text in numbers.items()}
        loader = models.LoaderOfAnotherRun.model_validate(told)
    return calls.again(asked.ref, key=asked.key, from_here=here == "true", loader=loader)


def _jobs(asked: Asked) -> Call[models.JobList]:
    unknown = asked.query.keys() - _LISTED
    if unknown:
        message = f"There is no filter {min(unknown)!r}; there are: {sorted(_LISTED)}."
        raise BadRequest(message)
    options: dict[str, Any] = dict(asked.query)
    if "limit" in options:
        if not re.fullmatch(r"[0-9]{1,3}", options["limit"]):
            raise BadRequest("limit must be a number from 1 to 999.")
        options["limit"] = int(options["limit"])
    if "live" in options:
        if options["live"] not in ("true", "false"):
            raise BadRequest("live must be true or false.")
        options["live"] = options["live"] == "true"
    return calls.jobs(**options)


def _curve(asked: Asked) -> Call[models.Curve]:
    source = asked.query.get("source")
    if source is not None and not re.fullmatch(r"[a-z]{1,20}", source):
        raise BadRequest("source must be the name of a source, as the curve lists them.")
    return calls.curve(asked.ref, source)


def _outlook(asked: Asked) -> Call[models.CurveOutlook]:
    metric, said = asked.query.get("metric", ""), asked.query.get("goal", "")
    try:
        goal = float(said)
    except ValueError:
        goal = math.nan
    if not metric or not math.isfinite(goal):
        raise BadRequest("An outlook is asked for by metric and goal: metric=accuracy&goal=0.95.")
    return plan_calls.curve_outlook(asked.ref, metric=metric, goal=goal)


def _schedules(asked: Asked) -> Call[models.ScheduleList]:
    if asked.query.keys() - {"cursor"}:
        raise BadRequest("Schedules are listed by cursor, and by nothing else.")
    return schedule_calls.schedules(asked.query.get("cursor"))


def _pipelines(asked: Asked) -> Call[models.PipelineList]:
    if asked.query.keys() - {"cursor"}:
        raise BadRequest("Pipelines are listed by cursor, and by nothing else.")
    return pipeline_calls.pipelines(asked.query.get("cursor"))


def _sweeps(asked: Asked) -> Call[models.SweepList]:
    if asked.query.keys() - {"cursor"}:
        raise BadRequest("Sweeps are listed by cursor, and by nothing else.")
    return sweep_calls.sweeps(asked.query.get("cursor"))


def _schedule_times(asked: Asked) -> Call[models.ScheduleTimes]:
    if asked.query.keys() != {"schedule", "time_zone"}:
        raise BadRequest("Times are asked for by schedule and time_zone.")
    return schedule_calls.schedule_times(asked.query["schedule"], asked.query["time_zone"])


TABLE = (
    Row(method="GET", pattern="whoami", call=lambda _: calls.whoami()),
    Row(method="GET", pattern="environments", call=lambda _: calls.environments()),
    Row(method="GET", pattern="offers", call=lambda a: calls.offers(server_name=a.server_name)),
    Row(method="GET", pattern="pools", call=lambda _: calls.pools()),
    Row(method="GET", pattern="teams", call=lambda _: calls.teams()),
    Row(method="GET", pattern="jobs", call=_jobs),
    Row(method="GET", pattern=f"jobs/{REF}", call=lambda a: calls.job(a.ref)),
    Row(method="GET", pattern=f"jobs/{REF}/curve", call=_curve),
    Row(method="GET", pattern="notifications", call=lambda _: report_calls.notifications()),
    Row(method="GET", pattern="lease", call=lambda a: calls.my_lease(a.server_name)),
    Row(method="GET", pattern="pipelines", call=_pipelines),
    Row(
        method="GET",
        pattern=PIPELINE,
        call=lambda a: pipeline_calls.pipeline(a.owner, a.name),
    ),
    Row(
        method="POST",
        pattern=f"{PIPELINE}/retry",
        call=lambda a: pipeline_calls.retry_pipeline(a.owner, a.name, a.body.step),
        body=models.StepRef,
    ),
    Row(
        method="POST",
        pattern=f"{PIPELINE}/cancel",
        call=lambda a: pipeline_calls.cancel_pipeline(a.owner, a.name, a.body.step),
        body=models.StepRef,
    ),
    Row(method="GET", pattern="profiles", call=lambda _: profile_calls.profiles()),
    Row(
        method="POST",
        pattern=PROFILE,
        call=lambda a: profile_calls.put_profile(a.owner, a.name, a.body),
        body=models.ProfileRequest,
    ),
    Row(
        method="POST",
        pattern=f"{PROFILE}/remove",
        call=lambda a: profile_calls.drop_profile(a.owner, a.name),
    ),
    Row(method="GET", pattern="sweeps", call=_sweeps),
    Row(method="GET", pattern=f"{SWEEP}/figures", call=lambda a: sweep_calls.sweep_figures(a.ref)),
    Row(method="GET", pattern=SWEEP, call=lambda a: sweep_calls.sweep(a.ref)),
    Row(method="POST", pattern=f"{SWEEP}/stop", call=lambda a: sweep_calls.stop_sweep(a.ref)),
    Row(
        method="POST",
        pattern=f"{SWEEP}/budget",
        call=lambda a: sweep_calls.add_to_budget(a.ref, a.body, key=a.key),
        body=models.MoreBudgetRequest,
    ),
    Row(method="GET", pattern="schedules", call=_schedules),
    Row(method="GET", pattern="schedule-times", call=_schedule_times),
    Row(
        method="GET",
        pattern=SCHEDULE,
        call=lambda a: schedule_calls.schedule(a.owner, a.name),
    ),
    *(
        Row(
            method="POST",
            pattern=f"{SCHEDULE}/{verb}",
            call=lambda a, call=call: call(a.owner, a.name),  # type: ignore[misc] # bound now
        )
        for verb, call in {
            "run": schedule_calls.run_schedule,
            "suspend": schedule_calls.suspend_schedule,
            "resume": schedule_calls.resume_schedule,
            "remove": schedule_calls.drop_schedule,
        }.items()
    ),
    Row(
        method="POST",
        pattern=f"{SCHEDULE}/promote",
        call=lambda a: schedule_calls.promote_schedule(a.owner, a.name, a.body),
        body=PromotionRequest,
    ),
    Row(
        method="POST",
        pattern="jobs",
        call=lambda a: calls.submit(a.body, key=a.key),
        body=models.JobRequest,
    ),
    Row(
        method="POST",
        pattern="quote",
        call=lambda a: calls.quote_job(a.body),
        body=models.JobRequest,
    ),
    Row(method="POST", pattern=f"jobs/{REF}/cancel", call=lambda a: calls.cancel(a.ref)),
    Row(method="POST", pattern=f"jobs/{REF}/pause", call=lambda a: calls.pause(a.ref)),
    Row(method="POST", pattern=f"jobs/{REF}/resume", call=lambda a: calls.resume(a.ref)),
    Row(
        method="POST",
        pattern=f"jobs/{REF}/resize",
        call=lambda a: calls.resize_job(a.ref, a.body),
        body=models.JobSize,
    ),
    Row(method="POST", pattern=f"jobs/{REF}/again", call=_again),
    Row(method="GET", pattern=f"jobs/{REF}/outlook", call=_outlook),
    Row(method="GET", pattern="advise/together", call=lambda _: plan_calls.waiting_together()),
    Row(method="GET", pattern=f"jobs/{REF}/data", call=lambda a: plan_calls.data_advice(a.ref)),
    Row(
        method="POST",
        pattern=f"jobs/{REF}/data",
        call=lambda a: plan_calls.choose_loader(a.ref, a.body),
        body=models.LoaderSettings,
    ),
    Row(
        method="POST",
        pattern=f"leases/{ID}/keep",
        call=lambda a: calls.keep(a.id, a.body),
        body=models.KeepRequest,
    ),
    Row(method="POST", pattern=f"leases/{ID}/drop", call=lambda a: calls.drop(a.id)),
    Row(
        method="POST",
        pattern=f"leases/{ID}/hibernate",
        call=lambda a: calls.hibernate(a.id, models.HibernateRequest()),
    ),
    Row(
        method="POST",
        pattern=f"leases/{ID}/park",
        call=lambda a: parking_calls.park(a.id, models.ParkRequest()),
    ),
    Row(
        method="POST",
        pattern=f"leases/{ID}/on-idle",
        call=lambda a: calls.choose_on_idle(a.id, a.body),
        body=models.OnIdleRequest,
    ),
)


def find(method: str, segments: list[str]) -> tuple[Row, dict[str, str]]:
    """The row for a request.

    Raises
    ------
    NotFound
        When the table has none.
    """
    path = "/".join(segments)
    for row in TABLE:
        match = re.fullmatch(row.pattern, path)
        if row.method == method and match is not None:
            return row, match.groupdict()
    message = f"There is no {method} {path} here."
    raise NotFound(message)


class ProxyHandler(ApiHandler):
    """Every route of the table."""

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Read."""
        await self._pass_on("GET", path)

    @web.authenticated
    @authorized
    async def post(self, path: str) -> None:
        """Change something: the server's owner only."""
        await self._pass_on("POST", path)

    async def _pass_on(self, method: str, path: str) -> None:
        try:
            if method != "GET":
                self.require_owner()
            row, parameters = find(method, [unquote(segment) for segment in path.split("/")])
            query = {
                name: self.get_query_argument(name)
                for name in self.request.query_arguments
                if not _STAMP.fullmatch(name)
            }
            asked = Asked(
                **parameters,
                query=query,
                body=self.body_as(row.body) if method != "GET" else None,
                key=self.idempotency_key(),
                server_name=self.parts.context.server_name,
            )
            view = await self.scheduler().send(row.call(asked))
        except SchedulerError as error:
            self.refuse(error)
            return
        if isinstance(view, models.JobView):
            # What this server has fetched, nobody else knows.
            view = await asyncio.to_thread(self.parts.results.told, view)
        self.answer(view)
        if method != "GET" and row.pattern != "quote":
            await self.show_soon()

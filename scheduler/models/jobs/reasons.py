"""Why something waits: the same for a job and for a ticket."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View
from gpucommons.scheduler.models.jobs.attempts import WayToGoOnView


class BlockerView(View):
    """What alone is in the way, and what the person can do about it."""

    #: ``idle-notebook``, ``ticket``, ``job``: the own ones; ``team-notebook``: a team-mate's.
    kind: str
    #: "Your own notebook, idle when last checked, holds ½ GPU: without that this would start now."
    text: str
    #: What the one who waits may do: ``release`` a lease, ``leave`` a ticket, ``pause`` a job;
    #: None where somebody else is to be asked.
    action: str | None = None
    #: Of the lease or the job.
    id: str
    #: The same on the command line; empty where there is nothing to do oneself.
    command: str = ""


class ReasonView(View):
    """Why something waits."""

    code: str
    text: str
    unblock: str | None = None
    startable_milli_gpu: int | None = None
    blocker: BlockerView | None = None


class ForecastView(View):
    """When a wait is likely to end: a window of lengths from ``made_ms``, or why there is none."""

    made_ms: int
    from_ms: int | None = None
    to_ms: int | None = None
    #: Of ten past windows of such waits, so many were right; None before that can be said.
    right_of_ten: int | None = None
    #: What the window rests on: ``known``; ``thin``: typical run times, with few runs to judge by;
    #: ``wrong``: windows were wrong too often lately, so it is wider.
    basis: str = "known"
    #: The window in a few words: "10–25 min", "between 5 min and 3 h"; empty without one.
    span: str = ""
    #: How far it is to be trusted: "few jobs to judge by", "past estimates right 8 of 10".
    note: str = ""
    #: Why there is no window: ``history``, ``not-in-sight``, ``never``, ``nodes``, ``policy``.
    unknown: str | None = None
    #: Where little is known and a time limit says so: it starts within this length at the latest.
    at_latest_ms: int | None = None
    #: All of it in one sentence.
    text: str
    #: Changes with which it would start now, one sentence each.
    ways: list[str] = []


class WayView(View):
    """One change with which a waiting workload would start now; the changed field is set."""

    #: "Would start now with 2 GPUs."
    text: str
    #: False: others would be stopped for it first.
    at_once: bool
    milli_gpu: int | None = None
    workers: int | None = None
    gpu_kind: str | None = None
    pool: str | None = None
    priority: str | None = None
    over_quota: bool | None = None


class Why(View):
    """Why a workload is where it is, when that is likely to end, and what would change it."""

    id: str
    name: str
    state: str
    text: str
    reason: ReasonView | None = None
    position: int | None = None
    forecast: ForecastView | None = None
    ways: list[WayView] = []
    #: When it starts if nothing ends before its time limit; None where something has no limit.
    at_latest_ms: int | None = None
    #: How a job that ran goes on, and what a stop now costs.
    way_to_go_on: WayToGoOnView | None = None

"""What reports draw: days, weeks, and GPUs allocated beside GPUs used over time."""

from __future__ import annotations

from typing import Literal

from gpucommons.scheduler.models.fields import View


class ReportDay(View):
    """One day of a report, UTC, in milli-GPU·hours."""

    from_ms: int
    held_milli_gpu_h: int
    used_milli_gpu_h: int | None = None
    idle_milli_gpu_h: int
    borrowed_milli_gpu_h: int
    lost_milli_gpu_h: int
    #: All GPUs that were there; None where it is not known, or not all teams are seen.
    there_milli_gpu_h: int | None = None


class FinishedWeek(View):
    """A week from Monday on, UTC; the last one may not be over."""

    from_ms: int
    to_ms: int
    #: Jobs that succeeded, each trial of a sweep, too.
    finished: int
    #: What all held in it, notebooks too, in milli-GPU·hours.
    held_milli_gpu_h: int


class UsePoint(View):
    """Means of a step, in milli-GPU; None = not known, which is not zero."""

    from_ms: int
    #: Reserved, used or not.
    allocated_milli_gpu: int | None = None
    #: Allocated, times how much it computed; None where nothing was measured.
    used_milli_gpu: int | None = None
    #: GPUs of the pools, or quota of the teams.
    there_milli_gpu: int | None = None


class UseLine(View):
    """Points of all that was asked for, of one team or of one pool."""

    of: Literal["all", "team", "pool"]
    name: str = ""
    points: list[UsePoint]


class SampleView(View):
    """Whether numbers are the demo's sample data, and whether it has some."""

    is_sample: bool = False
    has_sample: bool = False


class UseMark(View):
    """Something that was changed meanwhile."""

    at_ms: int
    text: str


class Utilisation(SampleView):
    """Allocated beside used over time."""

    from_ms: int
    to_ms: int
    #: How long a point lasts: longer, the longer the span.
    step_ms: int
    #: The ledger keeps minutes for so many days; None = for ever.
    kept_days: int | None
    #: Whether `there` counts quotas of teams, and not all GPUs of pools.
    of_quotas: bool
    #: What can be chosen.
    pools: list[str]
    teams: list[str]
    #: The first is of all that was asked for.
    lines: list[UseLine]
    marks: list[UseMark]
    weeks: list[FinishedWeek]

"""Pipelines: as people write them, and as everyone sees them."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from gpucommons.scheduler.models.fields import (
    Argument,
    EnvName,
    Model,
    Name,
    RelativePath,
    View,
)
from gpucommons.scheduler.models.jobs.jobs import JobRequest

#: As many as one page can show.
MAX_STEPS = 100


class InputRequest(Model):
    """A file or folder of another step's results, for this one to read."""

    step: Name
    #: Below that step's working folder.
    path: RelativePath
    #: Below this step's; left out: ``inputs/STEP/PATH``.
    to: RelativePath | None = None


class StepRequest(Model):
    """One step: a job, and what it needs."""

    name: Name
    job: JobRequest
    #: Other steps, and what must have become of them: ``ok``, ``any`` end, or ``failed``.
    after: dict[Name, Literal["ok", "any", "failed"]] = Field(default_factory=dict, max_length=64)
    #: Each waits for its step to succeed.
    inputs: list[InputRequest] = Field(default_factory=list, max_length=64)
    #: One step for each combination, which finds its values as environment variables.
    each: dict[EnvName, list[Argument]] = Field(default_factory=dict, max_length=8)

    @property
    def combinations(self) -> int:
        """Of its values: as many steps are made of it."""
        return math.prod(len(values) for values in self.each.values())


class PipelineRequest(Model):
    """Jobs that belong together."""

    #: Base of the readable name; the scheduler numbers it (``assembly`` → ``assembly-3``).
    name: Name
    #: Who pays, where a step's job does not say; needed only by members of several teams.
    team: Name | None = None
    steps: list[StepRequest] = Field(min_length=1, max_length=MAX_STEPS)


class StepRef(Model):
    """A step of a pipeline; left out: all that it can mean."""

    step: Name | None = None


class InputView(View):
    """What a step reads of another."""

    step: str
    path: str
    to: str


class StepView(View):
    """A step, and how far it is."""

    name: str
    #: ``waiting``, ``submitted``, ``succeeded``, ``failed``, ``cancelled``, ``refused``, ``blocked``,
    #: ``skipped``.
    state: str
    #: Why it waits, is blocked or was refused.
    text: str = ""
    #: What runs, in a few words.
    what: str
    after: dict[str, str] = {}
    inputs: list[InputView] = []
    #: How often it was begun anew.
    retries: int = 0
    job_id: str | None = None
    job_name: str = ""
    #: Of its job, as an own page of it shows it.
    job_state: str | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    ended_text: str = ""
    #: Which files it ran from, with its inputs: the same hash, the same bytes.
    version: str | None = None


class PipelineView(View):
    """A pipeline and all of its steps."""

    name: str
    #: Empty where the viewer may not know.
    owner: str
    team: str
    #: ``running``, ``succeeded``, ``failed``, ``cancelled``.
    state: str
    submitted_ms: int
    ended_ms: int | None = None
    #: Each behind those that it needs.
    steps: list[StepView]
    #: No real GPUs stand behind those that some of its steps may get.
    simulated: bool = False
    #: The first step that a retry begins anew.
    retry_from: str | None = None
    #: Whether it is the viewer's own, who alone retries it.
    mine: bool = False
    #: Whether the viewer may cancel it.
    steerable: bool = False


class PipelineList(View):
    """Pipelines, newest first; ``cursor`` asks for the next page, None = there is none."""

    pipelines: list[PipelineView]
    cursor: str | None = None

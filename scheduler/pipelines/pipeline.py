"""What is stored of a pipeline: what its owner wrote, and how far its steps are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import PolicyRefused

#: A lowercase UUIDv7.
PipelineId = NewType("PipelineId", str)
#: Unique in its pipeline.
StepName = NewType("StepName", str)


class Needs(StrEnum):
    """What must have become of a step before another runs."""

    #: It succeeded.
    OK = "ok"
    #: It is over, however it ended, or will not run.
    ANY = "any"
    #: It failed, or another did that is waited for in this way.
    FAILED = "failed"


class StepState(StrEnum):
    """How far a step is."""

    #: Something that it needs is not over.
    WAITING = "waiting"
    #: Its job is stored and not over.
    SUBMITTED = "submitted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    #: Its job was refused.
    REFUSED = "refused"
    #: What it needs did not come about; a retry of that may bring it.
    BLOCKED = "blocked"
    #: It runs only where another fails, and that one did not.
    SKIPPED = "skipped"


#: Nothing more becomes of it by itself.
OVER = frozenset(StepState) - {StepState.WAITING, StepState.SUBMITTED}
#: A retry begins it anew.
UNDONE = OVER - {StepState.SUCCEEDED, StepState.SKIPPED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """A file or folder of another step's results."""

    step: StepName
    #: Below that step's working folder.
    path: str
    #: Below this step's.
    to: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One job."""

    name: StepName
    #: A request of the API, with its files and environment as they were when this was made.
    request: str
    snapshot: str | None = None
    after: Mapping[StepName, Needs] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """What its owner wrote."""

    pipeline_id: PipelineId
    #: Unique among its owner's: ``assembly-3``.
    name: str
    owner: UserName
    team: TeamName
    submitted_ms: Millis
    #: Each stands behind those that it needs.
    steps: tuple[Step, ...]
    #: How often a step was begun anew, where it was.
    retried: Mapping[StepName, int] = field(default_factory=dict)
    #: Steps that are to run no more, in the try that they are in.
    cancelled: frozenset[StepName] = frozenset()
    by_operator: bool = False
    #: The notebook server that it was written from, whose image its jobs may have.
    server: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStanding:
    """Where a step stands, as it was seen last."""

    state: StepState = StepState.WAITING
    #: In which try: 0 is the first.
    number: int = 0
    job: WorkloadId | None = None
    #: The job's readable name.
    job_name: str = ""
    #: Why it waits, is blocked or was refused, for people.
    text: str = ""
    #: How often in a row its job could not be submitted yet, and when that is tried again.
    tries: int = 0
    again_ms: Millis = Millis(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where all steps stand."""

    steps: Mapping[StepName, StepStanding] = field(default_factory=dict)
    #: Since when all of them are over.
    ended_ms: Millis | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Piped:
    """A pipeline and where it stands."""

    pipeline: Pipeline
    standing: Standing = Standing()


def too_many(count: int) -> PolicyRefused:
    """The refusal of one more."""
    message = f"You have {count} pipelines that are not over, as many as one may: cancel one."
    return PolicyRefused(message)

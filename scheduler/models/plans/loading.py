"""Whether a job waits for its data, what would help, and what was chosen for its next attempt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpucommons.scheduler.models.fields import Model, View

#: Also of what was measured: nothing is advised that cannot be chosen.
MOST_LOADERS = 1024
LONE_PREFETCH = "loader_prefetch goes with loader_workers: how many processes load that far ahead."


class LoaderSettings(Model):
    """How torch's loaders of a job are set before their first batch, from its next attempt on."""

    #: Processes that load, for each training process; 0 = none, None = as the script says again.
    workers: int | None = Field(default=None, strict=True, ge=0, le=MOST_LOADERS)
    #: Batches that each of them has ready.
    prefetch: int = Field(default=2, strict=True, ge=1, le=MOST_LOADERS)


class LoaderOfAnotherRun(LoaderSettings):
    """How torch's loaders of another run are set; where nothing is, they are as those of the run before."""

    workers: int = Field(strict=True, ge=0, le=MOST_LOADERS)


class LoaderChoiceView(View):
    """What somebody chose."""

    workers: int
    prefetch: int
    by: str
    at_ms: int
    #: The newest attempt began with it.
    in_force: bool


class LoadingHintView(View):
    """One thing that its owner can do."""

    #: ``cores``, ``node``, ``stream``, ``loader``, ``keras``, ``keras_dataset``, ``cache``, ``remote`` or ``far``.
    kind: str
    #: What stands in its sentence, for other languages.
    values: list[str] = []
    text: str


class DataAdvice(View):
    """How the newest attempt that told it waits for its data. Nothing is set by it."""

    verdict: Literal["unknown", "fine", "busy", "bound"]
    #: Its script ran: what it did not tell then, it reports nothing of.
    has_started: bool = True
    #: Number of that attempt, and how many of its newest batches were timed.
    attempt: int | None = None
    batches: int = 0
    #: From one batch to the next, and of that the wait for it, in milliseconds.
    batch_ms: float = 0.0
    wait_ms: float = 0.0
    #: Of the GPUs; None where it was not measured.
    gpu_percent: int | None = None
    #: As it loads now; None where its loader does not say so.
    workers: int | None = None
    prefetch: int | None = None
    #: For the next attempt; None where nothing is to be set.
    advised: LoaderSettings | None = None
    #: From one batch to the next with that, likely between these.
    low_ms: float = 0.0
    high_ms: float = 0.0
    hints: list[LoadingHintView] = []
    chosen: LoaderChoiceView | None = None
    #: Somebody who may steer it can set it: the job is not over.
    can_choose: bool = False
    #: All of it in words, with its source.
    text: str

"""One run of a job: what it reports with its own token, and what is seen of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler.models.fields import Model, RelativePath, Sha256, View
from gpucommons.scheduler.models.plans.loading import MOST_LOADERS

#: Finite numbers only: JSON has no others. The length is no part of the pattern: that would be compiled for
#: milliseconds, in each model anew.
Metrics = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[\w .:/-]+$", max_length=64)],
        Annotated[float, Field(allow_inf_nan=False)],
    ],
    Field(max_length=64),
]


class CheckpointView(View):
    """The newest complete checkpoint."""

    step: int
    size_bytes: int
    at_ms: int
    #: What the step counts, where another job saved it; else as this job's progress says.
    unit: str = ""


class ProgressView(View):
    """How far it is, as it was told last."""

    step: int
    total_steps: int | None = None
    metrics: dict[str, float] = {}
    at_ms: int
    #: ``report`` (the script itself), ``trainer``, ``tensorboard`` or ``log``.
    source: str = "report"
    #: What steps count (``epoch``, ``round``, …), where the source says so.
    unit: str = ""


class StopView(View):
    """An announced stop."""

    why: str
    text: str
    announced_ms: int
    term_ms: int
    kill_ms: int
    #: Sent with the announcement; empty where nothing is.
    notice_signal: str = ""


class TightnessView(View):
    """How tightly the GPUs of an attempt lie together, as far as that is known."""

    gpus: int
    nodes: int
    #: Of those on several nodes; None where a node's rack is not known.
    racks: int | None = None
    #: Of those on one node the farthest link: ``nvlink``, ``switch``, ``socket``, ``node``; "" = not known.
    link: str = ""
    #: "2 GPUs on one node, linked by NVLink".
    text: str


class SlowPlaceView(View):
    """The same steps take longer where an attempt runs, as jobs that ran there told."""

    #: One node, or two together.
    nodes: list[str]
    percent: int
    since_ms: int
    #: Until then another of equal nodes is taken; of pairs, others are looked for first.
    until_ms: int


class AttemptView(View):
    """One run of a job."""

    id: str
    number: int
    state: str
    hold_class: str
    node: str | None = None
    nodes: list[str] = []
    #: Versions of its GPUs' driver; "" among them where a node told none.
    drivers: list[str] = []
    #: None where it has fewer than two GPUs.
    tightness: TightnessView | None = None
    #: Of one that holds its place now.
    slow: list[SlowPlaceView] = []
    milli_gpu: int = 0
    #: Workers of its first role.
    workers: int = 1
    #: How many times faster it is than the attempt before, where that had another number of workers
    #: and both reported how far they were; None = not measured.
    times_faster: float | None = None
    reserved_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    ended_text: str | None = None
    resumed_from_step: int | None = None
    #: How many files it changed in its working folder that the next attempt finds; None = not known.
    files_kept: int | None = None
    #: Size of the processes that were saved when it was stopped.
    image_bytes: int | None = None
    #: Number of the attempt from whose saved processes it was woken.
    woken_from: int | None = None
    #: What became of saving and waking, where there is something to say: "woken from attempt 1".
    hibernation_text: str = ""
    stop: StopView | None = None


def newest_life(attempts: Sequence[AttemptView]) -> list[int]:
    """Numbers of the newest attempt that ran and of those from whose memory it goes on, oldest first.

    What they printed is one log: the processes were the same.
    """
    by_number = {one.number: one for one in attempts if one.started_ms}
    number = max(by_number, default=0)
    found: list[int] = []
    while number in by_number and number not in found:
        found.append(number)
        number = by_number[number].woken_from or 0
    return found[::-1]


class DrillView(View):
    """What a job's last stop has shown, or is to show: whether it goes on where it was."""

    #: ``testing``: it is being stopped, or is to go on; ``passed``, ``failed``; ``untold``: what it says
    #: does not show where it began.
    state: Literal["testing", "passed", "failed", "untold"]
    #: "Tested: stops and goes on at step 200 (41 s)."
    text: str
    #: Stopped for that alone.
    on_purpose: bool
    step: int | None = None
    unit: str = ""
    went_on_step: int | None = None
    took_ms: int | None = None


class WayToGoOnView(View):
    """What becomes of a job's work when it is stopped, as far as that is known."""

    #: Strongest first.
    way: Literal["checkpoint", "process_image", "working_folder", "start_over"]
    #: "goes on from step 5,430"
    text: str
    #: Of the checkpoint.
    step: int | None = None
    #: What a stop now costs: "Starts over when resumed: 12 min of work is lost."
    stop_text: str
    #: So much work a stop now would have repeated, at most; None where nothing runs.
    repeats_ms: int | None = None
    #: How often it began from the start although it had run before.
    began_anew: int = 0
    #: The same in words; empty where it never did.
    began_anew_text: str = ""
    #: The reason for which it waits tells this way already.
    in_reason: bool = False


class LoadingReport(Model):
    """How long a training process waits for its data, over its newest batches."""

    batches: int = Field(strict=True, ge=1, le=1_000_000)
    #: Means, in millionths of a second: from one batch to the next, and of that the wait for it.
    batch_us: int = Field(strict=True, ge=1, le=2**53)
    wait_us: int = Field(strict=True, ge=0, le=2**53)
    late_percent: int = Field(default=0, strict=True, ge=0, le=100)
    workers: int | None = Field(default=None, strict=True, ge=0, le=MOST_LOADERS)
    #: Batches that each worker has ready.
    prefetch: int | None = Field(default=None, strict=True, ge=1, le=MOST_LOADERS)
    cores: int | None = Field(default=None, strict=True, ge=1, le=100_000)
    #: That train on the same machine, each with a loader of its own.
    processes: int = Field(default=1, strict=True, ge=1, le=10_000)
    stream: bool = Field(default=False, strict=True)
    samples: int | None = Field(default=None, strict=True, ge=0, le=2**53)
    #: What one sample takes once it is loaded.
    sample_bytes: int | None = Field(default=None, strict=True, ge=1, le=2**53)
    batch_samples: int | None = Field(default=None, strict=True, ge=1, le=2**53)
    file_system: Annotated[str, StringConstraints(pattern=r"^[\w.-]*$", max_length=32)] = ""
    #: The library that made the loader; of a ``PyDataset`` of Keras the workers are its own.
    made_by: Literal["", "keras", "keras_dataset"] = ""

    @model_validator(mode="after")
    def _waits_within_a_batch(self) -> Self:
        if self.wait_us > self.batch_us:
            raise ValueError("wait_us is a part of batch_us, so it cannot be more.")
        return self


class ProgressReport(Model):
    """A training process tells how far it is."""

    step: int = Field(strict=True, ge=0, le=2**53)
    total_steps: int | None = Field(default=None, strict=True, ge=0, le=2**53)
    metrics: Metrics = Field(default_factory=dict)
    #: Left out: it did not measure how it waits for its data.
    loading: LoadingReport | None = None


class ReadPoint(Model):
    """One step of a curve that was read where the attempt runs."""

    step: int = Field(strict=True, ge=0, le=2**53)
    metrics: Metrics


class CurveReport(Model):
    """Points that were read from TensorBoard's event files in the working folder."""

    source: Literal["tensorboard"] = "tensorboard"
    points: list[ReadPoint] = Field(min_length=1, max_length=500)


class TrainerMetric(View):
    """A number as text, as the protocol has it."""

    name: Annotated[str, StringConstraints(max_length=256)]
    value: Annotated[str, StringConstraints(max_length=64)]


class TrainerStatus(View):
    """What a trainer says of itself in Kubeflow's progress protocol; the names are the protocol's."""

    progressPercentage: int | None = Field(default=None, ge=0, le=100)  # noqa: N815
    metrics: list[TrainerMetric] = Field(default_factory=list, max_length=256)


class TrainerStatusReport(View):
    """The protocol's envelope. What a later version adds is passed over."""

    trainerStatus: TrainerStatus  # noqa: N815


class CheckpointReport(Model):
    """A complete checkpoint lies in the attempt's folder, under its final name."""

    step: int = Field(strict=True, ge=0, le=2**53)
    path: RelativePath
    size_bytes: int = Field(strict=True, ge=0, le=2**53)
    sha256: Sha256


class AttemptOrders(View):
    """What the scheduler wants of the attempt: an announced stop, if any."""

    stop: StopView | None = None

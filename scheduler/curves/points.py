"""What is read of a run, whatever it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: Whoever prints more names than this prints a table of something else.
MAX_NAMES = 16
#: Longer names are cut where they are read.
MAX_NAME_CHARACTERS = 64
#: Fractions of an epoch are counted in so many parts.
EPOCH_PARTS = 1000


class Source(StrEnum):
    """Where a curve comes from; the first that has points is the one to show."""

    #: The script's own reports, with ``run.report``.
    REPORT = "report"
    #: What a trainer posts by itself (Kubeflow's progress protocol).
    TRAINER = "trainer"
    TENSORBOARD = "tensorboard"
    LOG = "log"


class Unit(StrEnum):
    """What a curve's steps count."""

    STEP = "step"
    EPOCH = "epoch"
    #: Examples that were seen.
    SAMPLE = "sample"
    #: Of boosting.
    ROUND = "round"
    TRIAL = "trial"
    #: Of the whole run.
    PERCENT = "percent"
    #: Nothing that is printed: which one of the lines with a metric it was.
    LINE = "line"


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """How far a run is."""

    unit: Unit
    #: What is stored as the step: whole epochs as they are, fractions of one in thousandths.
    step: int
    total: int | None = None
    #: In epochs, where that is known.
    epoch: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Metrics at one step."""

    counter: Counter
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def stored(self) -> dict[str, float]:
        """The metrics as a curve keeps them: the epoch is one of them."""
        epoch = self.counter.epoch
        return {**self.metrics} if epoch is None else {**self.metrics, "epoch": epoch}

"""One question to the advisor, with what this cluster says to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.scaling import Seen
from gpucommons.scheduler.core.model.types import Millis, Spec
from gpucommons.scheduler.service.advice.places import Place
from gpucommons.scheduler.service.advice.waits import Size, Wait
from gpucommons.scheduler.store.plans.base import JudgedRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Like:
    """Where a training belongs among those that were run, and those that may be compared with it."""

    team: str
    #: Image or environment that it would run in.
    environment: str
    signature: str
    family: str
    #: Which network, whatever its batch.
    network: str = ""
    runs: tuple[JudgedRun, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """A request, where it could run, and what quotes say of that."""

    request: models.AdviceRequest
    places: tuple[Place, ...]
    #: Why nothing is said of other pools.
    notes: tuple[str, ...]
    #: None: only the forecast can say.
    quoted: Mapping[Size, Wait | None]
    now_ms: Millis
    like: Like
    #: Of a training that is not known: by pool, what its steps took on that kind of GPU.
    seen: Mapping[str, Sequence[Seen]] = field(default_factory=dict)
    #: Of the prices; "" where there are none.
    currency: str = ""

    @property
    def specs(self) -> dict[Size, Spec]:
        """What a submit of each size would be."""
        return {
            (place.name, gpus): spec for place in self.places for gpus, spec in place.specs.items()
        }

    def place(self, name: str) -> Place:
        """A pool by its name."""
        return next(place for place in self.places if place.name == name)

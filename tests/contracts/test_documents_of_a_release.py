"""A field of a stored document that an older release does not know comes with a number of its tables.

That release reads the number before it takes over, and leaves the newer one at work; a document it would
only meet when nobody else leads any more.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.state import Cluster, Event
from gpucommons.scheduler.notifications.preferences import Choice, Notification, Reading
from gpucommons.scheduler.pipelines.pipeline import Pipeline
from gpucommons.scheduler.pipelines.pipeline import Standing as PipelineStanding
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.profiles import Profile
from gpucommons.scheduler.schedules.schedule import Schedule
from gpucommons.scheduler.schedules.schedule import Standing as ScheduleStanding
from gpucommons.scheduler.store.estimates import Estimate
from gpucommons.scheduler.store.plans.base import JudgedRun
from gpucommons.scheduler.store.sql.engine import HEAD
from gpucommons.scheduler.sweeps.sweep import Standing, Sweep, Trial

STORED = (
    Cluster, Event, Intent, Verdict, Choice, Notification, Reading, Pipeline, PipelineStanding, Profile,
    ChosenPlan, JudgedRun, Schedule, ScheduleStanding, Estimate, Sweep, Standing, Trial,
)  # fmt: skip
#: By the newest number of the tables: the fields that documents have there.
FIELDS_OF = ("0019", "ecc0ab049fa6bf10")


def fields(kinds: tuple[Any, ...]) -> Iterator[str]:
    """Of all dataclasses that these hold."""
    seen, left = set(), list(kinds)
    while left:
        kind = left.pop()
        left += [*get_args(kind), *filter(None, [getattr(kind, "__supertype__", None)])]
        if dataclasses.is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            left += get_type_hints(kind).values()
            # A cluster is stored in its parts.
            own = () if kind is Cluster else dataclasses.fields(kind)
            yield from (f"{kind.__qualname__}.{one.name}" for one in own)


def test_another_field_of_a_document_is_another_number_of_the_tables() -> None:
    """Where this fails: a new migration (it may be empty, as r0019), and what this says in FIELDS_OF.

    A number that no release has can be kept.
    """
    found = hashlib.sha256("\n".join(sorted(fields(STORED))).encode()).hexdigest()[:16]
    assert (HEAD, found) == FIELDS_OF

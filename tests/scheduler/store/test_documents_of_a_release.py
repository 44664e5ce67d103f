"""What an older release reads of the documents that a newer one writes, and what it leaves alone.

What has its default is not written, so defaults stay as they are. A field that an older release does not
know comes with a number of the tables: that release reads the number before it takes over, and leaves the
newer one at work; a document it would only meet when nobody else leads any more.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from gpucommons.scheduler.core.model import types as core
from gpucommons.scheduler.core.model.intents import Intent, Verdict
from gpucommons.scheduler.core.model.state import Cluster, Event
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.notifications.preferences import Choice, Notification, Reading
from gpucommons.scheduler.pipelines.pipeline import Pipeline
from gpucommons.scheduler.pipelines.pipeline import Standing as PipelineStanding
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.profiles import Profile
from gpucommons.scheduler.schedules.schedule import Schedule
from gpucommons.scheduler.schedules.schedule import Standing as ScheduleStanding
from gpucommons.scheduler.store.codec import decode, encode, to_plain
from gpucommons.scheduler.store.estimates import Estimate
from gpucommons.scheduler.store.plans.base import JudgedRun
from gpucommons.scheduler.store.sql.engine import HEAD
from gpucommons.scheduler.sweeps.sweep import Standing, Sweep, Trial

DEFAULTS = Path(__file__).parent / "earlier_release" / "defaults.json"
STORED = (
    Cluster, Event, Intent, Verdict, Choice, Notification, Reading, Pipeline, PipelineStanding, Profile,
    ChosenPlan, JudgedRun, Schedule, ScheduleStanding, Estimate, Sweep, Standing, Trial,
)  # fmt: skip
#: In its parts, and as a table of counts.
IN_ANOTHER_FORM = (Cluster, LearnedDemand)
#: By the newest number of the tables: the fields that documents have there.
FIELDS_OF = ("0020", "4b95741f6ec12fcf")


def stored_types() -> Iterator[type]:
    """Each dataclass that a document may hold."""
    seen: set[Any] = set()
    left: list[Any] = list(STORED)
    while left:
        kind = left.pop()
        left += [*get_args(kind), *filter(None, [getattr(kind, "__supertype__", None)])]
        if is_dataclass(kind) and kind not in seen:
            assert isinstance(kind, type)
            seen.add(kind)
            left += get_type_hints(kind).values()
            if kind not in IN_ANOTHER_FORM:
                yield kind


def defaults() -> dict[str, Any]:
    """Each as a document has it, by type and field; what it has of inner defaults stands at those.

    Types that are called the same are told apart by their modules.
    """
    kinds = list(stored_types())
    count = Counter(kind.__qualname__ for kind in kinds)
    names = {
        kind: kind.__qualname__
        if count[kind.__qualname__] == 1
        else f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
        for kind in kinds
    }
    return {
        f"{names[kind]}.{one.name}": to_plain(
            one.default if one.default_factory is MISSING else one.default_factory(),
            get_type_hints(kind)[one.name],
        )
        for kind in kinds
        for one in fields(kind)
        if one.default is not MISSING or one.default_factory is not MISSING
    }


def test_another_field_of_a_document_is_another_number_of_the_tables() -> None:
    """Where this fails: a new migration (it may be empty, as r0019), and what this says in FIELDS_OF.

    A number that no release has can be kept.
    """
    names = sorted(
        f"{kind.__qualname__}.{one.name}" for kind in stored_types() for one in fields(kind)
    )
    found = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    assert (HEAD, found) == FIELDS_OF


def test_no_default_of_what_is_stored_has_changed() -> None:
    """A new field is added to the file; another default for a field that is there needs another name."""
    assert defaults() == json.loads(DEFAULTS.read_text())


def test_types_that_are_called_the_same_each_have_their_defaults() -> None:
    every = sum(
        one.default is not MISSING or one.default_factory is not MISSING
        for kind in stored_types()
        for one in fields(kind)
    )
    assert len(defaults()) == every


def test_what_a_newer_release_adds_is_not_written_where_nobody_uses_it() -> None:
    plain = json.loads(encode(core.Role()))["d"]
    assert plain == {}
    assert decode(core.Role, encode(core.Role())) == core.Role()

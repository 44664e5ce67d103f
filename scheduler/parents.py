"""What many jobs are part of: a sweep, a map, a schedule, a pipeline. Its children count as one in line.

It stands below core and stores, for each of them counts children; what a parent does with them is
decided by the controller of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

#: What a task of a Slurm array is told is its index, which is its number everywhere.
TASK_INDEX = "SLURM_ARRAY_TASK_ID"
#: A lowercase UUIDv7.
ParentId = NewType("ParentId", str)


class ParentKind(StrEnum):
    """What kind of parent."""

    SWEEP = "sweep"
    #: The same job over a list of configurations.
    MAP = "map"
    SCHEDULE = "schedule"
    #: Of a schedule, too: looks at its data, which are no runs of it.
    LOOK = "look"
    PIPELINE = "pipeline"


#: Their children are called by their own name and a number.
NUMBERED = frozenset({ParentKind.SWEEP, ParentKind.MAP})


@dataclass(frozen=True, kw_only=True, slots=True)
class Parent:
    """What a job says of what it is part of."""

    parent_id: ParentId
    kind: ParentKind
    #: Readable, for pages.
    name: str
    #: Which of its children it is: from 1, of an array's tasks its index; 0 where they are not counted.
    number: int = 0

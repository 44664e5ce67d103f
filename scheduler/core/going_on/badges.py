"""Whose stop speaks for whom: code, command and environment of one team, with its variables.

What is linked from a home may change after the stop, and may be the code: such a job speaks for itself
alone. Numbers in a command do not count: the trials of a sweep, and a run with another seed, save and go on
by the same code. Those in variables count, as one may switch saving off, but for what a sweep, map or
pipeline gives its jobs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from gpucommons.scheduler.core.going_on.ways import Way, way_to_go_on
from gpucommons.scheduler.core.model.going_on import Badge, BadgeKey
from gpucommons.scheduler.core.model.types import Spec, Workload

#: More are not kept: the oldest goes.
MOST = 2_000


def badge_key(spec: Spec) -> BadgeKey | None:
    """What a badge of this job belongs to; None where nobody knows what code it runs."""
    if spec.snapshot is None or spec.links:
        return None
    commands = [
        (role.name, role.count > 1, [_without_numbers(word) for word in role.command])
        for role in spec.roles
    ]
    value = str if spec.part_of is None else _without_numbers
    variables = [(name, value(text)) for name, text in sorted(spec.env.items())]
    parts = (
        *(spec.team, spec.snapshot, spec.working_dir, spec.environment, spec.launcher),
        *(commands, variables, sorted(spec.secrets.items())),
    )
    return BadgeKey(hashlib.sha256(json.dumps(parts).encode()).hexdigest())


def _without_numbers(word: str) -> str:
    name, sign, value = word.rpartition("=")
    try:
        float(value)
    except ValueError:
        return word
    return f"{name}{sign}#"


def is_safe_to_borrow(workload: Workload, badges: Mapping[BadgeKey, Badge]) -> bool:
    """Whether it was shown to go on after a stop: by any job with the same code (its badge), or, where its
    code is not known, by this job itself.
    """
    key = badge_key(workload.spec)
    if key is not None:
        return key in badges
    return workload.drill is not None and workload.drill.passed


def is_known_to_go_on(workload: Workload, badges: Mapping[BadgeKey, Badge]) -> bool:
    """The same, by the way that holds for it now or what holds without it: nothing is left to be tested."""
    way = way_to_go_on(workload)
    if way is None or not is_safe_to_borrow(workload, badges):
        return False
    key = badge_key(workload.spec)
    shown = workload.drill if key is None else badges[key]
    if shown is None or way.way is Way.CHECKPOINT:
        return shown is not None and shown.way == way.way
    # Processes are saved beside that: where they are not, it goes on as it was seen to.
    return shown.way in {way.way, Way.WORKING_FOLDER}

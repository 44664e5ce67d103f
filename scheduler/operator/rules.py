"""What the API refuses beyond single fields, said in CEL, so that ``kubectl apply`` says it at once.

The scheduler checks all of it again: these rules are for the reader, not for safety. A test holds
both to the same answers.
"""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler.models import RESERVED_VARIABLES
from gpucommons.scheduler.models.jobs.jobs import OBJECT_LABEL
from gpucommons.scheduler.operator.schema import cel_text

Rule = dict[str, Any]

#: Longest name of a job and of a team.
NAME = r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$"


def rule(text: str, message: str) -> Rule:
    """One rule with its sentence."""
    return {"rule": text, "message": message}


def _reserved(variable: str) -> str:
    """A CEL expression: the variable is one that only the scheduler sets."""
    tests = [
        f"{variable}.startsWith({cel_text(name[:-1])})"
        if name.endswith("*")
        else f"{variable} == {cel_text(name)}"
        for name in RESERVED_VARIABLES
    ]
    return " || ".join(tests)


def _variables(field: str) -> Rule:
    return rule(
        f"!has(self.{field}) || !self.{field}.exists(name, {_reserved('name')})",
        f"{field}: the scheduler alone sets {', '.join(RESERVED_VARIABLES)}.",
    )


def _stays_below(field: str) -> Rule:
    return rule(
        f"!has(self.{field}) || !(self.{field}.startsWith('/') ||"
        f" self.{field}.split('/').exists(part, part == '..'))",
        f"{field} must be a path below its folder, without '..'.",
    )


_COUNT = "(has(self.roles[0].count) ? self.roles[0].count : 1)"
_LOW = f"(has(self.min_workers) ? self.min_workers : {_COUNT})"
_HIGH = f"(has(self.max_workers) ? self.max_workers : {_COUNT})"

#: Of the whole object.
JOB_OBJECT = [
    rule(
        f"has(self.spec.name) || self.metadata.name.matches({cel_text(NAME)})",
        "The job is named after the object, and names of jobs are at most 50 lower-case letters,"
        " digits and dashes: choose such a name, or write spec.name.",
    ),
]
#: Of a job's spec.
JOB_SPEC = [
    rule(
        "self == oldSelf",
        "A submitted job is not changed: delete it and apply it again, or apply it under another"
        " name.",
    ),
    rule(
        "!has(self.min_workers) || !has(self.max_workers) || self.min_workers <= self.max_workers",
        "min_workers is more than max_workers.",
    ),
    rule(
        f"(!has(self.min_workers) && !has(self.max_workers)) || ({_LOW} <= {_COUNT} && {_COUNT} <="
        f" {_HIGH})",
        "The count of the first role must lie between min_workers and max_workers.",
    ),
    rule(
        "!has(self.env) || !has(self.secrets) || !self.env.exists(name, name in self.secrets)",
        "A variable is both in env and in secrets: keep one of them.",
    ),
    _variables("env"),
    _variables("secrets"),
    _stays_below("working_dir"),
    _stays_below("results_to"),
    rule(
        "self.roles.all(role, self.roles.exists_one(other, (has(other.name) ? other.name :"
        " 'worker') == (has(role.name) ? role.name : 'worker')))",
        "Two roles have the same name: give each its own.",
    ),
    rule(
        f"!has(self.labels) || !({cel_text(OBJECT_LABEL)} in self.labels)",
        f"labels: {OBJECT_LABEL} is ours.",
    ),
]
#: Of one role.
JOB_ROLE = [
    rule(
        "!has(self.milli_gpu) || self.milli_gpu <= 1000 || self.milli_gpu % 1000 == 0",
        "milli_gpu: a worker takes a share of one GPU (up to 1000) or whole GPUs (multiples of"
        " 1000).",
    ),
]
#: Of the whole Team.
TEAM_OBJECT = [
    rule(
        f"self.metadata.name.matches({cel_text(NAME)})",
        "A team's name is at most 50 lower-case letters, digits and dashes.",
    ),
    rule(
        "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
        "A team cannot be its own parent.",
    ),
]
#: Of one quota.
TEAM_QUOTA = [
    rule(
        "!has(self.limit_milli_gpu) || self.limit_milli_gpu >= (has(self.guaranteed_milli_gpu) ?"
        " self.guaranteed_milli_gpu : 0)",
        "limit_milli_gpu is below guaranteed_milli_gpu: raise the limit or lower the guarantee.",
    ),
]

"""Names, labels and annotations that this executor writes, and by which it finds its own again.

All names follow from the attempt's id alone, so that repeating a request changes nothing and a
restarted scheduler finds what the one before it made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import groupby

from gpucommons.scheduler.core.model.types import Attempt, AttemptId

GROUP = "gpucommons.io"
ATTEMPT = f"{GROUP}/attempt"
WORKLOAD = f"{GROUP}/workload"
TEAM = f"{GROUP}/team"
USER = f"{GROUP}/user"
#: Annotations of a notebook: whose it is and which server, letter by letter.
USER_NAME, SERVER_NAME = f"{GROUP}/user-name", f"{GROUP}/server-name"
KIND = f"{GROUP}/kind"
ROLE = f"{GROUP}/role"
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
MANAGED_BY = "app.kubernetes.io/managed-by"

GATE = f"{GROUP}/placement"
DEVICES = f"{GROUP}/devices"
NODE = f"{GROUP}/node"
RANK = f"{GROUP}/rank"
SLICE = f"{GROUP}/slice"
SLOT = f"{GROUP}/slot"
#: Of a pod that was told its cards: the slots that these are.
SLOTS = f"{GROUP}/slots"
POOL = f"{GROUP}/pool"

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
HOSTNAME = "kubernetes.io/hostname"

#: Name of the container that runs the job's command.
CONTAINER = "worker"
#: What a job's image must call its Python, 3.8 or newer.
PYTHON = "python3"
#: Of a reservation pod.
RESERVATION = "reservation"
#: Of a pod that shows an autoscaler which node is missing.
PLACEHOLDER = "placeholder"
NO_DEVICE = "void"

_LONGEST_LABEL = 63
_LONGEST_SLUG = 48
_HASH_CHARS = 8
_KEPT_CHARS = _LONGEST_SLUG - _HASH_CHARS - len("---")
_SAFE = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")


def slug(text: str) -> str:
    """A DNS label for any text, the one that KubeSpawner makes of a user's name.

    What had to be changed is told apart by a hash after ``---``, which no text brings itself.
    """
    if _SAFE.fullmatch(text) and "--" not in text and len(text) <= _LONGEST_SLUG:
        return text
    kept = re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-")[:_KEPT_CHARS].rstrip("-") or "x"
    if not "a" <= kept[0] <= "z":
        kept = f"x-{kept[: _KEPT_CHARS - len('x-')]}"
    return f"{kept}---{hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]}"


def label_value(text: str) -> str:
    """A label's value for any text: itself where that is allowed."""
    allowed = re.fullmatch(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", text)
    return text if allowed and len(text) <= _LONGEST_LABEL else slug(text)


def base_name(attempt_id: AttemptId) -> str:
    """The attempt's Secret and Service, and its Job where it has but one."""
    return f"gc-{attempt_id}"


def roles_of(attempt: Attempt) -> tuple[str, ...]:
    """The roles of an attempt, in the order in which their first workers are placed."""
    return tuple(dict.fromkeys(placement.role for placement in attempt.placements))


def job_name(attempt: Attempt, role: str) -> str:
    """The Job of one role: like workers share a pod template, and a Job has only one."""
    roles = roles_of(attempt)
    base = base_name(attempt.attempt_id)
    return base if len(roles) <= 1 else f"{base}-{roles.index(role)}"


def ranks_of(attempt: Attempt, role: str) -> tuple[int, ...]:
    """Ranks of a role's workers, by completion index."""
    return tuple(rank for rank, one in enumerate(attempt.placements) if one.role == role)


def spans(ranks: Iterable[int]) -> str:
    """Rising numbers as ``0,4-7``: thousands of workers in a row are short."""
    # Those of one row are equally far ahead of their place in the list.
    rows = (
        [rank for _, rank in row]
        for _, row in groupby(enumerate(ranks), key=lambda one: one[1] - one[0])
    )
    return ",".join(f"{row[0]}-{row[-1]}" if len(row) > 1 else f"{row[0]}" for row in rows)

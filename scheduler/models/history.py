"""What happened: events, and which of them tell what an admin changed."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class EventView(View):
    """One thing that happened."""

    number: int
    at_ms: int
    kind: str
    by: str
    text: str
    workload_id: str | None = None
    attempt_id: str | None = None
    team: str | None = None
    data: dict[str, object] = {}


class EventList(View):
    """Events after a cursor, oldest first; ``last`` is the next cursor."""

    events: list[EventView]
    last: int


#: Left by a restore of a backup for the next start, and what that start found.
RESTORED, RECONCILED = "restored", "reconciled"
#: The first configuration is not in force, and why; it is in force after all.
CONFIGURATION_WAITS, CONFIGURATION_IN_FORCE = "configuration-waits", "configuration-in-force"
#: In its data: it may come into force by itself, as nodes of its pools are still to come.
NODES_MAY_HELP = "nodes_may_help"
#: Event kinds of what admins change: the audit rows.
CHANGE_KINDS = (
    "quota-changed",
    "team-created",
    "team-changed",
    "team-removed",
    "pool-created",
    "pool-changed",
    "policy-changed",
    RESTORED,
    RECONCILED,
)

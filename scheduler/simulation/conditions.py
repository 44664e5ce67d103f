"""What a simulation assumes about the machines and programs that the core does not decide on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """How long things take outside the scheduler; all in virtual milliseconds."""

    #: From the decision to all workers running.
    start_ms: int = 0
    #: From SIGTERM to the end of the processes; the pool's grace caps it.
    leave_ms: int = 0
    #: Every attempt saves so often, counted from its start.
    checkpoint_every_ms: int = 1_800_000
    #: What a later attempt of the same job spends on loading before it works on.
    restart_ms: int = 120_000
    #: From the grant of a ticket to its running server.
    server_ms: int = 0

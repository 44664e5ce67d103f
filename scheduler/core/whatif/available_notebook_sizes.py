"""Which notebook sizes a user can start now, which wait, and which their quota never allows, each with a sentence.

The hub's options form shows the answer: its choices, and which of them are greyed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import leases
from gpucommons.scheduler.core.model.demand import with_milli_gpu
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    PoolName,
    TeamName,
    UserName,
    Workload,
)
from gpucommons.scheduler.core.passes import notebooks
from gpucommons.scheduler.core.queue import reclaim_cooldown, unused_quota
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.core.stopping.notice import notice_ms
from gpucommons.scheduler.core.whatif.next_shares import (
    hypothetical_ids,
    hypothetical_notebook,
)


class Availability(StrEnum):
    """Whether a notebook of a size starts now."""

    FREE = "free"
    #: A ticket would wait, also behind a reclaim.
    WAIT = "wait"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedSize:
    """One notebook size of the options form."""

    milli_gpu: int
    memory_mib: int
    availability: Availability
    text: str
    #: The sentence and what is in it, for screens of other languages.
    code: str
    values: Mapping[str, str | int] = field(default_factory=dict)
    #: It waits only because training borrows it, which a ticket wins back.
    lent: bool = False


def win_back_s(pool: Pool) -> int:
    """Within how many seconds what is lent there is an owner's again."""
    return -(-(notice_ms(pool) + pool.grace_ms) // 1000)


def sizes(
    cluster: Cluster,
    team: TeamName,
    pool: PoolName,
    user: UserName,
    *,
    server_name: str = "",
) -> tuple[OfferedSize, ...]:
    """Say for every size whether this user's server would get it now, later, or never."""
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, hypothetical_ids())
    settings = cycle.pools.get(pool)
    if settings is None or team not in cycle.teams:
        return ()
    ask = hypothetical_notebook(team, pool, user, server_name)
    own = leases.of_server(cycle, ask.spec)
    if own is not None and (own.current is None or own.redeem_by_ms is not None):
        # A ticket or grant of the same server gives way to what the form starts.
        cycle.forget(own.workload_id)
    cycle.refresh()
    return tuple(_size(cycle, ask, size) for size in sorted(settings.notebook_sizes))


def _size(cycle: CycleState, ask: Workload, size: int) -> OfferedSize:
    memory_mib = _memory_mib(cycle, ask.spec.pools[0], size)
    said = partial(OfferedSize, milli_gpu=size, memory_mib=memory_mib)
    return _never(cycle, ask, size, said) or _now_or_later(
        cycle, with_milli_gpu(ask, size), size, said
    )


def _memory_mib(cycle: CycleState, pool: PoolName, size: int) -> int:
    for node in cycle.capacity.usable(pool):
        for capacity in node.devices.values():
            whole = max(1, size // WHOLE_MILLI_GPU)
            return share_memory_mib(capacity.device, min(size, WHOLE_MILLI_GPU)) * whole
    return 0


#: What is the same of all answers about a size is said in it already.
_Said = Callable[..., OfferedSize]


def _now_or_later(cycle: CycleState, ask: Workload, size: int, said: _Said) -> OfferedSize:
    team, pool = ask.spec.team, ask.spec.pools[0]
    if notebooks.free_place(cycle, ask) is not None:
        return said(availability=Availability.FREE, code="free", text="free now")
    left = max(0, unused_quota.of_fixed(cycle, team, pool))
    if size > left:
        asked, has = format_milli_gpu(size), format_milli_gpu(left)
        return said(
            availability=Availability.WAIT,
            code="in-use",
            text=f"needs {asked}, {team} has {has}: wait in line, or ask your admin",
            values={"asked": asked, "team": team, "has": has},
        )
    if notebooks.could_reclaim(cycle, ask):
        return _lent(cycle, ask, pool, said)
    return said(
        availability=Availability.WAIT,
        code="no-piece",
        text=f"{team}'s notebooks leave no piece of this size: wait in line",
        values={"team": team},
    )


def _never(cycle: CycleState, ask: Workload, size: int, said: _Said) -> OfferedSize | None:
    """Why the team's blocks never hold a notebook of this size; None where one does."""
    team = ask.spec.team
    largest = quota.largest_block(cycle.blocks, team, ask.spec.pools[0])
    if largest == 0:
        return said(
            availability=Availability.NEVER,
            code="no-quota",
            text=f"{team} has no notebook GPUs here: ask your admin",
            values={"team": team},
        )
    if size <= largest:
        return None
    asked, most = format_milli_gpu(size), format_gpus(largest)
    return said(
        availability=Availability.NEVER,
        code="too-large",
        text=f"needs {asked}, the largest notebook of {team} has {most}: ask your admin",
        values={"asked": asked, "team": team, "most": most},
    )


def _lent(cycle: CycleState, ask: Workload, pool: PoolName, said: _Said) -> OfferedSize:
    if not reclaim_cooldown.may_win_back(cycle, ask, pool):
        return said(
            availability=Availability.WAIT,
            code="lent-for-now",
            text="lent to training; too many turns of yours were in vain to win it back: wait until it is free",
        )
    seconds, team = win_back_s(cycle.pools[pool]), ask.spec.team
    text = f"yours, back in {seconds} s: lent to training, which makes room"
    is_free = notebooks.is_free_elsewhere(cycle, ask)
    return said(
        availability=Availability.WAIT,
        code="lent-others-free" if is_free else "lent",
        text=f"{text}; other GPUs are free now, but not for {team}'s notebooks"
        if is_free
        else text,
        values={"seconds": seconds, "team": team} if is_free else {"seconds": seconds},
        lent=True,
    )

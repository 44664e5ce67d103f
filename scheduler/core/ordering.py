"""Who is considered first: by priority, share and age, with fixed ties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpucommons.scheduler.core import fair_share
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.types import PoolName, TeamName, Workload

#: Priorities by name.
PRIORITIES = {"low": -100, "normal": 0, "high": 100}
HIGHEST = max(PRIORITIES.values())

Usage = dict[tuple[TeamName, PoolName], int]


def priority(workload: Workload) -> int:
    """Its priority as a number; higher goes first."""
    return PRIORITIES[workload.spec.priority]


def by_age(workload: Workload) -> tuple[int, str]:
    """Oldest first."""
    return (workload.submitted_ms, workload.workload_id)


def in_team(workload: Workload) -> tuple[int, int, str]:
    """The order within a team: priority, then age."""
    return (-priority(workload), *by_age(workload))


def team_line(draft: Draft, usage: Usage, workload: Workload) -> tuple[int, ...]:
    """How much of the surplus its department and its team have had in the pool it likes most."""
    pool = workload.spec.pools[0]
    half_life_ms = fair_share.half_life_of(draft.pools, pool)
    accounts = fair_share.Accounts(draft.teams, pool, half_life_ms, usage, draft.uses)
    return accounts.line(workload.spec.team)


def for_guarantee(draft: Draft, usage: Usage, workloads: Iterable[Workload]) -> list[Workload]:
    """Line up in-guarantee work: priority, what runs already, the share of its team, age.

    A borrower that becomes in-guarantee costs nobody anything; a waiting job that takes the last of
    the guarantee before it would stop somebody else's borrower instead.
    """
    lines: dict[tuple[TeamName, PoolName], tuple[int, ...]] = {}

    def line(one: Workload) -> tuple[int, ...]:
        key = (one.spec.team, one.spec.pools[0])
        if key not in lines:
            lines[key] = team_line(draft, usage, one)
        return lines[key]

    return sorted(
        workloads,
        key=lambda one: (-priority(one), one.current is None, line(one), *by_age(one)),
    )


def for_surplus(draft: Draft, usage: Usage, workloads: Iterable[Workload]) -> Iterator[Workload]:
    """Line up over-quota work: each time the team that has had least for its weight.

    Looks at what teams hold at each step, so what was admitted a moment ago already counts.
    """
    lines: dict[TeamName, list[Workload]] = {}
    for workload in sorted(workloads, key=in_team, reverse=True):
        lines.setdefault(workload.spec.team, []).append(workload)
    while lines:
        team = min(
            lines,
            key=lambda name: (
                team_line(draft, usage, lines[name][-1]),
                *by_age(lines[name][-1]),
            ),
        )
        yield lines[team].pop()
        if not lines[team]:
            del lines[team]

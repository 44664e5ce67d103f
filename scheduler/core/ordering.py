"""Who is considered first: by priority, share and age, with fixed ties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpucommons.scheduler.core import fair_share
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.quota import quota_of
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


def team_standing(draft: Draft, usage: Usage, workload: Workload) -> int:
    """How much of the surplus its team has had in the pool it likes most."""
    key = (workload.spec.team, workload.spec.pools[0])
    weight = quota_of(draft.teams, *key).over_quota_weight
    return fair_share.standing(usage.get(key, 0), draft.use(*key).borrowed, weight)


def for_guarantee(draft: Draft, usage: Usage, workloads: Iterable[Workload]) -> list[Workload]:
    """Line up in-guarantee work: priority, what runs already, the share of its team, age.

    A borrower that becomes in-guarantee costs nobody anything; a waiting job that takes the last of
    the guarantee before it would stop somebody else's borrower instead.
    """
    return sorted(
        workloads,
        key=lambda one: (
            -priority(one),
            one.current is None,
            team_standing(draft, usage, one),
            *by_age(one),
        ),
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
                team_standing(draft, usage, lines[name][-1]),
                *by_age(lines[name][-1]),
            ),
        )
        yield lines[team].pop()
        if not lines[team]:
            del lines[team]

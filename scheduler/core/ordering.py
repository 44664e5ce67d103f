"""Who is considered first: by priority, share and age, with fixed ties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.lines import Front, Fronts, Rank, fronts, in_turn, keyed_fronts
from gpucommons.scheduler.core.register import LineKey, Place
from gpucommons.scheduler.core.types import PoolName, Reason, TeamName, Workload, WorkloadId

#: Priorities by name.
PRIORITIES = {"low": -100, "normal": 0, "high": 100}
HIGHEST = max(PRIORITIES.values())

Usage = dict[tuple[TeamName, PoolName], int]
#: Whether the line of this job is considered.
Wanted = Callable[[Workload], bool]


def priority(workload: Workload) -> int:
    """Its priority as a number; higher goes first."""
    return PRIORITIES[workload.spec.priority]


def by_age(workload: Workload) -> tuple[int, str]:
    """Oldest first."""
    return (workload.submitted_ms, workload.workload_id)


def in_team(workload: Workload) -> tuple[int, int, str]:
    """The order within a team: priority, then age."""
    return (-priority(workload), *by_age(workload))


def team_line(draft: Draft, usage: Usage, team: TeamName, pool: PoolName) -> tuple[int, ...]:
    """How much of a pool's surplus a department and its team have had."""
    return draft.accounts(pool, usage, draft.uses).line(team)


def for_guarantee(
    draft: Draft,
    usage: Usage,
    obstacles: Mapping[WorkloadId, Reason],
    wanted: Wanted,
    running: Iterable[Workload] = (),
) -> Iterator[Workload]:
    """Line up in-guarantee work: priority, what runs already, the share of its team, age.

    A borrower that becomes in-guarantee costs nobody anything; a waiting job that takes the last of
    the guarantee before it would stop somebody else's borrower instead. A team's share is that of
    the pool it likes most, as it stands when the turns begin.
    """
    lines: dict[tuple[TeamName, PoolName], tuple[int, ...]] = {}

    def rank(key: LineKey, *, waits: bool = True) -> Rank:
        home = (key.team, key.pools[0])
        if home not in lines:
            lines[home] = team_line(draft, usage, *home)
        return (-PRIORITIES[key.priority], waits, lines[home])

    ahead = fronts(draft, obstacles, rank, wanted)
    for one in running:
        place = Place(one.submitted_ms, one.workload_id)
        ahead.append(Front(rank(draft.register.key_of(one), waits=False), (place,)))
    return in_turn(draft, ahead)


def by_standing(draft: Draft, usage: Usage, workloads: Iterable[Workload]) -> list[Workload]:
    """Sort by priority, then the share of the team, then age."""
    return sorted(
        workloads,
        key=lambda one: (
            -priority(one),
            team_line(draft, usage, one.spec.team, one.spec.pools[0]),
            *by_age(one),
        ),
    )


def for_surplus(
    draft: Draft, usage: Usage, obstacles: Mapping[WorkloadId, Reason]
) -> Iterator[Workload]:
    """Line up over-quota work: each time the team that has had least for its weight.

    Looks at what teams hold at each step, so what was admitted a moment ago already counts.
    """
    by_team: dict[TeamName, list[Front]] = {}
    for key, front in keyed_fronts(draft, obstacles, lambda key: (-PRIORITIES[key.priority],)):
        by_team.setdefault(key.team, []).append(front)
    teams = {team: Fronts(fronts_of) for team, fronts_of in by_team.items()}
    while teams:
        team = min(teams, key=lambda name: _due(draft, usage, teams[name].first))
        yield draft.workloads[teams[team].first.workload_id]
        teams[team].step(draft)
        if not teams[team]:
            del teams[team]


def _due(draft: Draft, usage: Usage, front: Front) -> Rank:
    workload = draft.workloads[front.workload_id]
    line = team_line(draft, usage, workload.spec.team, workload.spec.pools[0])
    return (line, front.place)


def by_priority(draft: Draft, obstacles: Mapping[WorkloadId, Reason]) -> Iterator[Workload]:
    """Line up all who wait: priority, then age."""
    return in_turn(draft, fronts(draft, obstacles, lambda key: (-PRIORITIES[key.priority],)))


def for_priority(
    draft: Draft, obstacles: Mapping[WorkloadId, Reason], lowest: Mapping[TeamName, int]
) -> Iterator[Workload]:
    """Line up work that is above something its team runs: priority, then age."""
    return in_turn(
        draft,
        fronts(
            draft,
            obstacles,
            lambda key: (-PRIORITIES[key.priority],),
            lambda one: priority(one) > lowest.get(one.spec.team, HIGHEST),
        ),
    )

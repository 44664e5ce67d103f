"""Use cases about utilisation: allocated beside used, per pool and team, coarser the longer ago."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.core.quota.quota import pool_sizes
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.history import CHANGE_KINDS
from gpucommons.scheduler.models.reports import UseLine, UseMark, Utilisation
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.administration.over_time import (
    DAY_MS,
    HOUR_MS,
    WEEK_MS,
    Past,
    drawn,
    monday_of,
    of_pool,
    simulated,
    weeks,
)
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.quota_minutes.base import FOLDED_MS
from gpucommons.scheduler.store.reports.base import Steps, written_ms

#: Up to so many days, steps of such a length.
RESOLUTIONS = ((2, FOLDED_MS), (14, HOUR_MS), (120, DAY_MS), (400, WEEK_MS))
#: Newest changes that are marked.
_MARKS = 12
_MARK_CHARACTERS = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Which part of the past; None = all pools, or all teams that the caller may see."""

    days: int
    pool: str | None = None
    team: str | None = None
    #: Of the demo's sample data.
    sample: bool = False


def utilisation(service: Service, principal: Principal, asked: Asked) -> Utilisation:
    """GPUs that were allocated and used over the last days."""
    authorization.history.utilisation(principal)
    mine = authorization.history.utilisation_teams(principal)
    service = service.told_of(sample=asked.sample)
    cluster = service.loop.cluster
    steps = _steps(asked.days, service.now_ms())
    whole, by_day = drawn(service, steps, mine)
    # Pools without GPUs have nothing to draw.
    pools = {one.pool for one in whole.sums} | {row.pool for row in whole.sizes if row.size}
    teams = {
        team for team in (*cluster.teams, *(one.team for one in whole.sums)) if _sees(mine, team)
    }
    _must_be_known("pool", asked.pool, pools)
    _must_be_known("team", asked.team, teams)
    team = None if asked.team is None else TeamName(asked.team)
    pool = None if asked.pool is None else PoolName(asked.pool)
    past = whole if team is None else whole.of_team(team)
    in_force = None if asked.sample else _InForce(cluster=cluster, pool=pool, teams=past.teams)
    if by_day is not None and team is not None:
        by_day = by_day.of_team(team)
    return Utilisation(
        is_sample=asked.sample,
        has_sample=service.sample is not None,
        from_ms=steps.from_ms,
        to_ms=steps.to_ms,
        step_ms=steps.length_ms,
        kept_days=service.settings.kept_days,
        of_quotas=past.teams is not None,
        simulated_pools=simulated(service, pools if pool is None else (pool,)),
        pools=sorted(pools),
        teams=sorted(teams),
        lines=[
            _all(past, pool, team),
            *_of_teams(past, pool, sorted(teams) if team is None else [team], in_force),
            *_of_pools(past, sorted(pools) if pool is None else [pool], team, in_force),
        ],
        marks=_marks(service, principal, steps),
        weeks=[] if by_day is None else weeks(service, by_day),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _InForce:
    """Quotas and pools as they are now: points are means, of a step in which they may have changed."""

    cluster: Cluster
    pool: PoolName | None
    #: Whose quotas count as what is there; None = all GPUs do.
    teams: frozenset[TeamName] | None

    def of_team(self, name: TeamName) -> int:
        team = self.cluster.teams.get(name)
        return sum(
            quota.fixed_milli_gpu + quota.guaranteed_milli_gpu
            for pool, quota in (team.quotas.items() if team is not None else ())
            if self.pool in (None, pool)
        )

    def of_pool(self, pool: PoolName) -> int:
        if self.teams is None:
            return pool_sizes(self.cluster).get(pool, 0)
        return sum(replace(self, pool=pool).of_team(team) for team in self.teams)


def _of_teams(
    past: Past, pool: PoolName | None, teams: Sequence[TeamName], in_force: _InForce | None
) -> list[UseLine]:
    parts = past.by(lambda one: one.team)
    lines = (_of_team(parts.get(team, past.without()), pool, team) for team in teams)
    if in_force is None:
        return list(lines)
    return [
        line.model_copy(update={"there_now_milli_gpu": in_force.of_team(team)})
        for line, team in zip(lines, teams, strict=True)
    ]


def _of_pools(
    past: Past, pools: Sequence[PoolName], team: TeamName | None, in_force: _InForce | None
) -> list[UseLine]:
    parts = past.by(lambda one: one.pool)
    lines = (_of_pool(parts.get(pool, past.without()), pool, team) for pool in pools)
    if in_force is None:
        return list(lines)
    return [
        line.model_copy(update={"there_now_milli_gpu": in_force.of_pool(pool)})
        for line, pool in zip(lines, pools, strict=True)
    ]


def _steps(days: int, now_ms: int) -> Steps:
    step_ms = next(length for most, length in RESOLUTIONS if days <= most)
    to_ms = written_ms(now_ms)
    from_ms = to_ms - days * DAY_MS
    from_ms = monday_of(from_ms) if step_ms == WEEK_MS else from_ms - from_ms % step_ms
    return Steps(from_ms=Millis(from_ms), to_ms=to_ms, step_ms=step_ms)


def _sees(mine: frozenset[TeamName] | None, team: TeamName) -> bool:
    return mine is None or team in mine


def _must_be_known(what: str, name: str | None, known: Collection[str]) -> None:
    if name is not None and name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise BadRequest(f"There is no {what} {name!r} here that you may see: {there}.")


def _all(past: Past, pool: PoolName | None, team: TeamName | None) -> UseLine:
    inside = of_pool(pool)
    tallies = past.tallies(
        lambda one: inside(one) and team in (None, one.team),
        there=lambda row: inside(row) and past.is_there(row),
    )
    return UseLine(of="all", points=past.points(tallies))


def _of_team(past: Past, pool: PoolName | None, team: TeamName) -> UseLine:
    inside = of_pool(pool)
    tallies = past.tallies(
        lambda one: inside(one) and one.team == team,
        there=lambda row: inside(row) and row.team == team,
    )
    return UseLine(of="team", name=team, points=past.points(tallies))


def _of_pool(past: Past, pool: PoolName, team: TeamName | None) -> UseLine:
    line = _all(past, pool, team)
    return UseLine(of="pool", name=pool, points=line.points)


def _marks(service: Service, principal: Principal, steps: Steps) -> list[UseMark]:
    """The newest changes of quotas, teams and pools since the span began that the caller may see: those of
    the last minute, too, of which the ledger has nothing yet.
    """
    found = service.store.events(
        after=0,
        kinds=frozenset(CHANGE_KINDS),
        sight=authorization.history.event_sight(principal),
        limit=_MARKS,
        newest=True,
    )
    return [
        UseMark(at_ms=one.event.at_ms, text=one.event.text[:_MARK_CHARACTERS])
        for one in found
        if steps.from_ms <= one.event.at_ms <= service.now_ms()
    ]

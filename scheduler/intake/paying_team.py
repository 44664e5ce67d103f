"""Which team pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.core.quota.quota import children
from gpucommons.scheduler.errors import BadRequest, Forbidden, Misconfigured, UnknownTeam


def names(items: Iterable[str]) -> str:
    """A list for a sentence; "none" when empty."""
    return ", ".join(sorted(items)) or "none"


def choose_team(
    requested: str | None,
    member_of: frozenset[TeamName],
    cluster: Cluster,
    *,
    usable: Callable[[Team], bool],
) -> Team:
    """The team that was named, or the only one that can pay for this.

    Raises
    ------
    UnknownTeam, Forbidden, Misconfigured, BadRequest
        When the named team is none, not theirs, or a department; or when none was named and it
        cannot be told.
    """
    if requested is not None:
        return _named(TeamName(requested), member_of, cluster)
    mine = [
        cluster.teams[name]
        for name in sorted(member_of)
        if name in cluster.teams and not children(cluster.teams, name)
    ]
    if not mine:
        message = "You are in no team that has quotas: ask an admin to add you to one."
        raise Forbidden(message)
    able = [team for team in mine if usable(team)]
    if len(mine) == 1:
        return mine[0]
    if len(able) == 1:
        return able[0]
    message = (
        f"You are in several teams ({names(team.name for team in mine)}): name one (team; --team on the"
        " command line, --account of sbatch)."
    )
    raise BadRequest(message)


def _named(name: TeamName, member_of: frozenset[TeamName], cluster: Cluster) -> Team:
    team = cluster.teams.get(name)
    if team is None:
        message = f"There is no team {name!r}. Your teams: {names(member_of)}."
        raise UnknownTeam(message)
    if name not in member_of:
        message = f"You are not in team {name}. Your teams: {names(member_of)}."
        raise Forbidden(message)
    below = children(cluster.teams, name)
    if below:
        message = (
            f"{name} has no quota of its own: choose one of its teams"
            f" ({names(team.name for team in below)})."
        )
        raise Misconfigured(message)
    return team

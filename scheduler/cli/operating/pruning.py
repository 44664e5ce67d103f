"""``gpucommons apply --prune``: a file that says all teams, as one that is kept in Git does.

What becomes of the others is worked out here, from the configuration in force and what the service
would refuse; it goes to the service in the same request as the rest, all or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest, Conflict, SchedulerError


def pruned(
    scheduler: SchedulerClient, config: models.ConfigModel, *, force: bool
) -> tuple[models.ConfigModel, list[str]]:
    """The same with the removal of all teams that it does not name.

    With ``force`` a team that still has work loses its quotas instead, and goes when the file is
    applied again after its work has ended.

    Returns
    -------
    What to apply, and sentences about teams that stay.
    """
    if not config.teams:
        message = (
            "With --prune a file that names no team would remove all of them. Name those that stay."
        )
        raise BadRequest(message)
    named = {team.name for team in config.teams}
    others = [t for t in scheduler.send(calls.get_config()).teams if t.name not in named]
    kept = [f"{t.name} stays: it is kept by {t.managed_by}." for t in others if t.managed_by]
    free = [team for team in others if not team.managed_by]
    busy = [team for team in free if force and _has_work(scheduler, team.name)]
    kept += [f"{t.name} stays without quotas: it still has work." for t in busy]
    managed = [team for team in others if team.managed_by]
    above = _above([*managed, *busy], {team.name: team for team in free if team not in busy})
    kept += [f"{name} stays: it is above a team that stays." for name in sorted(above)]
    removed = [team.name for team in free if team not in busy and team.name not in above]
    return _together(config, removed, busy), kept


def _above(
    staying: Iterable[models.TeamModel], free: Mapping[str, models.TeamModel]
) -> frozenset[str]:
    """Which of the free ones a team that stays is below of."""
    found: set[str] = set()
    for team in staying:
        above = free.get(team.parent or "")
        while above is not None and above.name not in found:
            found.add(above.name)
            above = free.get(above.parent or "")
    return frozenset(found)


def _together(
    config: models.ConfigModel, removed: Sequence[str], busy: Sequence[models.TeamModel]
) -> models.ConfigModel:
    emptied = [team.model_copy(update={"quotas": {}}) for team in busy]
    return config.model_copy(
        update={
            "teams": [*config.teams, *emptied],
            "removed_teams": sorted({*config.removed_teams, *removed}),
        }
    )


def _has_work(scheduler: SchedulerClient, team: str) -> bool:
    try:
        scheduler.send(calls.check_config(models.ConfigModel(removed_teams=[team])))
    except Conflict:
        return True
    except SchedulerError:
        # Something else about it, as a team below it that goes with it: the whole is judged later.
        return False
    return False

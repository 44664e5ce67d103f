"""``gpucommons teams`` and ``quota set``: teams with quota and use, who changed them, and a new quota."""

from __future__ import annotations

import argparse

from gpucommons.gpu.slices.slices import format_milli_gpu, parse_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import clock, show, table
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import BadRequest, UnknownTeam

#: Audit rows that are shown.
_CHANGES = 50


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``teams`` and ``quota``."""
    rows = commands.add_parser("teams", parents=[shared], help="teams, quota and use")
    about = "the last changes: when, who, old → new"
    rows.add_argument("--changes", action="store_true", help=about)
    rows.set_defaults(run=teams)
    quota = commands.add_parser("quota", help="change quotas").add_subparsers(required=True)
    change = quota.add_parser("set", parents=[shared], help="change one team's quota in one pool")
    change.add_argument("team")
    for name in ("--pool", "--fixed", "--guaranteed"):
        change.add_argument(name)
    change.add_argument("--limit", help="a number of GPUs, or none")
    change.add_argument("--weight", type=int)
    change.add_argument("--dry-run", action="store_true", help="only check the layout")
    change.set_defaults(run=quota_set)


def teams(arguments: argparse.Namespace) -> int:
    """List teams with quota and use, or who changed them."""
    if arguments.changes:
        return _changes(arguments)
    with connect(arguments) as scheduler:
        answer = scheduler.send(calls.teams())
    rows = (
        (
            team.name,
            use.pool,
            f"{format_milli_gpu(use.fixed_used_milli_gpu)} of"
            f" {format_milli_gpu(use.quota.fixed_milli_gpu)}",
            f"{format_milli_gpu(use.guaranteed_used_milli_gpu)} of"
            f" {format_milli_gpu(use.quota.guaranteed_milli_gpu)}",
            format_milli_gpu(use.borrowed_milli_gpu),
            _limit(use.quota.limit_milli_gpu),
            use.quota.over_quota_weight,
            use.waiting,
        )
        for team in answer.teams
        for use in team.use
    )
    header = ("TEAM", "POOL", "FIXED", "GUARANTEED", "BORROWED", "LIMIT", "WEIGHT", "WAITING")
    show(answer, table(header, rows), output=arguments.output)
    return 0


def _changes(arguments: argparse.Namespace) -> int:
    with connect(arguments) as scheduler:
        answer = scheduler.send(calls.events(kinds=models.CHANGE_KINDS, newest=_CHANGES))
    rows = ((clock(event.at_ms), event.by, event.text) for event in reversed(answer.events))
    show(answer, table(("WHEN", "WHO", "WHAT, OLD → NEW"), rows), output=arguments.output)
    return 0


def _limit(milli_gpu: int | None) -> str:
    return "none" if milli_gpu is None else format_milli_gpu(milli_gpu)


def quota_set(arguments: argparse.Namespace) -> int:
    """Change a team's quota in a pool; what is not named stays."""
    update = _quota_update(arguments)
    with connect(arguments) as scheduler:
        pool = arguments.pool or _only_pool(scheduler.send(calls.pools()))
        use = _use(scheduler.send(calls.teams()), arguments.team, pool)
        quota = models.QuotaModel.model_validate({**use.quota.model_dump(), **update})
        change = models.QuotaChange(team=arguments.team, pool=use.pool, quota=quota, was=use.quota)
        answer = scheduler.send(
            calls.set_quotas(models.QuotaChanges(changes=[change], dry_run=arguments.dry_run))
        )
    show(answer, answer.text, output=arguments.output)
    return 0 if answer.ok else 1


def _quota_update(arguments: argparse.Namespace) -> dict[str, int | None]:
    named = {
        "fixed_milli_gpu": arguments.fixed,
        "guaranteed_milli_gpu": arguments.guaranteed,
        "limit_milli_gpu": None if arguments.limit == "none" else arguments.limit,
    }
    update: dict[str, int | None] = {
        field: parse_milli_gpu(text) for field, text in named.items() if text is not None
    }
    if arguments.limit == "none":
        update["limit_milli_gpu"] = None
    if arguments.weight is not None:
        update["over_quota_weight"] = arguments.weight
    if not update:
        message = "Name what to change: --fixed, --guaranteed, --limit or --weight."
        raise BadRequest(message)
    return update


def _only_pool(answer: models.PoolList) -> str | None:
    """The pool that is meant where none is named: the only one, or the only one with GPUs."""
    with_gpus = [one.name for one in answer.pools if one.total_milli_gpu + one.out_milli_gpu]
    names = with_gpus or [pool.name for pool in answer.pools]
    return names[0] if len(names) == 1 else None


def _use(answer: models.TeamList, team: str, pool: str | None) -> models.TeamUseView:
    found = next((item for item in answer.teams if item.name == team), None)
    if found is None:
        message = f"There is no team {team}. Teams: {', '.join(t.name for t in answer.teams)}."
        raise UnknownTeam(message)
    uses = [use for use in found.use if pool in (None, use.pool)]
    if len(uses) == 1:
        return uses[0]
    if pool is not None and not uses:
        return models.TeamUseView(pool=pool, quota=models.QuotaModel())
    message = (
        f"Say which pool with --pool: {', '.join(use.pool for use in found.use) or 'none yet'}."
    )
    raise BadRequest(message)

"""The table of quotas that admins edit: all teams of a pool, what is theirs and what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext, gettext_noop
from gpucommons.scheduler.models import (
    CHANGE_KINDS,
    EventView,
    PoolView,
    QuotaModel,
    TeamUseView,
    TeamView,
)
from gpucommons.scheduler.models.text.change_words import change_words
from gpucommons.scheduler.pages.present import words

#: Holds by their colour. The amounts are GPUs: two notebooks on halves are 1.
_HELD_WORDS = {
    "notebook": gettext_noop("in notebooks"),
    "guaranteed": gettext_noop("guaranteed"),
    "borrowed": gettext_noop("borrowed"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeRow:
    """Who changed what, and when."""

    at_ms: int
    by: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A part of the *In use* bar, in percent of it."""

    shown_as: str
    left: float
    width: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaRow:
    """One team in one pool; the four amounts are texts, as in the inputs."""

    team: str
    #: Depth in the team tree.
    depth: int
    #: Quotas live on leaf teams; parents only sum.
    editable: bool
    fixed: str
    guaranteed: str
    limit: str
    weight: str
    segments: tuple[Segment, ...]
    #: "1 in notebooks, 2 guaranteed", in GPUs.
    in_use: str
    #: How much of its own that is: "1 of 6 GPUs", "8, quota 6 GPUs" where it holds more, "0, no quota".
    own: str
    waiting: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaTable:
    """All teams in one pool."""

    pool: str
    kind: str
    rows: tuple[QuotaRow, ...]
    sum_text: str
    over: bool


def quota_tables(teams: Sequence[TeamView], pools: Sequence[PoolView]) -> tuple[QuotaTable, ...]:
    """One table per pool that has GPUs, or quotas for GPUs that are gone."""
    granted = {
        use.pool
        for team in teams
        for use in team.use
        if use.quota.fixed_milli_gpu or use.quota.guaranteed_milli_gpu
    }
    return tuple(
        _table(pool, teams)
        for pool in pools
        if pool.total_milli_gpu or pool.out_milli_gpu or pool.name in granted
    )


def change_rows(events: Sequence[EventView]) -> tuple[ChangeRow, ...]:
    """The last changes, newest first."""
    return tuple(
        ChangeRow(at_ms=event.at_ms, by=event.by, text=change_words(event.text))
        for event in reversed(events)
        if event.kind in CHANGE_KINDS
    )


def _table(pool: PoolView, teams: Sequence[TeamView]) -> QuotaTable:
    parents = {team.parent for team in teams if team.parent}
    uses = {team.name: use for team in teams for use in team.use if use.pool == pool.name}
    rows = tuple(
        _row(team, depth, uses.get(team.name), pool, editable=team.name not in parents)
        for team, depth in _tree(teams)
    )
    leaves = [use.quota for name, use in uses.items() if name not in parents]
    fixed = sum(quota.fixed_milli_gpu for quota in leaves)
    guaranteed = sum(quota.guaranteed_milli_gpu for quota in leaves)
    return QuotaTable(
        pool=pool.name,
        kind=pool.gpu_kind or "",
        rows=rows,
        sum_text=_sum_text(fixed, guaranteed, pool.total_milli_gpu, pool.out_milli_gpu),
        over=fixed + guaranteed > pool.total_milli_gpu + pool.out_milli_gpu,
    )


def _sum_text(fixed: int, guaranteed: int, usable: int, out: int) -> str:
    both, total = fixed + guaranteed, usable + out
    text = gettext(
        "%(fixed)s fixed + %(guaranteed)s guaranteed = %(both)s of %(all)s GPUs",
        fixed=format_milli_gpu(fixed),
        guaranteed=format_milli_gpu(guaranteed),
        both=format_milli_gpu(both),
        all=format_milli_gpu(total),
    )
    if out:
        those = gettext("%(out)s of them not to give out now", out=format_milli_gpu(out))
        text = f"{text}, {those}"
    if both <= total:
        return text
    over = gettext("over by %(amount)s", amount=format_milli_gpu(both - total))
    return f"{text}: {over}"


def _tree(teams: Sequence[TeamView]) -> tuple[tuple[TeamView, int], ...]:
    names = {team.name for team in teams}
    children: dict[str | None, list[TeamView]] = {}
    for team in sorted(teams, key=lambda team: team.name):
        children.setdefault(team.parent if team.parent in names else None, []).append(team)
    return tuple(_below(None, 0, children))


def _below(
    parent: str | None, depth: int, children: Mapping[str | None, Sequence[TeamView]]
) -> list[tuple[TeamView, int]]:
    found: list[tuple[TeamView, int]] = []
    for team in children.get(parent, ()):
        found.append((team, depth))
        found += _below(team.name, depth + 1, children)
    return found


def _row(
    team: TeamView, depth: int, use: TeamUseView | None, pool: PoolView, *, editable: bool
) -> QuotaRow:
    quota = use.quota if use else QuotaModel(over_quota_weight=1)
    held = (
        (
            ("notebook", use.fixed_used_milli_gpu),
            ("guaranteed", use.guaranteed_used_milli_gpu),
            ("borrowed", use.borrowed_milli_gpu),
        )
        if use
        else ()
    )
    own = quota.fixed_milli_gpu + quota.guaranteed_milli_gpu
    used = sum(amount for _, amount in held)
    beside = own or _may_borrow(quota, pool.total_milli_gpu + pool.out_milli_gpu)
    return QuotaRow(
        team=team.name,
        depth=depth,
        editable=editable,
        fixed=format_milli_gpu(quota.fixed_milli_gpu),
        guaranteed=format_milli_gpu(quota.guaranteed_milli_gpu),
        limit="" if quota.limit_milli_gpu is None else format_milli_gpu(quota.limit_milli_gpu),
        weight=str(quota.over_quota_weight),
        segments=_segments(held, max(beside, used, 1)),
        in_use=", ".join(
            f"{format_milli_gpu(amount)} {gettext(_HELD_WORDS[name])}"
            for name, amount in held
            if amount
        )
        or gettext("nothing"),
        # What a team borrows is beside its quota, however much of that is unused.
        own=_own_words(own, used - use.borrowed_milli_gpu if use and own else used),
        waiting=use.waiting if use else 0,
    )


def _may_borrow(quota: QuotaModel, total: int) -> int:
    """What the bar of a team without a quota is drawn beside."""
    return total if quota.limit_milli_gpu is None else min(total, quota.limit_milli_gpu)


def _own_words(own: int, used: int) -> str:
    amount = format_milli_gpu(used)
    if not own:
        return gettext("%(used)s, no quota", used=amount)
    if used > own:
        return gettext("%(used)s, quota %(own)s", used=amount, own=words.gpus(own))
    return gettext("%(used)s of %(all)s", used=amount, all=words.gpus(own))


def _segments(held: Sequence[tuple[str, int]], whole: int) -> tuple[Segment, ...]:
    found, left = [], 0
    for name, amount in held:
        if amount:
            found.append(
                Segment(
                    shown_as=name,
                    left=round(100 * left / whole, 3),
                    width=round(100 * amount / whole, 3),
                )
            )
        left += amount
    return tuple(found)

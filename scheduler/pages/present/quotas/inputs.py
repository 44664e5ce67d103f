"""What admins typed into the table of quotas, read back, and what it would change."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpucommons.gpu.slices.slices import format_milli_gpu, parse_milli_gpu
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import QuotaChange, QuotaChanges, QuotaModel, TeamView

_MAX_WEIGHT = 1000


class QuotaTexts(BaseModel):
    """The four amounts of a row, as its fields hold them."""

    model_config = ConfigDict(extra="forbid")

    fixed: str = Field(max_length=20)
    guaranteed: str = Field(max_length=20)
    limit: str = Field(max_length=20)
    weight: str = Field(max_length=20)


class QuotaInput(QuotaTexts):
    """One edited row, as typed."""

    team: str = Field(max_length=50)
    pool: str = Field(max_length=50)
    #: As the page showed it: another tab, or another admin, may have saved since.
    was: QuotaTexts | None = None


class QuotaInputs(BaseModel):
    """All edited rows."""

    model_config = ConfigDict(extra="forbid")

    rows: list[QuotaInput] = Field(min_length=1, max_length=1000)


def changes_from(inputs: QuotaInputs, *, dry_run: bool) -> QuotaChanges:
    """Read the edited rows.

    Raises
    ------
    BadRequest
        With a sentence that names team, column and what may stand there.
    """
    rows = [_change(row) for row in _named(inputs.rows)]
    return QuotaChanges(changes=rows, dry_run=dry_run)


def unreadable(inputs: QuotaInputs) -> tuple[str, str, str] | None:
    """Team, pool and column of the first cell in which no amount stands."""
    for row in inputs.rows:
        for column, read in _READ.items():
            try:
                read(row)
            except BadRequest:
                return row.team, row.pool, column
    return None


def difference(teams: Sequence[TeamView], changes: QuotaChanges) -> tuple[str, ...]:
    """What the changes would change, one line per team and pool."""
    present = {(team.name, use.pool): use.quota for team in teams for use in team.use}
    lines = []
    for change in changes.changes:
        old = present.get((change.team, change.pool), QuotaModel())
        parts = [
            f"{name} {before} → {after}"
            for (name, before), (_, after) in zip(_said(old), _said(change.quota), strict=True)
            if before != after
        ]
        if parts:
            lines.append(f"{change.team} · {change.pool}: {', '.join(parts)}")
    return tuple(lines)


def _named(rows: Sequence[QuotaInput]) -> Sequence[QuotaInput]:
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.team, row.pool) in seen:
            message = gettext(
                "%(team)s in pool %(pool)s is there twice: send each row once.",
                team=row.team,
                pool=row.pool,
            )
            raise BadRequest(message)
        seen.add((row.team, row.pool))
    return rows


def _change(row: QuotaInput) -> QuotaChange:
    quota = _quota(row)
    try:
        return QuotaChange(team=row.team, pool=row.pool, quota=quota, was=_was(row))
    except ValidationError:
        message = gettext(
            "There is no team %(team)s or no pool %(pool)s: reload the page.",
            team=repr(row.team),
            pool=repr(row.pool),
        )
        raise BadRequest(message) from None


def _was(row: QuotaInput) -> QuotaModel | None:
    return None if row.was is None else _quota(row.model_copy(update=row.was.model_dump()))


def _said(quota: QuotaModel) -> tuple[tuple[str, str], ...]:
    return (
        (gettext("fixed"), format_milli_gpu(quota.fixed_milli_gpu)),
        (gettext("guaranteed"), format_milli_gpu(quota.guaranteed_milli_gpu)),
        (gettext("limit"), _limit(quota)),
        (gettext("weight"), str(quota.over_quota_weight)),
    )


def _limit(quota: QuotaModel) -> str:
    return (
        gettext("none")
        if quota.limit_milli_gpu is None
        else format_milli_gpu(quota.limit_milli_gpu)
    )


def _quota(row: QuotaInput) -> QuotaModel:
    return QuotaModel(
        fixed_milli_gpu=_amount(row, "fixed"),
        guaranteed_milli_gpu=_amount(row, "guaranteed"),
        limit_milli_gpu=_limit_of(row),
        over_quota_weight=_weight(row),
    )


def _limit_of(row: QuotaInput) -> int | None:
    return None if row.limit.strip() in ("", "none", gettext("none")) else _amount(row, "limit")


def _amount(row: QuotaInput, column: str) -> int:
    text = {"fixed": row.fixed, "guaranteed": row.guaranteed, "limit": row.limit}[column]
    where = _where(column, row)
    if not text.strip():
        # A field that somebody cleared is no wish to take everything away.
        message = gettext("%(where)s is empty: write 0 for none.", where=where)
        raise BadRequest(message)
    try:
        milli_gpu = parse_milli_gpu(text.strip())
    except ValueError as error:
        message = f"{where}: {error}"
        raise BadRequest(message) from None
    if milli_gpu > 1_024_000:  # noqa: PLR2004 - the wire format's own bound, said in GPUs
        message = gettext(
            "%(where)s: %(text)s is more than the 1024 GPUs that one quota may have.",
            where=where,
            text=text,
        )
        raise BadRequest(message)
    return milli_gpu


def _where(column: str, row: QuotaInput) -> str:
    return gettext(
        "%(column)s of %(team)s in pool %(pool)s",
        column=gettext(column),
        team=row.team,
        pool=row.pool,
    )


def _weight(row: QuotaInput) -> int:
    text = row.weight.strip()
    if not text:
        message = gettext(
            "%(where)s is empty: write 1 for a plain share, 0 for none.",
            where=_where("weight", row),
        )
        raise BadRequest(message)
    if not (text.isascii() and text.isdigit() and int(text) <= _MAX_WEIGHT):
        message = gettext(
            "%(where)s: %(text)s is not a whole number from 0 (never borrows) to %(most)s.",
            where=_where("weight", row),
            text=repr(text),
            most=_MAX_WEIGHT,
        )
        raise BadRequest(message)
    return int(text)


_READ = {
    "fixed": lambda row: _amount(row, "fixed"),
    "guaranteed": lambda row: _amount(row, "guaranteed"),
    "limit": _limit_of,
    "weight": _weight,
}

"""The start page: what my teams may use, what is free, what I hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpucommons.gpu.providers import isolation_sentence
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext, ngettext
from gpucommons.scheduler.models import (
    JobView,
    LeaseView,
    OfferView,
    PoolView,
    TeamUseView,
    TeamView,
)
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.present.quotas.table import Segment

_FINAL_LEASES = frozenset({"released", "hibernated", "ended"})


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamLine:
    """One of my teams in one pool."""

    team: str
    pool: str
    #: "½ of 2 notebook GPUs free"
    notebooks: str
    #: "4 guaranteed, 2 in use" and what is borrowed.
    training: str
    #: The notebook GPUs of the sentence above it, and no others.
    segments: tuple[Segment, ...]
    in_use: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolLine:
    """One pool."""

    name: str
    kind: str
    free: str
    total: str
    #: "Nothing of it is for notebooks of vision now: …"; empty where what they may have is free.
    for_whom: str
    next_free_ms: int | None
    isolation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mine:
    """Something of mine that lives: a ticket, a notebook, a job."""

    kind: str
    name: str
    detail: str
    state: str
    reason: str
    href: str | None


def team_lines(
    teams: Sequence[TeamView], pools: Sequence[PoolView], offers: Sequence[OfferView]
) -> tuple[TeamLine, ...]:
    """My teams' quotas and use."""
    mine = [team for team in teams if team.mine]
    with_gpus = {pool.name for pool in pools if pool.total_milli_gpu + pool.out_milli_gpu}
    shown = {(o.team, o.pool): o for o in offers}
    lines = []
    for team in mine:
        for use in team.use:
            offer = shown.get((team.name, use.pool))
            fixed = use.quota.fixed_milli_gpu
            used = offer.fixed_used_milli_gpu if offer else use.fixed_used_milli_gpu
            lines.append(
                TeamLine(
                    team=team.name,
                    pool=use.pool,
                    notebooks=_notebooks(fixed, used, offer),
                    training=_training(use, has_gpus=use.pool in with_gpus),
                    segments=_bar(fixed, used),
                    in_use=_held(fixed, used),
                )
            )
    return tuple(lines)


def pool_lines(pools: Sequence[PoolView], offers: Sequence[OfferView] = ()) -> tuple[PoolLine, ...]:
    """Pools with GPUs: free and for whom, total, when the next one frees."""
    return tuple(
        PoolLine(
            name=pool.name,
            kind=pool.gpu_kind or "GPU",
            free=format_milli_gpu(pool.free_milli_gpu),
            total=format_milli_gpu(pool.total_milli_gpu),
            for_whom=_for_whom(pool, offers),
            next_free_ms=None if pool.free_milli_gpu else pool.next_free_ms,
            isolation=gettext(isolation_sentence(pool.isolation)),
        )
        for pool in pools
        if pool.total_milli_gpu
    )


def _for_whom(pool: PoolView, offers: Sequence[OfferView]) -> str:
    """Where a size of mine waits although as much is free: that lies outside my teams' notebook GPUs."""
    here = [one for one in offers if one.pool == pool.name and one.fixed_milli_gpu]
    sizes = [size for one in here for size in one.sizes if size.milli_gpu <= pool.free_milli_gpu]
    if not any(size.lent for size in sizes):
        return ""
    teams = ", ".join(one.team for one in here)
    at_once = [size.milli_gpu for size in sizes if size.availability == "free"]
    if not at_once:
        return gettext(
            "Nothing of it is for notebooks of %(teams)s now: theirs are taken or lent to training, and come back",
            teams=teams,
        )
    return gettext(
        "Notebooks of %(teams)s start at once with up to %(most)s of it: the rest of theirs is taken or lent to training",
        teams=teams,
        most=format_milli_gpu(max(at_once)),
    )


def mine(
    name: str,
    leases: Sequence[LeaseView],
    jobs: Sequence[JobView],
    *,
    lab_url: Callable[[str], str],
) -> tuple[Mine, ...]:
    """My tickets and notebooks, then my jobs. ``lab_url`` tells where a server is found."""
    own = [lease for lease in leases if lease.user == name and lease.state not in _FINAL_LEASES]
    return tuple(_lease(lease, lab_url(lease.server_name)) for lease in own) + tuple(
        _job(job) for job in jobs if job.owner == name
    )


def _notebooks(fixed: int, used: int, offer: OfferView | None) -> str:
    if not fixed:
        return gettext("No notebook GPUs")
    text = gettext(
        "%(free)s of %(fixed)s notebook GPUs free",
        free=format_milli_gpu(max(0, fixed - used)),
        fixed=format_milli_gpu(fixed),
    )
    return text if offer is None else f"{text}{offer.lent_text()}"


def _bar(fixed: int, used: int) -> tuple[Segment, ...]:
    if not fixed or not used:
        return ()
    return (Segment(shown_as="notebook", left=0, width=min(100, round(100 * used / fixed, 3))),)


def _held(fixed: int, used: int) -> str:
    """What the bar stands for; empty where there is none."""
    if not fixed:
        return ""
    return gettext(
        "%(used)s of %(fixed)s notebook GPUs",
        used=format_milli_gpu(used),
        fixed=format_milli_gpu(fixed),
    )


def _training(use: TeamUseView, *, has_gpus: bool) -> str:
    quota = use.quota
    if not has_gpus and not quota.fixed_milli_gpu and not quota.guaranteed_milli_gpu:
        return gettext("This pool has no GPUs: jobs that need none run here.")
    if quota.guaranteed_milli_gpu:
        text = gettext(
            "%(used)s of %(all)s guaranteed in use",
            used=format_milli_gpu(use.guaranteed_used_milli_gpu),
            all=format_milli_gpu(quota.guaranteed_milli_gpu),
        )
    elif quota.fixed_milli_gpu:
        text = gettext("nothing guaranteed for training")
    elif quota.over_quota_weight and quota.limit_milli_gpu != 0:
        text = gettext(
            "for notebooks, ask your admin for fixed quota; training may borrow what is idle"
        )
    else:
        text = gettext("for GPUs of this pool, ask your admin for quota")
    if not use.borrowed_milli_gpu:
        return text
    borrowed = gettext("%(share)s borrowed", share=format_milli_gpu(use.borrowed_milli_gpu))
    return f"{text}, {borrowed}"


def _lease(lease: LeaseView, lab_url: str) -> Mine:
    in_line = lease.state in ("waiting", "granted")
    return Mine(
        # The default server has no name but its kind.
        kind=gettext("ticket") if in_line else gettext("notebook") if lease.server_name else "",
        name=lease.server_name or gettext("notebook"),
        detail=f"{words.asked(lease.milli_gpu, lease.gpu_kind)} · {lease.team}",
        state=words.place(lease.position)
        if lease.state == "waiting" and lease.position
        else words.state(lease.state),
        reason=lease.reason.text if lease.reason and lease.state == "waiting" else "",
        href=f"ticket/{lease.id}" if in_line else lab_url,
    )


def _job(job: JobView) -> Mine:
    workers = ngettext("%(num)s worker", "%(num)s workers", job.workers)
    share = words.gpus(job.milli_gpu) if job.milli_gpu else gettext("CPU only")
    return Mine(
        kind=gettext("job"),
        name=job.name,
        detail=" · ".join((share, *((workers,) if job.workers > 1 else ()), job.team)),
        state=words.state(job.state),
        reason=job.reason.text if job.reason else "",
        href=None,
    )

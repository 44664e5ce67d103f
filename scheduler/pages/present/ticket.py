"""The ticket page: the place in line, why it is so, who holds the GPUs, and what one can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.sentences import sentence
from gpucommons.scheduler.languages.texts import gettext, ngettext
from gpucommons.scheduler.models import IdleView, LeaseView, OfferView
from gpucommons.scheduler.models.notebooks.leases import idle_length
from gpucommons.scheduler.models.text.size_words import size_text
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.present.why_it_waits import Blocking, why

_HOLDING = frozenset({"granted", "active", "warned"})
#: Phases in which there is a notebook.
_WITH_NOTEBOOK = frozenset({"starting", "running"})
_RUNNING = frozenset({"active", "warned"})
_SHOWN_HOLDERS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """One notebook on the team's fixed quota."""

    text: str
    #: What its end would give: ``frees ½``; empty where it is not about to end.
    frees: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Take:
    """A smaller size that is free now."""

    milli_gpu: int
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LikelyBar:
    """Time passed and likely left, on a line that begins when the ticket was asked for.

    Positions are per cent of its length.
    """

    now: int
    left: int
    width: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TicketState:
    """Everything that changes on the ticket page; also its JSON."""

    #: ``waiting``, ``starting``, ``running``, ``over``.
    phase: str
    title: str
    #: ``1`` and ``st``; empty before the first cycle has looked at it.
    place: str
    place_suffix: str
    headline: str
    #: The owner's name for others who may see it; empty for who owns it.
    who_asked: str
    asked: str
    requested_ms: int
    note: str
    reason: str
    unblock: str
    #: In which language these are, and what is in the way: all of them in one.
    said_in: str
    blocking: Blocking | None
    #: ``Likely 10–25 min (past estimates right 8 of 10).``
    likely: str
    likely_bar: LikelyBar | None
    holders_title: str
    holders: tuple[Holder, ...]
    take: Take | None
    #: Where the notebook is, once it runs.
    follow: str | None
    #: True where no hardware stands behind the GPU.
    simulated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A size on the page that asks before a ticket is made."""

    milli_gpu: int
    label: str
    memory: str
    text: str
    free: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Viewer:
    """Who looks at the page."""

    name: str
    #: Where the notebook of the ticket is, for who owns it.
    follow_url: str


def ticket_state(
    lease: LeaseView,
    leases: Sequence[LeaseView],
    offer: OfferView | None,
    *,
    now_ms: int,
    viewer: Viewer,
) -> TicketState:
    """What the page shows of a ticket. ``leases`` are those that the viewer may see.

    Team mates, leads and admins may open the page, too: it says whose ticket it is.
    """
    phase = _phase(lease)
    place, suffix = words.ordinal(lease.position) if lease.position else ("", "")
    waiting = phase == "waiting"
    take = _take(lease, offer) if waiting else None
    owner = "" if lease.user == viewer.name else words.person(lease.user)
    return TicketState(
        phase=phase,
        title=_title(phase, place + suffix, owner),
        place=place if waiting else "",
        place_suffix=suffix if waiting else "",
        headline=_headline(lease, phase, take, owner),
        who_asked=owner,
        asked=words.asked(lease.milli_gpu, lease.gpu_kind),
        requested_ms=lease.requested_ms,
        note=_note(lease, phase, owner),
        **why(lease.reason if waiting else None),
        likely=_likely(lease, offer) if waiting else "",
        likely_bar=_likely_bar(lease, now_ms) if waiting else None,
        holders_title=_holders_title(lease, offer) if waiting else "",
        holders=_holders(lease, leases, now_ms, viewer.name) if waiting else (),
        take=take,
        follow=viewer.follow_url if phase == "running" and not owner else None,
        simulated=bool((lease.slice and lease.slice.simulated) or (offer and offer.simulated)),
    )


def choices(offer: OfferView) -> tuple[Choice, ...]:
    """The sizes of an offer that can be had at all, smallest first."""
    return tuple(
        Choice(
            milli_gpu=size.milli_gpu,
            label=format_milli_gpu(size.milli_gpu),
            memory=words.memory(size.memory_mib),
            text=size_text(size)[0],
            free=size.availability == "free",
        )
        for size in sorted(offer.sizes, key=lambda size: size.milli_gpu)
        if size.availability != "never"
    )


def offer_for(offers: Sequence[OfferView], team: str | None, pool: str | None) -> OfferView | None:
    """The offer of a team and pool; where one is left out, the first that fits."""
    fitting = (
        offer
        for offer in offers
        if team in (None, "", offer.team) and pool in (None, "", offer.pool)
    )
    return next(fitting, None)


def _phase(lease: LeaseView) -> str:
    if lease.state == "waiting":
        return "waiting"
    if lease.state == "granted":
        return "starting"
    return "running" if lease.state in _RUNNING else "over"


def _title(phase: str, place: str, owner: str) -> str:
    if phase in _WITH_NOTEBOOK:
        return _of_notebook(phase, owner)
    if phase == "over":
        return gettext("%(owner)s: not in line", owner=owner) if owner else gettext("Not in line")
    if place:
        title = gettext("%(place)s in line", place=place)
        return f"{owner}: {title}" if owner else title
    if owner:
        return gettext("%(owner)s: waiting in line", owner=owner)
    return gettext("Waiting in line")


def _of_notebook(phase: str, owner: str) -> str:
    if not owner:
        starting = phase == "starting"
        return (
            gettext("Your notebook is starting")
            if starting
            else gettext("Your notebook was started")
        )
    if phase == "starting":
        return gettext("%(owner)s's notebook is starting", owner=owner)
    return gettext("%(owner)s's notebook was started", owner=owner)


def _headline(lease: LeaseView, phase: str, take: Take | None, owner: str) -> str:
    if phase in _WITH_NOTEBOOK:
        return _of_notebook(phase, owner)
    if phase == "over":
        return lease.ended_text or _out_of_line(owner)
    if lease.reason and lease.reason.code == "draining":
        if owner:
            return gettext("A GPU is being cleared for %(owner)s", owner=owner)
        return gettext("A GPU is being cleared for you")
    if take is not None:
        return gettext("Not enough of a notebook GPU is free in %(team)s", team=lease.team)
    return gettext("No notebook GPU is free in %(team)s", team=lease.team)


def _out_of_line(owner: str) -> str:
    if owner:
        return gettext("%(owner)s is no longer in line", owner=owner)
    return gettext("You are no longer in line")


def _note(lease: LeaseView, phase: str, owner: str) -> str:
    if owner and phase == "waiting":
        return gettext(
            "On %(owner)s's turn the notebook is started, also when nobody looks.", owner=owner
        )
    if phase == "waiting":
        return gettext("You may close this page: on your turn the notebook starts by itself.")
    if phase == "over":
        if owner:
            return gettext("Nothing is held or started for %(owner)s.", owner=owner)
        return gettext("Nothing is held or started for you.")
    node = lease.slice.node if lease.slice else ""
    return _note_of_notebook(phase, node)


def _note_of_notebook(phase: str, node: str) -> str:
    if phase == "running":
        if node:
            return gettext("Its server was started on %(node)s.", node=node)
        return gettext("Its server was started.")
    follows = gettext("JupyterHub is asked to start the server; this page follows.")
    if node:
        granted = gettext("A GPU was granted on %(node)s.", node=node)
    else:
        granted = gettext("A GPU was granted.")
    return f"{granted} {follows}"


def _likely(lease: LeaseView, offer: OfferView | None) -> str:
    """Never silent: before the futures were played, what the pool's settings say."""
    if lease.forecast is not None:
        return sentence(lease.forecast.text)
    if offer is not None and offer.win_back_s is not None and _comes_back(lease, offer):
        return gettext(
            "Likely within %(seconds)s s: training that borrows your team's GPUs makes room.",
            seconds=offer.win_back_s,
        )
    return gettext("No likely start is known yet.")


def _comes_back(lease: LeaseView, offer: OfferView) -> bool:
    """Being cleared, or won back as soon as the ticket was looked at."""
    if lease.reason is not None:
        return lease.reason.code == "draining"
    return any(size.lent and size.milli_gpu == lease.milli_gpu for size in offer.sizes)


def _likely_bar(lease: LeaseView, now_ms: int) -> LikelyBar | None:
    forecast = lease.forecast
    if forecast is None or forecast.from_ms is None or forecast.to_ms is None:
        return None
    began_ms = min(lease.requested_ms, now_ms)
    from_ms, to_ms = now_ms + forecast.from_ms, now_ms + forecast.to_ms
    # Beyond the window, too, so that its end is no end of the line.
    whole_ms = max(1, (to_ms - began_ms) * 5 // 4)

    def place(at_ms: int) -> int:
        return 100 * (at_ms - began_ms) // whole_ms

    left = place(from_ms)
    return LikelyBar(
        now=place(now_ms),
        left=left,
        # A window of no length is still to be seen.
        width=max(2, place(to_ms) - left),
        from_ms=from_ms,
        to_ms=to_ms,
    )


def _holders_title(lease: LeaseView, offer: OfferView | None) -> str:
    if offer is None:
        return gettext("%(team)s's notebooks:", team=lease.team)
    used, fixed = offer.fixed_used_milli_gpu, offer.fixed_milli_gpu
    return ngettext(
        "%(team)s holds %(used)s of its %(fixed)s fixed GPU:",
        "%(team)s holds %(used)s of its %(fixed)s fixed GPUs:",
        1 if fixed <= WHOLE_MILLI_GPU else 2,
        team=lease.team,
        used=format_milli_gpu(used),
        fixed=format_milli_gpu(fixed),
    )


def _holders(
    ticket: LeaseView, leases: Sequence[LeaseView], now_ms: int, me: str
) -> tuple[Holder, ...]:
    holding = [
        lease
        for lease in leases
        if lease.team == ticket.team and lease.pool == ticket.pool and lease.state in _HOLDING
    ]
    ordered = sorted(holding, key=lambda lease: (_idle_since(lease, now_ms), lease.user))
    found = [_holder(lease, now_ms, me) for lease in ordered[:_SHOWN_HOLDERS]]
    if len(ordered) > _SHOWN_HOLDERS:
        found.append(
            Holder(
                text=gettext("and %(count)s more", count=len(ordered) - _SHOWN_HOLDERS), frees=""
            )
        )
    return tuple(found)


def _idle_since(lease: LeaseView, now_ms: int) -> int:
    since = lease.idle.idle_since_ms if lease.idle else None
    return now_ms + 1 if since is None else since


def _holder(lease: LeaseView, now_ms: int, me: str) -> Holder:
    name = gettext("you") if lease.user == me else words.person(lease.user)
    share = format_milli_gpu(lease.milli_gpu)
    state, ending = _doing(lease, now_ms)
    return Holder(
        text=f"{name} · {share} · {state}",
        frees=gettext("frees %(share)s", share=share) if ending else "",
    )


def _doing(lease: LeaseView, now_ms: int) -> tuple[str, bool]:
    idle = lease.idle
    if idle is None or idle.idle_since_ms is None:
        # Whether anything computes there is not known: its server may never have reported.
        return words.state(lease.state), False
    spent = gettext("idle %(span)s", span=words.about(now_ms - idle.idle_since_ms))
    if idle.kept_until_ms and idle.kept_until_ms > now_ms and not idle.reclaimed:
        left = words.duration(idle.kept_until_ms - now_ms)
        kept = gettext("its user keeps it for %(span)s more", span=left)
        return f"{spent}, {kept}", False
    return f"{spent}, {_returned(idle, now_ms)}", True


def _returned(idle: IdleView, now_ms: int) -> str:
    if idle.returns_ms is not None:
        return gettext("returned in %(span)s", span=words.duration(idle.returns_ms - now_ms))
    span = idle_length(idle.idle_after_min, idle.idle_after_s)
    return gettext("returned after %(span)s", span=span)


def _take(lease: LeaseView, offer: OfferView | None) -> Take | None:
    if offer is None:
        return None
    free = [
        size.milli_gpu
        for size in offer.sizes
        if size.availability == "free" and size.milli_gpu < lease.milli_gpu
    ]
    if not free:
        return None
    return Take(
        milli_gpu=max(free), label=gettext("Take %(share)s", share=format_milli_gpu(max(free)))
    )

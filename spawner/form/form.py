"""The options form: what can be started right now, in the words of the screens.

Pure: numbers of the scheduler in, text out. The hub puts the result inside its own page and keeps
its own *Start* button, so the form needs no script, and every text is escaped by the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpucommons.gpu.providers import isolation_sentence
from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.texts import (
    ENGLISH,
    gettext,
    language,
    of_template,
    of_template_many,
)
from gpucommons.scheduler.models import LeaseView, OfferList, OfferView, SizeView
from gpucommons.scheduler.models.text.end_words import kept_text, last_end_text
from gpucommons.scheduler.models.text.number_words import decimal
from gpucommons.scheduler.models.text.place_words import place
from gpucommons.scheduler.models.text.size_words import size_text
from gpucommons.spawner.form import idle

_MIB_PER_GIB = 1024
_STALE_AFTER_S = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class FormContext:
    """All that the form says besides the scheduler's numbers."""

    server_name: str = ""
    environments: Sequence[str] = ()
    #: The options of the last start, for preselection.
    last: Mapping[str, object] | None = None
    #: What a notebook without a GPU gets, for example "4 cores, 16 GiB".
    cpu_text: str = ""
    ticket_url: str = ""
    shared_account: bool = False
    #: Whether the user's files are known to outlive the server.
    keeps_files: bool = False
    #: Whether this user's servers can keep kernels whole; None = not known.
    may_keep_kernels: bool | None = True
    #: Whether its reader may give quota themselves.
    gives_quota: bool = False
    #: Why there are no offers; None = the scheduler answered.
    problem: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One size that can be chosen, or cannot and says why."""

    #: Value of the radio button: ``cpu`` or ``team/pool/milli_gpu``.
    value: str
    title: str
    subtitle: str
    text: str
    #: The text is in the language of the form.
    is_translated: bool
    #: ``free``, ``wait`` or ``never``.
    availability: str
    checked: bool = False
    #: Value of its *Wait in line*, for a size that would wait: as above, and the server's name.
    wait: str = ""
    #: What the button for it says, and says to who does not see the card: "Wait in line for 1 GPU".
    wait_text: tuple[str, str] = ("", "")
    #: The size that this user nearly always takes.
    usual: bool = False
    #: Nothing on a GPU starts now, and this is seconds away: its *Wait in line* stands out.
    soon: bool = False

    @property
    def element_id(self) -> str:
        """An id that is valid in HTML."""
        return "gpucommons-" + self.value.replace("/", "-")


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The cards of one team in one pool."""

    team: str
    pool: str
    free: str
    total: str
    #: `` within 20 s: training borrows them until then``; empty where something starts at once.
    lent: str
    cards: tuple[Card, ...]
    isolation: str
    #: "The notebook stops after 60 min without GPU use and without a running cell"; where something
    #: else may be chosen: "Unless chosen otherwise, the notebook stops after …".
    idle_rule: str
    simulated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """The whole form, ready for the template."""

    cpu: Card
    sections: tuple[Section, ...]
    environments: tuple[tuple[str, bool], ...]
    #: What may be chosen for when it is idle: value, words, whether it is chosen; empty = nothing may.
    #: The first is for who chooses nothing.
    on_idle: tuple[tuple[str, str, bool], ...]
    #: How many days its saved kernels may stay; None = there is nothing to be chosen.
    kept: idle.KeptDays | None
    age: str
    last_end: str
    #: The language of it.
    last_end_in: str
    #: What its last stop kept of its kernels.
    kept_text: str
    line: str | None
    line_url: str
    #: Of the waiting line; below it, *Wait in line* posts what else was chosen.
    ticket_url: str
    shared_account: bool
    keeps_files: bool
    problem: str | None


def build_form(offers: OfferList | None, context: FormContext, *, now_ms: int) -> Form:
    """Decide what the form shows."""
    last = context.last or {}
    chosen = _choice(offers, last)
    sections = tuple(
        _section(offer, context, chosen, offers.usual_milli_gpu if offers else None)
        for offer in (offers.offers if offers else ())
    )
    ticket = offers.ticket if offers else None
    last_end, is_translated = last_end_text(offers) if offers else ("", False)
    return Form(
        cpu=Card(
            value="cpu",
            title="CPU",
            subtitle=context.cpu_text or gettext("no GPU"),
            text=gettext("waits for no GPU"),
            is_translated=True,
            availability="free",
            checked=chosen == "cpu",
        ),
        sections=sections,
        environments=_environments(context),
        on_idle=idle.choices(offers, last, may_keep_kernels=context.may_keep_kernels),
        kept=idle.kept_days(offers, last, may_keep_kernels=context.may_keep_kernels),
        age=_age(offers, now_ms),
        last_end=last_end,
        last_end_in=language() if is_translated else ENGLISH,
        kept_text=kept_text(offers.kept) if offers and offers.kept else "",
        line=_line(ticket),
        line_url=_line_url(context),
        ticket_url=context.ticket_url,
        shared_account=context.shared_account,
        keeps_files=context.keeps_files,
        problem=context.problem or _no_quota(offers, gives_quota=context.gives_quota),
    )


def render_form(form: Form) -> str:
    """The HTML that the hub puts into its page."""
    return _templates().get_template("options.html").render(form=form, language=language())


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("gpucommons.spawner"),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.i18n"],
    )
    environment.install_gettext_callables(  # type: ignore[attr-defined] # of the extension
        of_template, of_template_many, newstyle=True
    )
    return environment


def _section(offer: OfferView, context: FormContext, chosen: str, usual: int | None) -> Section:
    free = max(0, offer.fixed_milli_gpu - offer.fixed_used_milli_gpu)
    return Section(
        team=offer.team,
        pool=offer.pool,
        free=format_milli_gpu(free),
        total=format_milli_gpu(offer.fixed_milli_gpu),
        lent=offer.lent_text(),
        cards=tuple(_card(offer, size, context, chosen, usual) for size in offer.sizes),
        isolation=gettext(isolation_sentence(offer.isolation)),
        idle_rule=idle.idle_rule(offer),
        simulated=offer.simulated,
    )


def _card(
    offer: OfferView, size: SizeView, context: FormContext, chosen: str, usual: int | None
) -> Card:
    value = _value(offer, size)
    waits = size.availability == "wait"
    said, translated = size_text(size)
    return Card(
        value=value,
        title=format_milli_gpu(size.milli_gpu),
        subtitle=f"{offer.gpu_kind or 'GPU'} · {decimal(f'{size.memory_mib / _MIB_PER_GIB:.1f}')} GiB",
        text=said,
        is_translated=translated,
        availability=size.availability,
        checked=value == chosen,
        wait="/".join(filter(None, (value, context.server_name))) if waits else "",
        wait_text=_wait_text(size),
        usual=usual == size.milli_gpu,
        soon=size is _soonest(offer, context.last or {}, usual),
    )


def _wait_text(size: SizeView) -> tuple[str, str]:
    gpu = format_milli_gpu(size.milli_gpu)
    if size.lent:
        return gettext("Take it back"), gettext("Take it back for %(gpu)s GPU", gpu=gpu)
    return gettext("Wait in line"), gettext("Wait in line for %(gpu)s GPU", gpu=gpu)


def _soonest(offer: OfferView, last: Mapping[str, object], usual: int | None) -> SizeView | None:
    """What comes back from training, where no size starts at once: that of the last start, else the usual
    one, else the smallest.
    """
    lent = (size for size in offer.sizes if size.lent) if offer.lent_for_s() is not None else ()

    def order(size: SizeView) -> tuple[bool, bool, int]:
        return not _is_again(offer, size, last), size.milli_gpu != usual, size.milli_gpu

    return min(lent, key=order, default=None)


def _value(offer: OfferView, size: SizeView) -> str:
    return f"{offer.team}/{offer.pool}/{size.milli_gpu}"


def _choice(offers: OfferList | None, last: Mapping[str, object]) -> str:
    """The card of the last start, else the usual size; where that cannot start now, the smallest GPU
    that can, else CPU.
    """
    if last.get("milli_gpu") == 0:
        return "cpu"
    free = [
        (offer, size)
        for offer in (offers.offers if offers else ())
        for size in offer.sizes
        if size.availability == "free"
    ]
    again = [one for one in free if _is_again(*one, last)]
    usual = offers.usual_milli_gpu if offers else None
    again += [one for one in free if one[1].milli_gpu == usual]
    smallest_first = sorted(free, key=lambda one: one[1].milli_gpu)
    return next((_value(*one) for one in (*again, *smallest_first)), "cpu")


def _is_again(offer: OfferView, size: SizeView, last: Mapping[str, object]) -> bool:
    return (
        last.get("milli_gpu") == size.milli_gpu
        and last.get("team", offer.team) == offer.team
        and last.get("pool", offer.pool) == offer.pool
    )


def _line_url(context: FormContext) -> str:
    query = urlencode({"server_name": context.server_name}) if context.server_name else ""
    return f"{context.ticket_url}?{query}" if query else context.ticket_url


def _environments(context: FormContext) -> tuple[tuple[str, bool], ...]:
    last = (context.last or {}).get("environment")
    return tuple((name, name == last) for name in context.environments)


def _age(offers: OfferList | None, now_ms: int) -> str:
    if offers is None:
        return ""
    seconds = max(0, now_ms - offers.now_ms) // 1000
    if seconds < _STALE_AFTER_S:
        return gettext("updated just now")
    return gettext("updated %(seconds)s s ago", seconds=seconds)


def place_in_line(ticket: LeaseView | None) -> str | None:
    """Where somebody stands in line; None for who does not."""
    if ticket is None or ticket.state not in {"waiting", "granted"}:
        return None
    asked = {"gpu": format_milli_gpu(ticket.milli_gpu), "team": ticket.team}
    if ticket.state == "granted":
        return gettext("It is your turn: %(gpu)s GPU in %(team)s is kept for you.", **asked)
    where = place(ticket.position) if ticket.position else gettext("in line")
    return gettext("You are %(place)s for %(gpu)s GPU in %(team)s.", place=where, **asked)


def _line(ticket: LeaseView | None) -> str | None:
    text = place_in_line(ticket)
    if ticket is None or ticket.state != "granted":
        return text
    return " ".join((text or "", gettext("Start it below.")))


def _no_quota(offers: OfferList | None, *, gives_quota: bool) -> str | None:
    if offers is None or offers.offers:
        return None
    if not offers.teams:
        found = gettext("You are in no team, so only CPU can be started.")
        mend = (
            gettext(
                "Add yourself to one: to its members in the configuration, or have an admin of JupyterHub add you to its group."
            )
            if gives_quota
            else gettext("Ask your admin to add you to one.")
        )
    else:
        found = gettext("None of your teams has notebook GPUs, so only CPU can be started.")
        mend = (
            gettext("Give a team of yours fixed quota under GPU Commons, above.")
            if gives_quota
            else gettext("Ask your admin for fixed quota.")
        )
    return f"{found} {mend}"

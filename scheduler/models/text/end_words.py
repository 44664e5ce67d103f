"""Why a notebook's last server ended and what it keeps, in the language of whoever reads it."""

from __future__ import annotations

from datetime import UTC, datetime

from gpucommons.scheduler.amount_words import size_words
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, gettext_noop, language, ngettext
from gpucommons.scheduler.models.notebooks.kept import KeptKernelsView
from gpucommons.scheduler.models.notebooks.offers import LastEndView, OfferList
from gpucommons.scheduler.models.text.number_words import decimal
from gpucommons.scheduler.models.text.read_back import form_of

#: As the culler, an admin's reclaim and ``core.events`` write them, the narrower first.
_WHY = (
    gettext_noop("idle %(length)s"),
    gettext_noop("reclaimed by %(who)s: %(reason)s"),
    gettext_noop("hibernated by %(who)s"),
    gettext_noop("Taken out of the line by %(who)s"),
    gettext_noop("Stopped because it was idle"),
    gettext_noop("Its GPU was returned"),
    gettext_noop("Stopped, and its kernels saved first"),
    gettext_noop("An admin took its GPU back"),
    gettext_noop("The notebook server did not start in time"),
    gettext_noop("Its server did not start in time"),
    gettext_noop(
        "Its turn came %(times)s times, and its server did not start: see on JupyterHub's page that it"
        " starts, then wait in line again"
    ),
    gettext_noop("Its node %(node)s was lost and fenced"),
    gettext_noop("A node of its gang, %(node)s, was lost"),
    gettext_noop("Its GPU %(gpu)s is gone from %(node)s"),
    gettext_noop("The cloud takes %(node)s back in %(seconds)s s"),
)


def last_end_text(offers: OfferList) -> tuple[str, bool]:
    """The list's sentence, and whether it is in the reader's language; empty = nothing to say."""
    # An older scheduler tells it in English alone.
    if offers.ended is None or language() == ENGLISH:
        return offers.last_end or "", language() == ENGLISH
    return end_sentence(offers.ended, offers.now_ms)


def end_sentence(ended: LastEndView, now_ms: int) -> tuple[str, bool]:
    """*Stopped at 14:02: idle 60 min.*; and whether its reason has a translation, too."""
    found = form_of(ended.why, _WHY)
    why = ended.why if found is None else gettext(found[0], **found[1])
    when = _when(ended.at_ms, now_ms)
    if ended.ran:
        return gettext("Stopped at %(when)s: %(why)s.", when=when, why=why), found is not None
    said = gettext("Not in line since %(when)s: %(why)s.", when=when, why=why)
    return said, found is not None


def kept_text(kept: KeptKernelsView) -> str:
    """The view's sentence in the reader's language."""
    return kept.text if language() == ENGLISH else kept_sentences(kept)


def kept_brief(kept: KeptKernelsView) -> str:
    """The same below a heading that says *Kept*."""
    return kept.brief if language() == ENGLISH else kept_list(kept)


def kept_sentences(kept: KeptKernelsView) -> str:
    """Say *Your 2 kernels (1.2 GiB) are kept until 3 December*."""
    said = []
    if kept.kernels:
        said.append(
            ngettext(
                "Your kernel (%(size)s) is kept until %(day)s.",
                "Your %(num)s kernels (%(size)s) are kept until %(day)s.",
                kept.kernels,
                size=decimal(size_words(kept.kernel_bytes)),
                day=_day(kept.until_ms),
            )
        )
    if kept.variables:
        said.append(
            ngettext(
                "%(what)s variable is kept (%(size)s) until %(day)s.",
                "%(what)s variables are kept (%(size)s) until %(day)s.",
                kept.variables + kept.variables_lost,
                what=_variables(kept),
                size=decimal(size_words(kept.variable_bytes)),
                day=_day(kept.until_ms),
            )
        )
    return " ".join(said)


def kept_list(kept: KeptKernelsView) -> str:
    """Say *2 kernels (1.2 GiB), until 3 December*."""
    said = []
    if kept.kernels:
        size = decimal(size_words(kept.kernel_bytes))
        said.append(
            ngettext(
                "%(num)s kernel (%(size)s)", "%(num)s kernels (%(size)s)", kept.kernels, size=size
            )
        )
    if kept.variables:
        said.append(
            ngettext(
                "%(what)s variable (%(size)s)",
                "%(what)s variables (%(size)s)",
                kept.variables + kept.variables_lost,
                what=_variables(kept),
                size=decimal(size_words(kept.variable_bytes)),
            )
        )
    return gettext("%(what)s, until %(day)s.", what=", ".join(said), day=_day(kept.until_ms))


def _variables(kept: KeptKernelsView) -> str:
    """``12 of 14`` where some could not be stored, else ``14``."""
    total = kept.variables + kept.variables_lost
    if not kept.variables_lost:
        return str(total)
    return gettext("%(some)s of %(all)s", some=kept.variables, all=total)


def _when(at_ms: int, now_ms: int) -> str:
    """Who comes back after the weekend does not read it as today's."""
    at, now = (datetime.fromtimestamp(ms / 1000, UTC).astimezone() for ms in (at_ms, now_ms))
    time = f"{at:%H:%M}"
    if at.date() == now.date():
        return time
    return gettext("%(time)s on %(day)s", time=time, day=_day(at_ms))


def _day(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    month = at.strftime("%B")
    return gettext("%(number)s %(month)s", number=at.day, month=gettext(month))

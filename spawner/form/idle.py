"""What the form says of a notebook that is idle for too long: what becomes of it, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.languages.texts import gettext, gettext_noop, ngettext
from gpucommons.scheduler.models import OfferList, OfferView

_HIBERNATE_NOT = gettext_noop(
    "Stop it; kernels cannot be saved here, at most their variables are kept"
)
_HIBERNATE_WHERE = gettext_noop(
    "Stop it; where kernels can be saved they go on at the next start,"
    " elsewhere at most their variables are kept"
)
_ON_IDLE = {
    "hibernate": gettext_noop("Stop it; kernels that can be saved go on at the next start"),
    "park": gettext_noop(
        "Let its kernels live and others have its GPU until a cell runs, where that can be done"
    ),
    "release": gettext_noop("Restart it without its GPU"),
    "cull": gettext_noop("Stop it and keep nothing of its kernels"),
}
#: By what becomes of an idle notebook: where that is so, and where something else may be chosen.
_IDLE_RULES = {
    "release": (
        gettext_noop(
            "The notebook restarts without its GPU after %(span)s without GPU use and without a running cell"
        ),
        gettext_noop(
            "Unless chosen otherwise, the notebook restarts without its GPU after %(span)s without GPU use"
            " and without a running cell"
        ),
    ),
    "park": (
        gettext_noop(
            "The notebook gives its GPU to others or stops after %(span)s without GPU use and without a"
            " running cell"
        ),
        gettext_noop(
            "Unless chosen otherwise, the notebook gives its GPU to others or stops after %(span)s without"
            " GPU use and without a running cell"
        ),
    ),
}
_IDLE_STOPS = (
    gettext_noop("The notebook stops after %(span)s without GPU use and without a running cell"),
    gettext_noop(
        "Unless chosen otherwise, the notebook stops after %(span)s without GPU use and without a"
        " running cell"
    ),
)


def idle_rule(offer: OfferView) -> str:
    """The page changes nothing when something is chosen on it, so this holds for each choice."""
    fixed, default = _IDLE_RULES.get(offer.on_idle[0] if offer.on_idle else "", _IDLE_STOPS)
    return gettext(default if len(offer.on_idle) > 1 else fixed, span=offer.idle_after_text())


def choices(
    offers: OfferList | None, last: Mapping[str, object], *, may_keep_kernels: bool | None
) -> tuple[tuple[str, str, bool], ...]:
    """Nothing where no pool leaves a choice."""
    pools = {offer.pool: offer.on_idle for offer in (offers.offers if offers else ())}
    if all(len(allowed) <= 1 for allowed in pools.values()):
        return ()
    hibernate = {True: _ON_IDLE["hibernate"], False: _HIBERNATE_NOT, None: _HIBERNATE_WHERE}
    said = {**_ON_IDLE, "hibernate": hibernate[may_keep_kernels]}
    words = {name: gettext(text) for name, text in said.items()}
    first = {allowed[0] for allowed in pools.values() if allowed}
    rule = first if len(first) == 1 else set()
    # What every pool does by itself is said by the first choice.
    found = [
        name
        for name in words
        if name not in rule and any(name in allowed for allowed in pools.values())
    ]
    chosen = last.get("on_idle")
    return (
        ("", _as_the_pool_says(pools, words), chosen not in found),
        *((name, words[name], name == chosen) for name in found),
    )


def kept_days(
    offers: OfferList | None, last: Mapping[str, object], *, may_keep_kernels: bool | None
) -> KeptDays | None:
    """Nothing where no server of this user could have kept any."""
    all_offers = offers.offers if offers else ()
    if may_keep_kernels is False or not any("hibernate" in one.on_idle for one in all_offers):
        return None
    chosen = last.get("kernels_kept_days")
    days = {one.pool: one.kernels_kept_days for one in all_offers if one.kernels_kept_days}
    told = "; ".join(
        ": ".join((pool, ngettext("%(num)s day", "%(num)s days", count)))
        for pool, count in days.items()
    )
    return KeptDays(
        chosen=chosen if isinstance(chosen, int) and chosen > 0 else None,
        allowed=f" ({told})" if told else "",
    )


def _as_the_pool_says(pools: Mapping[str, Sequence[str]], words: Mapping[str, str]) -> str:
    """What holds where nothing is chosen; of several pools only where they agree in it."""
    first = {allowed[0] for allowed in pools.values() if allowed}
    if len(first) == 1:
        return gettext("As the pool says: %(what)s", what=_lower(words[first.pop()]))
    told = (f"{pool}: {_lower(words[allowed[0]])}" for pool, allowed in pools.items() if allowed)
    return gettext("As its pool says (%(what)s)", what=". ".join(told))


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptDays:
    """For how long saved kernels stay, as far as it can be chosen."""

    chosen: int | None
    #: " (gpu: 7 days)": what pools allow, where they say it.
    allowed: str

"""What the hub's page for a notebook server that does not run says of its end.

JupyterHub knows that the server is gone, the scheduler why. The hub's template asks while it is
rendered, and Lab reads the same page where it is still open: one place says it. Only what is known is
said; a scheduler that is away costs the page two seconds and the reason, nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.languages.texts import ENGLISH, gettext, language, ngettext
from gpucommons.scheduler.models import KeptKernelsView, OfferList
from gpucommons.scheduler.models.text.end_words import kept_brief, kept_text, last_end_text
from gpucommons.spawner.form.answers import BadOptions, parse_options
from gpucommons.spawner.form.start_again import offered

_PATIENCE_S = 2.0
#: Options that say how much GPU.
_SIZES = ("milli_gpu", "gpu_memory")
_NO_GPU = "CPU"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """What the page says."""

    #: "Stopped at 14:02: idle 60 min."; empty where nothing is known, or it was its user's own doing.
    why: str = ""
    #: The language of it: where a reason has no translation it is English.
    why_in: str = ENGLISH
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    #: Whether the same size would start now: "½ GPU is free now."
    again: str = ""
    #: What was started last: "½ GPU", "CPU". One press starts it again, or leads to the form with the reason
    #: why it cannot start now; empty where that is not known.
    size: str = ""

    #: "Your 2 kernels (1.2 GiB) are kept until 3 December."; empty where nothing was reported.
    kernels: str = ""

    @property
    def start(self) -> str:
        """What the button says."""
        if not self.size:
            return gettext("Start again")
        return gettext("Start again on %(size)s", size=self.size)


def stopped_words(
    offers: OfferList | None, last: Mapping[str, object], *, keeps_files: bool
) -> Stopped:
    """Decide what is said of a server whose last options these were."""
    size = _size(last)
    if offers is None:
        return Stopped(size=size)
    kernels = () if offers.kept is None else (kept_brief(offers.kept),)
    files = (gettext("Saved files."),) if keeps_files else ()
    # Whoever had no GPU had no lease: the end that the scheduler remembers is an older one's.
    why, is_translated = last_end_text(offers)
    if not why or size == _NO_GPU:
        return Stopped(
            size=size,
            again=_again(offers, last),
            kept=(*(files if size else ()), *kernels),
            # Who stopped it themselves is told as much; of what never started nothing is known.
            lost=(_lost(offers.kept, in_order=False),) if size else (),
            kernels="" if offers.kept is None else kept_text(offers.kept),
        )
    return Stopped(
        why=why,
        why_in=language() if is_translated else ENGLISH,
        kept=(*files, *kernels),
        lost=(_lost(offers.kept, in_order=True),),
        kernels="" if offers.kept is None else kept_text(offers.kept),
        again=_again(offers, last),
        size=size,
    )


def _lost(kept: KeptKernelsView | None, *, in_order: bool) -> str:
    """What ended with the server, but for what was reported as kept. One that was killed reports nothing."""
    if kept is None and not in_order:
        return gettext(
            "Its terminals ended with it. No kernel was reported as kept; those of a server that was killed may have saved themselves: its next start shows it."
        )
    if kept is None:
        return gettext("Its kernels and terminals ended with it: their variables are lost.")
    if not kept.variables:
        return gettext("Its terminals and other kernels, if there were any.")
    rest = gettext(
        "All else of the kernels that are not kept whole; its terminals, if there were any."
    )
    return rest if not kept.variables_lost else f"{_not_stored(kept.variables_lost)} {rest}"


def _not_stored(count: int) -> str:
    return ngettext(
        "%(num)s variable that could not be stored.",
        "%(num)s variables that could not be stored.",
        count,
    )


def _size(last: Mapping[str, object]) -> str:
    """The size of the last start in words."""
    try:
        chosen = parse_options({key: last[key] for key in _SIZES if key in last})
    except BadOptions:
        return ""
    return chosen.asked if chosen.wants_gpu else _NO_GPU if last.get("milli_gpu") == 0 else ""


def _again(offers: OfferList, last: Mapping[str, object]) -> str:
    """Whether the size of the last start is free, and what becomes of a start if not; empty where there was
    none, or it is no offer.
    """
    try:
        chosen = parse_options({key: last[key] for key in (*_SIZES, "team", "pool") if key in last})
    except BadOptions:
        return ""
    found = offered(offers, chosen)
    if found is None:
        return ""
    gpu = format_milli_gpu(found[1].milli_gpu)
    match found[1].availability:
        case "free":
            return gettext("%(gpu)s GPU is free now.", gpu=gpu)
        case "wait":
            return gettext(
                "%(gpu)s GPU is not free now. Starting again leads into the line for it: on your turn the"
                " notebook starts by itself.",
                gpu=gpu,
            )
        case _:
            return ""


async def stopped(user: Any, server_name: str) -> Stopped:
    """For the template: ask the scheduler, but not for long."""
    spawner = user.spawners[server_name]
    # A hub may have other spawners beside ours.
    if not getattr(spawner, "scheduler_url", ""):
        return Stopped()
    offers = None
    try:
        offers = await asyncio.wait_for(spawner.offers(), _PATIENCE_S)
    except (SchedulerError, TimeoutError) as error:
        spawner.log.warning("Why %s ended is not known: %s", spawner._log_name, error)
    last = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    return stopped_words(offers, last or {}, keeps_files=spawner.keeps_files())

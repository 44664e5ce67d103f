"""Starting a server again as it was last started, with one press.

JupyterHub starts a server at once where a link to its spawn page carries options. ``again`` stands for
those of the last start: no page need know them, and what became of them meanwhile is said by the form.
What has to wait by now gets the same ticket as from the form: only the hub knows at the press.
"""

from __future__ import annotations

from collections.abc import Mapping

from tornado.httputil import url_concat

from gpucommons.scheduler.models import OfferList, OfferView, SizeView
from gpucommons.spawner.form.answers import HUB_FIELDS, LINK_PREFIX, BadOptions, NotebookOptions

AGAIN = "again"


def again_url(spawn_url: str) -> str:
    """A link that starts at once what was started last."""
    return str(url_concat(spawn_url, {f"{LINK_PREFIX}{AGAIN}": "1"}))


def options_of_last(given: Mapping[str, object], last: Mapping[str, object]) -> dict[str, object]:
    """What was started last.

    Raises
    ------
    BadOptions
        Where nothing was, or something else is asked for besides.
    """
    others = sorted({key.removeprefix(LINK_PREFIX) for key in given} - {AGAIN} - HUB_FIELDS)
    if others:
        message = f"again starts what was started last: leave out {' and '.join(others)}."
        raise BadOptions(message)
    if not last:
        message = "Nothing was started here before: choose a size."
        raise BadOptions(message)
    # Its turn has passed.
    return {key: value for key, value in last.items() if key != "ticket"}


def offered(offers: OfferList, chosen: NotebookOptions) -> tuple[OfferView, SizeView] | None:
    """The size that would be started, one that is free before others; None where it is no offer."""
    found = [
        (offer, size)
        for offer in offers.offers
        if (chosen.team or offer.team, chosen.pool or offer.pool) == (offer.team, offer.pool)
        for size in sorted(offer.sizes, key=lambda one: one.milli_gpu)
        if _is_asked(size, chosen)
    ]
    return min(found, key=lambda one: one[1].availability != "free", default=None)


def _is_asked(size: SizeView, chosen: NotebookOptions) -> bool:
    if chosen.gpu_memory_mib:
        return size.memory_mib >= chosen.gpu_memory_mib
    return size.milli_gpu == chosen.milli_gpu


def line_url(
    ticket_url: str, server_name: str, chosen: NotebookOptions, place: tuple[OfferView, SizeView]
) -> str:
    """The page that asks whether to wait in line for it."""
    offer, size = place
    fields: dict[str, object] = {
        "team": offer.team,
        "pool": offer.pool,
        "milli_gpu": size.milli_gpu,
        "server_name": server_name,
        "environment": chosen.environment,
        "on_idle": chosen.on_idle,
        "kernels_kept_days": chosen.kernels_kept_days,
    }
    return str(
        url_concat(ticket_url, {name: str(value) for name, value in fields.items() if value})
    )

"""What somebody asks of the waiting line, from a link, from the hub's form, or from our own.

The hub's form has more fields than we know. Those of a KubeSpawner profile go with the ticket, for the
server that starts when its turn comes; others may be secrets, such as a password field of an admin's own
form, and stay out of addresses, which proxies and browsers write down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.gpu.slices.slices import parse_milli_gpu
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.models.administration.pools import MAX_KEPT_DAYS

#: Fields of the hub's form that say what the wish itself is.
_WISH = ("wait", "environment", "on_idle", "kernels_kept_days")
_MOST_DIGITS = 10
#: Team, pool and size of a card of the hub's form; the server's name behind them.
_WAIT_PARTS = (3, 4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """A wish as far as it is said; the rest is asked on the page."""

    team: str = ""
    pool: str = ""
    milli_gpu: int | None = None
    server_name: str = ""
    environment: str = ""
    on_idle: str = ""
    kernels_kept_days: int = 0
    #: Fields of a profile, as forms send them.
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_wish(fields: Mapping[str, Sequence[str]]) -> Wish:
    """Read the fields of an address or form.

    Raises
    ------
    BadRequest
        When one of them cannot be understood.
    """
    given = {name: values[-1] for name, values in fields.items() if values}
    if "wait" in given:
        given |= _read_card(given["wait"])
    return Wish(
        team=given.get("team", ""),
        pool=given.get("pool", ""),
        milli_gpu=_size(given),
        server_name=given.get("server_name", ""),
        environment=given.get("environment", ""),
        on_idle=given.get("on_idle", ""),
        kernels_kept_days=_days(given.get("kernels_kept_days", "")),
        others=of_profile(fields),
    )


def of_profile(fields: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The fields of a KubeSpawner profile."""
    return {
        name: values
        for name, values in fields.items()
        if values and (name == "profile" or name.startswith("profile-option-"))
    }


def for_address(fields: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """What may stand in an address of all that the hub's form holds."""
    return {name: fields[name] for name in _WISH if name in fields} | of_profile(fields)


def _read_card(text: str) -> dict[str, str]:
    parts = text.split("/")
    if len(parts) not in _WAIT_PARTS:
        message = f"wait is team/pool/milli_gpu, for example vision/gpu/500; got {text[:60]!r}."
        raise BadRequest(message)
    return dict(zip(("team", "pool", "milli_gpu", "server_name"), parts, strict=False))


def _days(text: str) -> int:
    if not text:
        return 0
    # Python turns no text of thousands of digits into a number.
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not is_number or not 1 <= int(text) <= MAX_KEPT_DAYS:
        message = (
            f"kernels_kept_days is a number of days from 1 to {MAX_KEPT_DAYS}; got {text[:20]!r}."
        )
        raise BadRequest(message)
    return int(text)


def _size(given: Mapping[str, str]) -> int | None:
    text, size = given.get("milli_gpu", ""), given.get("size", "")
    try:
        if text:
            return int(text)
        return parse_milli_gpu(size) if size else None
    except ValueError:
        raise BadRequest(
            "The size in this address is not a number of GPUs: write size=½ or milli_gpu=500."
        ) from None

"""What a user may say when starting a notebook, read the same way from form and API.

The options form sends lists of text, the REST API sends JSON, links carry ``opt-`` queries, and the
hub hands back what it stored last time. All of it ends here, in one frozen value or in one clear
refusal, so that nothing further inside ever meets a type it does not expect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import NOTEBOOK_OPTIONS
from gpucommons.scheduler.models.administration.pools import MAX_KEPT_DAYS
from gpucommons.scheduler.on_idle import ON_IDLE, OnIdle

#: More than this in one notebook is a mistake of typing.
MAX_MILLI_GPU = 64 * WHOLE_MILLI_GPU
MAX_GPU_MEMORY_MIB = 16_777_216
#: Of all options as the hub stores them. Lists of servers repeat them, known and unknown ones.
MAX_OPTIONS_BYTES = 8 << 10

LINK_PREFIX = "opt-"
#: Fields that the hub's own pages put beside ours.
HUB_FIELDS = frozenset({"_xsrf", "display_name"})
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_GIB = re.compile(r"([0-9]{1,6}(?:[.,][0-9]{1,3})?) *(?:GiB|gib)?")
_MIB_PER_GIB = 1024
_DIGITS = re.compile(r"[0-9]{1,7}")
#: How much of a wrong value is repeated in a refusal.
_SHOWN_CHARACTERS = 60


class BadOptions(ValueError):
    """These options cannot be understood."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotebookOptions:
    """A notebook as its user asked for it."""

    #: 0 = no GPU.
    milli_gpu: int = 0
    #: In place of a size: the smallest one with so much GPU memory; 0 = not asked so.
    gpu_memory_mib: int = 0
    #: Who pays; None lets the scheduler choose where only one team is possible.
    team: str | None = None
    pool: str | None = None
    #: Name of an environment of the deployment; empty = its first one.
    environment: str = ""
    #: What is to become of it when it was idle for too long; empty = as its pool says.
    on_idle: OnIdle | Literal[""] = ""
    #: Its saved kernels stay no longer than so many days, nor than its pool allows; 0 = as that says.
    kernels_kept_days: int = 0
    #: The place in line that this start redeems. A stale one counts as none.
    ticket: str | None = None

    @property
    def wants_gpu(self) -> bool:
        """A slice is to be taken for it."""
        return bool(self.milli_gpu or self.gpu_memory_mib)

    @property
    def asked(self) -> str:
        """``½ GPU``, ``12 GiB of GPU memory``."""
        if self.gpu_memory_mib:
            gib = f"{self.gpu_memory_mib / _MIB_PER_GIB:g}"
            return gettext("%(gib)s GiB of GPU memory", gib=gib)
        return format_gpus(self.milli_gpu)

    def as_user_options(self) -> dict[str, int | str]:
        """The flat object that the hub stores, and that the REST API takes."""
        found: dict[str, int | str] = {"milli_gpu": self.milli_gpu}
        if self.gpu_memory_mib:
            found = {"gpu_memory": f"{self.gpu_memory_mib / _MIB_PER_GIB:g} GiB"}
        for name in ("team", "pool", "environment", "on_idle", "kernels_kept_days", "ticket"):
            value = getattr(self, name)
            if value:
                found[name] = value
        return found


def parse_options(
    raw: Mapping[str, object] | None,
    *,
    environments: Collection[str] = (),
    others: Collection[str] = (),
) -> NotebookOptions:
    """Read the options of form or API.

    ``environments`` are the names that exist; ``others`` are keys that something else handles
    (for example KubeSpawner's ``profile``).

    Raises
    ------
    BadOptions
        With a sentence for the user.
    """
    check_size(raw)
    given = _without_prefix({key: _single(key, value) for key, value in (raw or {}).items()})
    fields = {key: value for key, value in given.items() if value is not None and value != ""}
    for key in given:
        if key not in NOTEBOOK_OPTIONS and key not in HUB_FIELDS and key not in others:
            possible = ", ".join(sorted(NOTEBOOK_OPTIONS))
            message = f"There is no option {shown(key)}. Possible are {possible}."
            raise BadOptions(message)
    if "gpu_memory" in fields:
        # A form always sends a card as well: what was written goes before it.
        fields.pop("offer", None)
    if "offer" in fields:
        fields = _with_offer(fields)
    return NotebookOptions(
        milli_gpu=_milli_gpu(fields.get("milli_gpu", 0)),
        gpu_memory_mib=_gpu_memory(fields),
        team=_name("team", fields.get("team")),
        pool=_name("pool", fields.get("pool")),
        environment=_environment(fields.get("environment", ""), environments),
        on_idle=_on_idle(fields.get("on_idle", "")),
        kernels_kept_days=_kept_days(fields.get("kernels_kept_days", 0)),
        ticket=_ticket(fields.get("ticket")),
    )


def check_size(raw: Mapping[str, object] | None) -> None:
    """Refuse options that are too large to be kept, whoever reads them.

    Raises
    ------
    BadOptions
        With a sentence for the user.
    """
    found = len(json.dumps(raw or {}, default=repr))
    if found > MAX_OPTIONS_BYTES:
        message = (
            f"The options of a notebook take {MAX_OPTIONS_BYTES >> 10} KiB at most as JSON; these take"
            f" {-(-found // 1024)} KiB. Keep larger things in a file."
        )
        raise BadOptions(message)


def _single(key: str, value: object) -> object:
    """Forms and queries send every value as a list of one."""
    if not isinstance(value, list | tuple):
        return value
    if len(value) > 1:
        message = f"{shown(key)} was given {len(value)} times; give it once."
        raise BadOptions(message)
    return value[0] if value else None


def _without_prefix(given: Mapping[str, object]) -> dict[str, object]:
    """Links say ``opt-milli_gpu``; JupyterHub 6 takes the prefix off, 5 does not."""
    found: dict[str, object] = {}
    for key, value in given.items():
        name = key.removeprefix(LINK_PREFIX)
        if name in found:
            message = f"{shown(name)} was given with and without {LINK_PREFIX}; give it once."
            raise BadOptions(message)
        found[name] = value
    return found


def _with_offer(fields: dict[str, object]) -> dict[str, object]:
    """``offer`` is one card of the form, ``team/pool/milli_gpu``: one radio button, three fields."""
    offer = fields.pop("offer")
    clash = sorted({"milli_gpu", "team", "pool"} & fields.keys())
    if clash:
        message = f"Give either offer or {' and '.join(clash)}, not both."
        raise BadOptions(message)
    if offer == "cpu":
        return fields
    parts = offer.split("/") if isinstance(offer, str) else []
    if len(parts) != 3:  # noqa: PLR2004 - team, pool and size
        message = f"offer is team/pool/milli_gpu, for example vision/gpu/500; got {shown(offer)}."
        raise BadOptions(message)
    return {**fields, "team": parts[0], "pool": parts[1], "milli_gpu": parts[2]}


def _milli_gpu(value: object) -> int:
    text = shown(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        message = (
            "milli_gpu counts thousandths of a GPU as a whole number: 0 is CPU only, 500 is ½,"
            f" 1000 is one GPU; got {text}."
        )
        raise BadOptions(message)
    if not 0 <= value <= MAX_MILLI_GPU:
        message = f"milli_gpu must be between 0 and {MAX_MILLI_GPU}; got {text}."
        raise BadOptions(message)
    if value > WHOLE_MILLI_GPU and value % WHOLE_MILLI_GPU:
        whole = value // WHOLE_MILLI_GPU
        message = (
            f"A notebook takes a share of one GPU or whole GPUs; {format_milli_gpu(value)} is"
            f" neither. Take {whole} or {whole + 1}."
        )
        raise BadOptions(message)
    return value


def _gpu_memory(fields: Mapping[str, object]) -> int:
    value = fields.get("gpu_memory")
    if value is None:
        return 0
    if fields.get("milli_gpu") not in (None, 0, "0"):
        message = "Give either milli_gpu or gpu_memory, not both."
        raise BadOptions(message)
    found = _GIB.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    mib = round(float(found[1].replace(",", ".")) * _MIB_PER_GIB) if found else 0
    if not 0 < mib <= MAX_GPU_MEMORY_MIB:
        message = f"gpu_memory is a number of GiB, for example 12 GiB; got {shown(value)}."
        raise BadOptions(message)
    return mib


def _name(key: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        message = (
            f"{key} must be a name of lower-case letters, digits and hyphens; got {shown(value)}."
        )
        raise BadOptions(message)
    return value


def _environment(value: object, environments: Collection[str]) -> str:
    if value == "":
        return ""
    if not isinstance(value, str) or value not in environments:
        names = ", ".join(environments) or "none but the default"
        message = f"There is no environment {shown(value)}. Possible are: {names}."
        raise BadOptions(message)
    return value


def _on_idle(value: object) -> OnIdle | Literal[""]:
    if value == "":
        return ""
    for one in ON_IDLE:
        if value == one:
            return one
    message = f"on_idle is {', '.join(ON_IDLE)} or empty; got {shown(value)}."
    raise BadOptions(message)


def _kept_days(value: object) -> int:
    text = shown(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_KEPT_DAYS:
        message = (
            f"kernels_kept_days is a whole number of days from 1 to {MAX_KEPT_DAYS}, or 0 for as"
            f" long as is allowed; got {text}."
        )
        raise BadOptions(message)
    return value


def _ticket(value: object) -> str | None:
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def shown(value: object) -> str:
    """A wrong value, as much of it as a refusal repeats."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

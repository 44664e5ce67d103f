"""A notebook's hold on its slice, from the place in line to its end."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gpucommons.scheduler.models.administration.pools import MAX_KEPT_DAYS, MpsModel
from gpucommons.scheduler.models.fields import Line, Model, Name, UserName, View
from gpucommons.scheduler.models.jobs.reasons import ForecastView, ReasonView
from gpucommons.scheduler.models.notebooks.kept import KeptKernelsView
from gpucommons.scheduler.on_idle import KEEP_MIN, OnIdle

#: The keys of ours among a server's ``user_options``; ``offer`` is a card of the options form.
NOTEBOOK_OPTIONS = frozenset(
    {
        "milli_gpu",
        "team",
        "pool",
        "environment",
        "ticket",
        "offer",
        "gpu_memory",
        "on_idle",
        "kernels_kept_days",
    }
)
#: Fields that the hub's pages and API put beside options: it refuses them as options, or errs.
HUB_FIELDS = frozenset({"_xsrf", "display_name", "user_options"})

#: More is no form's: the hub keeps it, and posts it with each start. With ours beside them, and written
#: in ASCII, they must be within what the spawner takes, 8 KiB.
MAX_OPTIONS, MAX_OPTIONS_BYTES = 64, 7 << 10


def _startable(options: dict[str, list[str]]) -> dict[str, list[str]]:
    """What the hub takes when it starts the server; else the place in line would be for nothing."""
    ours = sorted(key for key in options if key.removeprefix("opt-") in NOTEBOOK_OPTIONS)
    if ours:
        message = f"{', '.join(ours)} are fields of their own: leave them out here"
        raise ValueError(message)
    hubs = sorted(key for key in options if key.removeprefix("opt-") in HUB_FIELDS)
    if hubs:
        message = f"{', '.join(hubs)} are fields of JupyterHub's own, not options: leave them out"
        raise ValueError(message)
    empty = sorted(key for key, values in options.items() if not values)
    if empty:
        message = f"{', '.join(empty)} has no value: give one, or leave it out"
        raise ValueError(message)
    if len(json.dumps(options)) > MAX_OPTIONS_BYTES:
        message = f"the other options are larger than {MAX_OPTIONS_BYTES >> 10} KiB"
        raise ValueError(message)
    return options


#: What a form holds besides ours, for example a KubeSpawner profile: fields as forms send them.
OtherOptions = Annotated[
    dict[Annotated[Line, Field(min_length=1)], list[Line]],
    Field(max_length=MAX_OPTIONS),
    AfterValidator(_startable),
]


def _in_addresses(name: str) -> str:
    """Dots alone lead elsewhere in the hub's addresses: neither its pages nor we could stop such a server."""
    if name in (".", ".."):
        message = f"a server called {name!r} cannot be stopped by its address: give it another name"
        raise ValueError(message)
    return name


ServerName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,64}$"), AfterValidator(_in_addresses)
]


class LeaseRequest(Model):
    """A slice for a notebook server: the spawner's acquire (with ``user``) or a user's ticket."""

    server_name: ServerName = ""
    #: Only the hub may ask for others.
    user: UserName | None = None
    team: Name | None = None
    pool: Name | None = None
    #: One of this and ``gpu_memory_mib``.
    milli_gpu: Annotated[int, Field(strict=True, ge=0, le=1_024_000)] = 0
    #: The smallest notebook size of the team's pools that has so much GPU memory.
    gpu_memory_mib: Annotated[int, Field(strict=True, ge=1, le=16_777_216)] | None = None
    gpu_kind: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._-]{1,64}$")] | None = None
    environment: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._:/@-]{0,256}$")] = ""
    #: What is to become of it when it was idle for too long; empty = as its pool says.
    on_idle: OnIdle | Literal[""] = ""
    #: Its saved kernels stay no longer than so many days, nor than its pool allows; 0 = as that says.
    kernels_kept_days: Annotated[int, Field(strict=True, ge=0, le=MAX_KEPT_DAYS)] = 0
    #: With which its server starts when its turn comes; empty: those of its last start.
    other_options: OtherOptions = {}

    @model_validator(mode="after")
    def _one_size(self) -> LeaseRequest:
        if bool(self.milli_gpu) == bool(self.gpu_memory_mib):
            message = "say how much GPU: milli_gpu (500 is ½) or gpu_memory_mib, one of them"
            raise ValueError(message)
        return self


class SliceView(View):
    """The slice a notebook holds, all that a sharing provider needs to attach it."""

    slice_id: str
    node: str
    device_ids: list[str]
    device_indices: list[int]
    gpu_kind: str
    milli_gpu: int
    memory_mib: int
    isolation: str
    simulated: bool
    #: That GPUs of it are unhealthy, in sentences.
    trouble: str | None = None
    #: On a cluster: UUIDs of the devices, in the order of the bus. There ``device_ids`` are slots.
    visible_devices: list[str] = []
    #: On a cluster: whole GPUs that the pod asks of the device plugin, which then picks them.
    plugin_devices: int = 0
    #: On a cluster: who makes the slice there (``kai``, ``hami``, ``dra``); empty = our agent.
    provider: str = ""
    #: On a cluster: the pod may ask its node for what saves its kernels (``gpucommons.io/hibernate``).
    can_hibernate: bool = False
    #: The daemon of a pool that opted in to MPS.
    mps: MpsModel | None = None


def idle_length(minutes: int, seconds: int | None) -> str:
    """A limit of idleness: ``60 min``, ``90 s``, ``10 min 30 s``; minutes alone from an older scheduler."""
    if seconds is None or seconds == 60 * minutes:
        return f"{minutes} min"
    whole, rest = divmod(seconds, 60)
    return f"{whole} min {rest} s" if whole > 1 and rest else f"{seconds} s"


class IdleView(View):
    """The idle timer of a notebook."""

    idle_since_ms: int | None = None
    warned_ms: int | None = None
    returns_ms: int | None = None
    keeps_left: int = 0
    kept_until_ms: int | None = None
    #: An admin asks for the GPU: ``returns_ms`` holds, whatever was kept before.
    reclaimed: bool = False
    #: Limits in force, in minutes, for the sentence "returned after 60 idle min".
    idle_after_min: int = 60
    warn_after_min: int = 50
    #: The same to the second; None from an older scheduler.
    idle_after_s: int | None = None
    warn_after_s: int | None = None
    #: What is to become of it then, and what else its pool allows.
    on_idle: str = "hibernate"
    on_idle_allowed: list[str] = []
    #: How long its saved kernels stay at most, by its user's choice and its pool, and how large those of
    #: its user may be together; None = as its server's own settings say.
    kernels_kept_days: int | None = None
    kernels_kept_gib: int | None = None
    #: What its server says that it keeps when it stops: ``kernels``, ``variables`` or ``nothing``;
    #: empty = it has not said anything yet.
    keeps: str = ""
    #: Both in a sentence: "Its server is stopped. Kernels that can be saved are kept …".
    on_idle_text: str = ""
    #: It is parked then: that was chosen, its server can, and nothing stood in the way when it was tried.
    parks: bool = False
    #: It can be parked now, as its user likes: its server says so, and its pool allows it.
    can_park: bool = False
    #: Why it was not parked when that was tried last, and it has been idle since.
    not_parked: str = ""


class LeaseView(View):
    """A notebook's hold on its slice, or its place in line."""

    id: str
    user: str
    server_name: str
    team: str
    pool: str
    state: str
    milli_gpu: int
    gpu_kind: str | None = None
    environment: str = ""
    other_options: dict[str, list[str]] = {}
    requested_ms: int
    since_ms: int
    position: int | None = None
    #: While it waits.
    forecast: ForecastView | None = None
    reason: ReasonView | None = None
    redeem_by_ms: int | None = None
    #: Its GPU memory is on the host since then, also while it waits to have its GPU back.
    parked_ms: int | None = None
    #: Since when its server ran, also after its end; None where it never did.
    started_ms: int | None = None
    slice: SliceView | None = None
    idle: IdleView | None = None
    #: It is offered to become a job once it has kept its GPU busy for so long; 0 = never.
    job_offer_after_s: int = 0
    ended_text: str | None = None
    #: What its server said that it kept of its kernels; None = nothing, or not any more.
    kept: KeptKernelsView | None = None


class LeaseList(View):
    """Leases, newest first."""

    leases: list[LeaseView]
    cursor: str | None = None


class StartedReport(Model):
    """The spawner says: the server runs, and this process is the root of its tree."""

    pid: int | None = Field(default=None, strict=True, ge=2, le=2**31 - 1)


class EndReport(Model):
    """Why a lease ends."""

    why: Literal["stopped", "culled", "released", "reclaimed", "failed", "left"] = "stopped"
    text: Line = ""


class KeepRequest(Model):
    """*Keep 30 min*."""

    minutes: int = Field(default=KEEP_MIN, strict=True, ge=1, le=KEEP_MIN)


class ResizeRequest(Model):
    """Another memory limit for a notebook's slice."""

    memory_mib: int = Field(strict=True, ge=1, le=1 << 30)


class HibernateRequest(Model):
    """*Hibernate*: save the kernels of a server and stop it."""

    #: Why, in the culler's words.
    text: Line = ""


class OnIdleRequest(Model):
    """What is to become of a notebook that was idle for too long; empty = as its pool says."""

    on_idle: OnIdle | Literal[""]


class ReclaimRequest(Model):
    """An admin wants a notebook's GPU back."""

    force: bool = False
    reason: Line = ""

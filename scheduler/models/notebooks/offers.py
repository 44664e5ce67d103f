"""What a user may open as a notebook right now: the options form."""

from __future__ import annotations

from typing import Literal

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models.fields import View
from gpucommons.scheduler.models.notebooks.kept import KeptKernelsView
from gpucommons.scheduler.models.notebooks.leases import LeaseView, idle_length

#: ``free``: starts at once; ``wait``: a ticket would wait (also behind a reclaim); ``never``.
Availability = Literal["free", "wait", "never"]


class SizeView(View):
    """One notebook size of the options form."""

    milli_gpu: int
    memory_mib: int
    availability: Availability
    text: str
    #: Which sentence this is, and what stands in it: for screens of other languages.
    code: str = ""
    values: dict[str, str | int] = {}
    #: It waits only because training borrows it: whoever asks has it back in seconds.
    lent: bool = False


class OfferView(View):
    """What a user may open as a notebook in one team and pool right now: the options form."""

    team: str
    pool: str
    gpu_kind: str | None = None
    fixed_milli_gpu: int
    fixed_used_milli_gpu: int
    sizes: list[SizeView]
    isolation: str
    simulated: bool
    idle_after_min: int = 60
    #: The same to the second; None from an older scheduler.
    idle_after_s: int | None = None
    #: Within how many seconds what is lent is the team's again; None from an older scheduler.
    win_back_s: int | None = None
    #: What may be chosen for when it is idle; the first is for who chooses nothing.
    on_idle: list[str] = []
    #: How long saved kernels of its notebooks stay at most; None = the pool does not say.
    kernels_kept_days: int | None = None

    def idle_after_text(self) -> str:
        """``60 min``; ``90 s`` where whole minutes would say less."""
        return idle_length(self.idle_after_min, self.idle_after_s)

    def lent_for_s(self) -> int | None:
        """Where training has what no size starts without: it comes back within so many seconds."""
        if any(size.availability == "free" for size in self.sizes):
            return None
        return self.win_back_s if any(size.lent for size in self.sizes) else None

    def lent_text(self) -> str:
        """What follows "2 of 2 notebook GPUs free" where training has a part of it, or all."""
        if self.win_back_s is None or not any(size.lent for size in self.sizes):
            return ""
        at_once = [size.milli_gpu for size in self.sizes if size.availability == "free"]
        if not at_once:
            return gettext(
                " within %(seconds)s s: training borrows them until then",
                seconds=self.win_back_s,
            )
        return gettext(
            ", up to %(most)s at once; training borrows the rest and gives it back within %(seconds)s s",
            most=format_milli_gpu(max(at_once)),
            seconds=self.win_back_s,
        )


class LastEndView(View):
    """How the last lease of a server ended, where that was not its user's own doing."""

    at_ms: int
    #: Its server ran; else it left the line.
    ran: bool
    #: In English, as a clause: "idle 60 min".
    why: str


class OfferList(View):
    """All offers for one user; ``now_ms`` gives the age of the data."""

    user: str
    offers: list[OfferView]
    #: The user's teams, with notebook GPUs or without.
    teams: list[str] = []
    now_ms: int
    ticket: LeaseView | None = None
    #: The size that the user nearly always takes; None where there is no such size.
    usual_milli_gpu: int | None = None
    #: The last end of this server, for "Stopped at 14:02: idle 60 min."
    last_end: str | None = None
    #: The same in parts, for other languages; None also from an older scheduler.
    ended: LastEndView | None = None
    #: What the last stop of this server kept of its kernels; None where nothing was reported.
    kept: KeptKernelsView | None = None

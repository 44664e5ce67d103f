"""Who is calling, and what a refusal looks like."""

from __future__ import annotations

from typing import Literal

from gpucommons.scheduler.models.fields import View


class WhoAmI(View):
    """The caller, as the scheduler sees it."""

    name: str
    teams: list[str]
    admin: bool
    leads: list[str] = []
    shared_account: bool = False
    #: What jobs run with: folders of this machine, or images of a cluster.
    environments: Literal["folder", "image"] = "image"


class ErrorView(View):
    """Every refusal: a stable code and a sentence."""

    error: str
    message: str
    details: list[dict[str, object]] = []

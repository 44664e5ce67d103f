"""Who is calling, and what a refusal looks like."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class WhoAmI(View):
    """The caller, as the scheduler sees it."""

    name: str
    teams: list[str]
    admin: bool
    leads: list[str] = []
    shared_account: bool = False


class ErrorView(View):
    """Every refusal: a stable code and a sentence."""

    error: str
    message: str
    details: list[dict[str, object]] = []

"""Rules of a team and of the whole hub: what they allow, and the refusal that names the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.model.resources import Policy, Team
from gpucommons.scheduler.errors import PolicyRefused, TooManyWaiting
from gpucommons.scheduler.intake.paying_team import names


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What policies look at."""

    #: None = not known yet, so no rule refuses it.
    environment: str | None = ""
    max_run_ms: int | None = None
    priority: str | None = None
    milli_gpu: int = 0
    workers: int = 1


def check_policies(asked: Asked, team: Team, hub_wide: Policy) -> None:
    """Refuse what the team's or the hub's policy forbids.

    Raises
    ------
    PolicyRefused
        Naming whose policy, which rule, and what it allows.
    """
    _refuse(team, hub_wide, lambda policy: _broken(asked, policy))


def as_allowed(words: tuple[str, ...], team: Team, hub_wide: Policy) -> str:
    """The word for an environment that the rules name it by; the first where none does."""
    lists = [policy.environments for policy in (team.policy, hub_wide) if policy.environments]
    return next((word for word in words if all(word in one for one in lists)), words[0])


def check_pending(pending: int, team: Team, hub_wide: Policy) -> None:
    """Refuse one more job of who has so many waiting.

    Raises
    ------
    TooManyWaiting
        As above.
    """
    _refuse(team, hub_wide, lambda policy: _too_many(pending, policy), TooManyWaiting)


def _refuse(
    team: Team,
    hub_wide: Policy,
    broken: Callable[[Policy], Iterator[tuple[str, str]]],
    error: type[PolicyRefused] = PolicyRefused,
) -> None:
    for owner, policy in ((f"Team {team.name}", team.policy), ("This hub", hub_wide)):
        for rule, allowed in broken(policy):
            message = f"{owner} does not allow this (policy {rule}): {allowed}"
            raise error(message)


def _too_many(pending: int, policy: Policy) -> Iterator[tuple[str, str]]:
    if pending >= policy.max_pending_per_user:
        yield (
            "max_pending_per_user",
            f"{pending} of yours wait already or are paused, at most {policy.max_pending_per_user}."
            " Cancel one, or wait.",
        )


def _broken(asked: Asked, policy: Policy) -> Iterator[tuple[str, str]]:
    known = asked.environment is not None
    if known and policy.environments and asked.environment not in policy.environments:
        yield (
            "environments",
            f"{asked.environment or 'the default'!r} was asked, allowed:"
            f" {names(policy.environments)}.",
        )
    if policy.max_run_ms is not None and (asked.max_run_ms or 0) > policy.max_run_ms:
        yield "max_run_s", f"at most {policy.max_run_ms // 1000} s."
    if asked.priority is not None and asked.priority not in policy.priorities:
        yield (
            "priorities",
            f"{asked.priority!r} was asked, allowed: {names(policy.priorities)}.",
        )
    cap = policy.max_milli_gpu_per_job
    if cap is not None and asked.milli_gpu > cap:
        yield (
            "max_milli_gpu_per_job",
            f"{format_gpus(asked.milli_gpu)} asked, at most {format_milli_gpu(cap)}.",
        )
    if policy.max_workers is not None and asked.workers > policy.max_workers:
        yield "max_workers", f"{asked.workers} workers were asked, at most {policy.max_workers}."


def longest_run_ms(asked_ms: int | None, team: Team, hub_wide: Policy) -> int | None:
    """The run time asked for, or the shortest that the policies give to all."""
    if asked_ms is not None:
        return asked_ms
    limits = [p.max_run_ms for p in (team.policy, hub_wide) if p.max_run_ms is not None]
    return min(limits, default=None)


def default_priority(team: Team, hub_wide: Policy) -> str:
    """Normal where that is allowed, else the highest that is."""
    allowed = team.policy.priorities & hub_wide.priorities
    return next((p for p in ("normal", "high", "low") if p in allowed), "normal")

"""Whose limits apply: the admin's defaults, changed per pool, then per team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpucommons.idle_culler.policy import Limits

#: What may be set, and the field it sets; lengths of time are seconds.
_SECONDS = {
    "idle_after_s": "idle_after_ms",
    "warn_after_s": "warn_after_ms",
    "stale_after_s": "stale_after_ms",
    "unverified_after_s": "unverified_after_ms",
}
#: Said to whoever set it here, as it once was.
POOLS_SAY = (
    "on_idle is a setting of pools now: write `on_idle: [release]`, or what users may choose, the"
    " default first, with the pool (`gpucommons apply`), and leave it out here."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Limits of every team in every pool."""

    default: Limits = field(default_factory=Limits)
    per_pool: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    per_team: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Every combination is tried once, so that a mistake shows at the start, not at 3 a.m.
        for pool in ("", *self.per_pool):
            for team in ("", *self.per_team):
                self.of(pool=pool, team=team)

    def of(self, *, pool: str, team: str) -> Limits:
        """Limits in force; a team's own words win over its pool's."""
        limits = changed(self.default, self.per_pool.get(pool, {}))
        return changed(limits, self.per_team.get(team, {}))


def changed(limits: Limits, settings: Mapping[str, Any]) -> Limits:
    """Apply settings as admins write them (``{"idle_after_s": 600}``).

    Raises
    ------
    ValueError
        With a sentence, where a setting is unknown or impossible.
    """
    fields: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "on_idle":
            raise ValueError(POOLS_SAY)
        if name in _SECONDS:
            fields[_SECONDS[name]] = _millis(name, value)
        else:
            message = f"There is no limit {name!r}; there are: {', '.join(_SECONDS)}."
            raise ValueError(message)
    return replace(limits, **fields)


def _millis(name: str, value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        message = f"{name} is {value!r}: write whole seconds."
        raise ValueError(message)
    if value == 0 and name == "unverified_after_s":
        return None
    return value * 1000

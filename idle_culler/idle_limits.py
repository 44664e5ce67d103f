"""How long idleness may last until a warning and the return: defaults, changed per pool, then per team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MINUTE_MS = 60_000
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
class Limits:
    """How long idleness may last, for one team and pool."""

    #: Idle for so long: the GPU goes back.
    idle_after_ms: int = 60 * MINUTE_MS
    #: Idle for so long: the user is warned.
    warn_after_ms: int = 50 * MINUTE_MS
    #: A report or reading older than this is missing.
    stale_after_ms: int = 3 * MINUTE_MS
    #: Unseen for so long (promise 11); None = held forever.
    unverified_after_ms: int | None = 24 * 60 * MINUTE_MS

    def __post_init__(self) -> None:
        if not 0 < self.warn_after_ms < self.idle_after_ms:
            message = (
                f"Warning after {duration(self.warn_after_ms)} and return after"
                f" {duration(self.idle_after_ms)} idle: the warning must come first."
            )
            raise ValueError(message)
        if self.stale_after_ms <= 0 or (
            self.unverified_after_ms is not None and self.unverified_after_ms <= self.lead_ms
        ):
            message = (
                "Unverified notebooks must be held for longer than the warning lasts"
                f" ({duration(self.lead_ms)}), and reports must be allowed some age."
            )
            raise ValueError(message)

    @property
    def lead_ms(self) -> int:
        """From a warning to the return."""
        return self.idle_after_ms - self.warn_after_ms


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


def duration(length_ms: int) -> str:
    """Write a length of time the way people do: ``45 s``, ``60 min``, ``26 h``."""
    seconds = length_ms // 1000
    if seconds < 120:  # noqa: PLR2004 - below two minutes seconds say more
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 48 * 60 else f"{minutes // 60} h"

"""What a change of a team, a pool or the policy says of itself in the audit: each field, old → new.

Made from the fields that these have, so that none that is added later can be changed in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.price_and_budget import Budget
from gpucommons.scheduler.core.model.resources import Policy, Quota, Team
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.money import from_micro

#: So many of those who come or go are named; the event's data has them all.
_NAMED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsChange:
    """Two states of one setting, compared."""

    #: ``leads −bob +ann, max workers none → 4``; empty where nothing changed.
    text: str
    #: The changed fields alone, ``{"old": {…}, "new": {…}}``.
    data: dict[str, Any]


def tell(  # noqa: PLR0913 - what such events differ by
    cycle: CycleState,
    what: str,
    subject: str,
    change: SettingsChange,
    *,
    by: str,
    is_new: bool = False,
    team: TeamName | None = None,
) -> None:
    """Put a change of a setting on record, or that there is a new one; nothing where nothing changed."""
    if is_new:
        text = f"{subject} was created: {change.text}".removesuffix(": ")
        cycle.tell(f"{what}-created", f"{text}.", by=by, team=team, data=change.data)
    elif change.text:
        text = f"{subject}: {change.text}."
        cycle.tell(f"{what}-changed", text, by=by, team=team, data=change.data)


def of_team(old: Team, new: Team) -> SettingsChange:
    """All but the quotas, which are audited pool by pool."""
    was, now = (replace(team, quotas={}, budget_spent="") for team in (old, new))
    return of_fields(was, now)


def of_fields(old: Any, new: Any) -> SettingsChange:
    """Of a pool: what admins set of it and what its nodes say; of the policy: its rules."""
    found = list(_changed(old, new))
    return SettingsChange(
        text=", ".join(_said(name, was, now) for name, was, now in found),
        data={
            "old": {name: _plain(was) for name, was, _ in found},
            "new": {name: _plain(now) for name, _, now in found},
        },
    )


def of_quota(was: Quota, now: Quota) -> SettingsChange:
    """The four amounts."""
    text = ", ".join(
        f"{name} {old} → {new}"
        for (name, old), (_, new) in zip(_words(was), _words(now), strict=True)
        if old != new
    )
    return SettingsChange(text=text, data={"old": asdict(was), "new": asdict(now)})


def _words(one: Quota) -> tuple[tuple[str, str], ...]:
    limit = "none" if one.limit_milli_gpu is None else format_milli_gpu(one.limit_milli_gpu)
    return (
        ("fixed", format_milli_gpu(one.fixed_milli_gpu)),
        ("guaranteed", format_milli_gpu(one.guaranteed_milli_gpu)),
        ("limit", limit),
        ("weight", str(one.over_quota_weight)),
    )


def _changed(old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    for one in fields(old):
        was, now = getattr(old, one.name), getattr(new, one.name)
        if isinstance(was, Policy):
            yield from _changed(was, now)
        elif was != now:
            yield one.name, was, now


def _said(name: str, was: Any, now: Any) -> str:
    words = name.removesuffix("_ms").removesuffix("_micro").removesuffix("_milli_gpu")
    words = words.replace("milli_gpu", "GPUs")
    words = words.replace("_", " ")
    if isinstance(was, frozenset):
        gone = [f"−{one}" for one in sorted(was - now)]
        come = [f"+{one}" for one in sorted(now - was)]
        return f"{words} {_some(gone + come)}"
    return f"{words} {_value(name, was)} → {_value(name, now)}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return " ".join(names[:_NAMED]) + more


def _value(name: str, value: Any) -> str:
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Budget):
        return value.text
    if is_dataclass(value):
        parts = ((one.name, getattr(value, one.name)) for one in fields(value))
        return " ".join(f"{part} {said}" for part, said in parts if said)
    return _amount(name, value)


def _amount(name: str, value: Any) -> str:
    if name.endswith("_ms"):
        return f"{value / 1000:g} s"
    if name.endswith("_micro"):
        return f"{from_micro(value):g}"
    if isinstance(value, tuple):
        said = (format_milli_gpu(one) if isinstance(one, int) else str(one) for one in value)
        return ", ".join(said) if name == "prices" else " ".join(said)
    return format_milli_gpu(value) if "milli_gpu" in name else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset | tuple):
        return sorted(value) if isinstance(value, frozenset) else [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value

"""Which jobs and definitions a list shows, and in what order."""

from __future__ import annotations

from typing import Any

from jupyter_scheduler.models import SortDirection


def is_asked(one: Any, query: Any) -> bool:
    """Whether a job or definition is among those that were asked for."""
    wanted = {name: getattr(query, name, None) for name in ("status", "job_definition_id")}
    return (
        all(getattr(one, name) == value for name, value in wanted.items() if value)
        and one.name.startswith(query.name or "")
        and set(query.tags or ()) <= set(one.tags or ())
        and all(
            (getattr(one, name) or 0) >= (getattr(query, name, None) or 0)
            for name in ("start_time", "create_time")
            if hasattr(one, name)
        )
    )


def page(found: list[Any], query: Any) -> tuple[list[Any], str | None]:
    """One page of those that were found, sorted, and the token of the next."""
    rows = list(found)
    for field in reversed(query.sort_by or ()):

        def key(one: Any, name: str = field.name) -> tuple[bool, Any]:
            value = getattr(one, name, None)
            return (value is not None, value)

        rows.sort(key=key, reverse=field.direction == SortDirection.desc)
    start = int(query.next_token or 0)
    end = start + int(query.max_items or len(rows))
    return rows[start:end], str(end) if end < len(rows) else None

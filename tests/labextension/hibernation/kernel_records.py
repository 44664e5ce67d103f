"""What is written down of a kernel that is kept."""

from __future__ import annotations

from gpucommons.labextension.hibernation.records import Record


def record(kernel_id: str, noted_ms: int = 1, kept_days: int | None = None) -> Record:
    return Record(
        kernel_id=kernel_id,
        kernel_name="python3",
        cwd=None,
        connection={},
        sessions=[],
        execution_state="idle",
        last_activity="2026-11-24T10:00:00+00:00",
        kernel_info=None,
        session_key=None,
        noted_ms=noted_ms,
        kept_days=kept_days,
    )

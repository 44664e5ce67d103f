"""The report as Parquet: numbers stay numbers, and what is not known is null. Needs the extra `reports`."""

from __future__ import annotations

import io
from importlib.util import find_spec

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.extras import missing
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.models.reports import Report
from gpucommons.scheduler.models.text.report_rows import TEAM_ITSELF
from gpucommons.scheduler.money import from_micro

#: Columns of GPU hours, with the fields of a row that they are made of.
_HOURS = {
    "held_gpu_hours": "held_milli_gpu_h",
    "used_gpu_hours": "used_milli_gpu_h",
    "idle_gpu_hours": "idle_milli_gpu_h",
    "borrowed_gpu_hours": "borrowed_milli_gpu_h",
    "lost_gpu_hours": "lost_milli_gpu_h",
    "parked_gpu_hours": "parked_milli_gpu_h",
    "unpriced_gpu_hours": "unpriced_milli_gpu_h",
}


def can_write_parquet() -> bool:
    """Whether the library is there; it is not loaded for that."""
    return find_spec("pyarrow") is not None


def report_parquet(report: Report) -> bytes:
    """The rows of the spreadsheet, without their total.

    Raises
    ------
    Misconfigured
        Where the library is not installed, with the extra that brings it.
    """
    if not can_write_parquet():
        raise Misconfigured(missing("pyarrow", "reports"))
    import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    lent = {one.team: one.lent_milli_gpu_h for one in report.lent if one.lent_milli_gpu_h}
    rows = report.rows
    texts = {
        "team": [row.team for row in rows] + list(lent),
        "user": [row.owner for row in rows] + [TEAM_ITSELF] * len(lent),
        "project": [row.project for row in rows] + [""] * len(lent),
    }
    hours: dict[str, list[float | None]] = {
        column: [_hours(getattr(row, field)) for row in rows] + [0.0] * len(lent)
        for column, field in _HOURS.items()
    }
    hours["lent_gpu_hours"] = [*(None for _ in rows), *map(_hours, lent.values())]
    cost = [None if row.cost_micro is None else from_micro(row.cost_micro) for row in rows]
    columns = {
        **{name: pa.array(values, pa.string()) for name, values in texts.items()},
        **{name: pa.array(values, pa.float64()) for name, values in hours.items()},
        "cost": pa.array([*cost, *([None] * len(lent))], pa.float64()),
    }
    about = {
        "from_ms": str(report.from_ms),
        "to_ms": str(report.to_ms),
        "currency": report.currency,
        "sample_data": str(report.is_sample).lower(),
        "simulated_pools": ",".join(report.simulated_pools),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(about), out)
    return out.getvalue()


def _hours(milli_gpu_h: int | None) -> float | None:
    return None if milli_gpu_h is None else milli_gpu_h / WHOLE_MILLI_GPU

"""Of notebooks only what is known now is said to be so."""

from __future__ import annotations

from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.pages.present.idle import idle_rows


def test_a_notebook_that_was_busy_at_an_old_report_is_not_said_to_be_busy(cluster: Any) -> None:
    kernel = models.KernelActivity(kind="kernel", busy=True)
    lease = cluster.holder("user-c", 500)

    def said(minutes: int) -> tuple[str, str, str]:
        at_ms = cluster.NOW - minutes * cluster.MINUTE
        one = models.ActivityView(
            lease=lease,
            reported_ms=at_ms,
            kernels=[kernel],
            usage_ms=at_ms,
            compute_percent_p95=87,
        )
        (row,) = idle_rows(models.ActivityList(now_ms=cluster.NOW, activities=[one]))
        return row.state, row.mark, row.gpu_percent

    assert said(2) == ("busy", "busy", "87 %")
    assert said(12) == (
        "unknown since about 12 min ago; busy at its last report",
        "unverified",
        "unknown since about 12 min ago",
    )

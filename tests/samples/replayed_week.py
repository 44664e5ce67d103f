"""A replay of the last days under other quotas, as pages get it."""

from __future__ import annotations

from gpucommons.scheduler import models


def replayed() -> models.ReplayView:
    """One team that waits longer afterwards, and is stopped less often."""
    before = models.ReplayFigures(
        jobs=4, median_wait_s=0, worst_tenth_wait_s=290, held_gpu_h=8, evictions=2, lost_gpu_h=0.5
    )
    after = models.ReplayFigures(
        jobs=4,
        median_wait_s=40,
        worst_tenth_wait_s=10_800,
        worst_tenth_is_open=True,
        held_gpu_h=6,
        evictions=0,
        lost_gpu_h=0,
    )
    sides = [
        models.ReplaySide(
            total=figures, teams={"vision": figures}, utilisation_percent=40, idle_gpu_h=idle
        )
        for figures, idle in ((before, 10), (after, 12.5))
    ]
    return models.ReplayView(
        from_ms=0,
        until_ms=1,
        workloads=4,
        before=sides[0],
        after=sides[1],
        text="4 jobs of the last 7 days.",
    )

"""A move with real processes: one ends, begins again on another GPU, and the whole GPU is given on."""

from __future__ import annotations

from pathlib import Path

import psutil
from real_box import Box

from gpucommons.scheduler.core.model.intents import Cancel


def test_a_real_job_moves_to_the_other_gpu_and_the_waiting_one_runs(tmp_path: Path) -> None:
    box = Box(tmp_path)
    try:
        halves = [box.submit(f"half-{number}", 500) for number in range(4)]
        box.until(lambda: all(one in box.loop.cluster.workloads for one in halves))
        box.until(lambda: all(box.gpu_of(one) for one in halves))
        gpus = {one: box.gpu_of(one) for one in halves}
        left = [
            next(o for o in halves if gpus[o] == gpu)
            for gpu in sorted(map(str, set(gpus.values())))
        ]
        for one in set(halves) - set(left):
            box.ask(Cancel(workload_id=one))
        box.until(lambda: len(box.loop.cluster.workloads) == len(left))
        whole = box.submit("whole", 1000)
        box.until(lambda: whole in box.loop.cluster.workloads)
        box.until(lambda: box.gpu_of(whole) is not None)
        box.until(lambda: all(box.gpu_of(one) for one in left))
        assert box.gpu_of(left[0]) == box.gpu_of(left[1]) != box.gpu_of(whole)
        assert sorted(len(box.get(one).attempts) for one in left) == [1, 2]
        kinds = [one.event.kind for one in box.store.events()]
        assert kinds.count("moved") == 1
        assert "evicted" not in kinds
    finally:
        box.close()
    mine = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]
    assert not mine

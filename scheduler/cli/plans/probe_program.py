"""What `gpucommons probe` runs as a job: large products, and all-reduces near and far. Needs torch alone.

It is read as text and sent along: where jobs run, this package need not be. Its last line tells.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

MARK = "gpucommons-probe "
_ROUNDS, _WARM = 10, 3


def measure() -> dict[str, float]:
    """What this gang's first process finds."""
    torch, dist = (importlib.import_module(name) for name in ("torch", "torch.distributed"))
    rank, world, local = (
        int(os.environ.get(name, default))
        for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_WORLD_SIZE", "1"))
    )
    is_gpu = torch.cuda.is_available()
    place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if is_gpu else "cpu"
    if is_gpu:
        torch.cuda.set_device(place)
    wait = torch.cuda.synchronize if is_gpu else _nothing
    found = {"gemm_tflops": _gemm(torch, place, wait, 8192 if is_gpu else 1024)}
    if world > 1:
        dist.init_process_group("nccl" if is_gpu else "gloo")
        elements = (256 if is_gpu else 16) << 18
        # Each node's own ring first, all at once, as they are in a training; then the whole ring.
        groups = [
            dist.new_group(list(range(first, first + local))) for first in range(0, world, local)
        ]
        for name, group, ranks in (
            ("inside", groups[rank // local], local),
            ("between", dist.group.WORLD, world if world > local else 1),
        ):
            if ranks > 1:
                large, small = (
                    partial(dist.all_reduce, torch.zeros(size, device=place), group=group)
                    for size in (elements, 2)
                )
                bus = 2 * (ranks - 1) / ranks * elements * 4 / _seconds(large, wait)
                found |= {
                    f"{name}_gb_s": bus / 1e9,
                    f"{name}_us": _seconds(small, wait) / (2 * (ranks - 1)) * 1e6,
                }
        dist.destroy_process_group()
    return found


def _nothing() -> None:
    """A processor does at once what it is told."""


def _gemm(torch: Any, place: Any, wait: Callable[[], None], side: int) -> float:
    kind = torch.bfloat16 if place != "cpu" and torch.cuda.is_bf16_supported() else torch.float16
    kind = torch.float32 if place == "cpu" else kind
    one, other = (torch.randn(side, side, device=place, dtype=kind) for _ in range(2))
    return 2 * side**3 / _seconds(lambda: one @ other, wait) / 1e12


def _seconds(work: Callable[[], object], wait: Callable[[], None]) -> float:
    """The median: a neighbour's moment does not count."""
    taken = []
    for number in range(_WARM + _ROUNDS):
        wait()
        began = time.perf_counter()
        work()
        wait()
        if number >= _WARM:
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    told = measure()
    if os.environ.get("RANK", "0") == "0":
        line = json.dumps({name: round(value, 4) for name, value in told.items()})
        sys.stdout.write(f"{MARK}{line}\n")

"""The two baselines as published with Weng et al. (USENIX ATC 2023).

Both pick the node with the highest whole-number score, ties to the first in a fixed random order
(the paper's artifact patches kube-scheduler to do so; with random ties the gradient loses 5
points). Fixed-order FGD knows the typical pods of the whole list beforehand, as the original does,
by processor, GPU and kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.gradient import Gradient, fits
from gpucommons.scheduler.core.packing.learning import learned, typical_of
from gpucommons.scheduler.core.packing.rows import Ints, Rows
from gpucommons.scheduler.core.packing.score_board import NO_FIT

#: The largest machine by which the original scales what is left: processors and GPUs, in thousandths.
MOST_CPU = 128_000
MOST_GPU = 8_000


class BestFit:
    """Least of processor and GPU left over, half each."""

    one_by_one = None

    def scores(self, ask: Ask, rows: Rows, which: Ints) -> tuple[Ints, Ints]:
        """Score these rows; a share takes the fullest device that has room for it."""
        free = rows.free[which]
        cpu_left = rows.cpu_milli[which] - ask.cpu_milli
        gpu_left = free.sum(axis=1) - ask.milli_gpu
        # 100 less both halves, rounded down; in whole numbers.
        left = -(-50 * (cpu_left * MOST_GPU + gpu_left * MOST_CPU) // (MOST_CPU * MOST_GPU))
        score = np.where(fits(ask, rows, which), np.maximum(100 - left, 0), NO_FIT)
        device = np.where(free >= ask.milli, free, np.iinfo(np.int64).max).argmin(axis=1)
        return score, device


def fixed_order_fgd(pods: Sequence[Ask], rows: Rows) -> Gradient:
    """Return the fragmentation gradient with the list's own typical pods."""
    whole_list = learned(pod._replace(memory_mib=0) for pod in pods)
    return Gradient(typical_of(tuple(whole_list.counts.items())), rows.kind_names)

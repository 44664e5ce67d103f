"""The smaller size that a reason offers, taken out where who follows it would be refused."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.model.demand import WhyNoSlices, pools_that_make
from gpucommons.scheduler.core.model.types import Reason, Spec

#: How the sentence about a smaller size begins.
STARTS_WITH = "Would start now with "


def without_size(reason: Reason) -> Reason:
    """The same reason without the smaller size; what else would help stays."""
    said = (reason.unblock or "").partition(STARTS_WITH)[0].rstrip()
    return replace(reason, unblock=said or None, startable_milli_gpu=None)


def as_made(reason: Reason | None, spec: Spec, why_not: WhyNoSlices) -> Reason | None:
    """The reason, whose smaller size stays only where each pool of the spec makes it.

    Another size does not change the pools, and in any of them it may be given a place.
    """
    size = None if reason is None else reason.startable_milli_gpu
    if reason is None or size is None:
        return reason
    able = pools_that_make(spec.pools, (size,), why_not)
    return reason if able == spec.pools else without_size(reason)

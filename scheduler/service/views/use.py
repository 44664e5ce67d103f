"""A job's use of its GPUs on the wire: what was measured, and nothing where nothing was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.holds import slice_memory_mib
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import NodeId, WorkerPlacement, Workload
from gpucommons.scheduler.models.text.report_rows import gpu_hours
from gpucommons.scheduler.money import money_words
from gpucommons.scheduler.service import costs
from gpucommons.scheduler.store.base import LedgerRow

_MINUTE_MS = 60_000
#: As many as a drawing can show.
MAX_SPANS = 240
_WHOLE_MILLI = 1000
#: After its end: its last minute is over by then, and told by the agents.
_LATEST_MS = 90_000
#: Agents tell of a minute when it is over: who looks before then knows why there is no number.
NOT_YET = "not measured yet (each minute is, once it is over)"


def use_view(
    workload: Workload,
    rows: Sequence[LedgerRow],
    *,
    now_ms: int,
    cluster: Cluster | None = None,
) -> models.JobUse:
    """Minutes of one job, in spans of equally many minutes where there are too many of them."""
    is_over = is_final(workload)
    ended_ms = workload.ended_ms or workload.since_ms
    # Of what never held a GPU nothing can come.
    never_held = is_over and not workload.attempts
    is_pending = not never_held and (not is_over or now_ms < ended_ms + _LATEST_MS)
    asked = sum(role.count * role.milli_gpu for role in workload.spec.roles)
    held = _held_last(workload) or asked
    used = _share_of(rows, held)
    awaited = is_pending if is_over else _comes_yet(workload, rows, now_ms)
    why_none = NOT_YET if awaited else _why_none(rows, held)
    cluster = cluster or Cluster()
    said = use_text(asked, used, submitted_milli_gpu=_submitted(workload), why_none=why_none)
    simulated = used is not None and _is_simulated(rows, cluster)
    said += " (simulated)" if simulated else ""
    currency = costs.currency_of(cluster.pools.values())
    cost = costs.of_rows(cluster.pools, rows)
    return models.JobUse(
        spans=_spans(sorted(rows, key=lambda row: row.minute_ms), _held(workload)),
        asked_milli_gpu=asked,
        used_milli_gpu=used,
        memory_used_mib_max=_fullest(rows),
        memory_held_mib=_memory_held_mib(workload, cluster.nodes),
        text=f"{said}{_cost_text(cost, currency, is_over=is_over)}",
        cost_micro=cost.micro if cost.priced else None,
        unpriced_milli_gpu_h=costs.in_hours(cost.unpriced) if currency else 0,
        currency=currency,
        is_pending=is_pending,
        simulated=simulated,
    )


def _is_simulated(rows: Sequence[LedgerRow], cluster: Cluster) -> bool:
    """Whether any of it was held where no real GPUs are."""
    pools = (cluster.pools.get(row.pool) for row in rows)
    return any(pool is not None and pool.simulated for pool in pools)


def _cost_text(cost: costs.Cost, currency: str, *, is_over: bool) -> str:
    """The part that had a price, with what had none beside."""
    if not currency:
        return ""
    unpriced = costs.in_hours(cost.unpriced)
    said = f"{gpu_hours(unpriced)} GPU hours had no price" if unpriced else ""
    if not cost.priced:
        return f", {said}" if said else ""
    so_far = "" if is_over else " so far"
    without = f" ({said})" if said else ""
    return f", cost {money_words(cost.micro, currency)}{so_far}{without}"


def _comes_yet(workload: Workload, rows: Sequence[LedgerRow], now_ms: int) -> bool:
    """Whether a measurement of a job that is not over can still come: what is known of attempts that
    ended says nothing of the one that runs.
    """
    newest = max((row.minute_ms for row in rows), default=None)
    last = workload.attempts[-1] if workload.attempts else None
    if last is None or newest is None:
        return True
    if last.ended_ms is not None:
        return now_ms < last.ended_ms + _LATEST_MS
    # A row of a minute that it held from the beginning comes with what was measured of it.
    return newest < last.reserved_ms


def use_text(
    asked_milli_gpu: int,
    used_milli_gpu: int | None,
    *,
    submitted_milli_gpu: int | None = None,
    why_none: str = "no GPU data",
) -> str:
    """``asked 2 GPUs, used 0.2``; of a size that was changed: ``asked 2 GPUs (3 at first), …``."""
    if asked_milli_gpu == 0:
        return "asked no GPU"
    asked = format_gpus(asked_milli_gpu)
    if submitted_milli_gpu not in (None, asked_milli_gpu):
        asked = f"{asked} ({format_milli_gpu(submitted_milli_gpu or 0)} at first)"
    if used_milli_gpu is None:
        return f"asked {asked}, {why_none}"
    digits = 1 if asked_milli_gpu >= _WHOLE_MILLI else 2
    return f"asked {asked}, used {used_milli_gpu / _WHOLE_MILLI:.{digits}f}"


def _submitted(workload: Workload) -> int | None:
    """What was asked at first, where that was changed since."""
    if workload.resized is None:
        return None
    first = workload.resized.submitted
    others = workload.spec.roles[1:]
    return first.workers * first.milli_gpu + sum(one.count * one.milli_gpu for one in others)


def _why_none(rows: Sequence[LedgerRow], milli_gpu: int) -> str:
    """Why nothing is known of its use, and nothing more will be."""
    held_ms = sum(row.held_milli_gpu_ms for row in rows) // max(1, milli_gpu)
    if held_ms == 0:
        return "held none"
    if held_ms < _MINUTE_MS:
        return f"too short to be measured: {max(1, held_ms // 1000)} s"
    return "no GPU data"


def _held_last(workload: Workload) -> int:
    if not workload.attempts:
        return 0
    return sum(placed_milli_gpu(one) for one in workload.attempts[-1].placements)


def _share_of(rows: Sequence[LedgerRow], milli_gpu: int) -> int | None:
    """The mean use while it was measured, of so many GPUs."""
    known = [
        (row.held_milli_gpu_ms, row.compute_percent_mean)
        for row in rows
        if row.compute_percent_mean is not None and row.held_milli_gpu_ms
    ]
    held = sum(amount for amount, _ in known)
    if not held:
        return None
    return round(milli_gpu * sum(amount * percent for amount, percent in known) / held / 100)


def _fullest(rows: Sequence[LedgerRow]) -> int | None:
    return max(
        (row.memory_used_mib_max for row in rows if row.memory_used_mib_max is not None),
        default=None,
    )


def _memory_held_mib(workload: Workload, nodes: Mapping[NodeId, Node]) -> int | None:
    """GPU memory of the worker that had most in its last attempt; None where a node is not known."""
    placements = workload.attempts[-1].placements if workload.attempts else ()
    found = [_memory_of(one, nodes.get(one.node_id)) for one in placements]
    known = [mib for mib in found if mib]
    return max(known) if known and len(known) == len(found) else None


def _memory_of(placement: WorkerPlacement, node: Node | None) -> int:
    devices = () if node is None else node.all_devices
    held = [device for device in devices if device.device_id in placement.device_ids]
    return slice_memory_mib(placement, held) if held else 0


class _Held(NamedTuple):
    """A while in which it held so many GPUs."""

    from_ms: int
    to_ms: float
    milli_gpu: int


def _held(workload: Workload) -> list[_Held]:
    """From when to when it held how much; what it still holds ends with what is told of it."""
    return [
        _Held(
            from_ms=one.reserved_ms,
            to_ms=inf if one.ended_ms is None else one.ended_ms,
            milli_gpu=sum(placed_milli_gpu(placement) for placement in one.placements),
        )
        for one in workload.attempts
    ]


def _spans(rows: Sequence[LedgerRow], held: Sequence[_Held]) -> list[models.UseSpan]:
    if not rows:
        return []
    first_ms, last_ms = rows[0].minute_ms, rows[-1].minute_ms + _MINUTE_MS
    minutes = (last_ms - first_ms) // _MINUTE_MS
    length_ms = -(-minutes // MAX_SPANS) * _MINUTE_MS
    found: dict[int, list[LedgerRow]] = {}
    for row in rows:
        found.setdefault((row.minute_ms - first_ms) // length_ms, []).append(row)
    spans: list[models.UseSpan] = []
    for number, of in found.items():
        from_ms = first_ms + number * length_ms
        spans += _within(of, from_ms, min(from_ms + length_ms, last_ms), held)
    return spans


def _within(
    rows: Sequence[LedgerRow], from_ms: int, to_ms: int, held: Sequence[_Held]
) -> list[models.UseSpan]:
    """Only the time in which it held something, as high as it held: a minute's mean is less."""
    return [
        models.UseSpan(
            from_ms=max(from_ms, one.from_ms),
            to_ms=int(min(to_ms, one.to_ms)),
            held_milli_gpu=one.milli_gpu,
            used_milli_gpu=_share_of(rows, one.milli_gpu),
            memory_used_mib=_fullest(rows),
        )
        for one in held
        if one.milli_gpu and max(from_ms, one.from_ms) < min(to_ms, one.to_ms)
    ]

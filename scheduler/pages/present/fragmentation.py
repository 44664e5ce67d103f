"""Where enough is free and nothing fits: which GPUs are partly free, and whose work lies beside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext
from gpucommons.scheduler.models import ActivityList, DeviceView, HoldView, NodeList, NodeView
from gpucommons.scheduler.pages.present import words

_NOTEBOOKS = frozenset({"notebook", "notebook-idle"})
#: More would hide what the table is for.
_MOST = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A GPU of which a part is free, or a node with whole free ones."""

    #: ``gpu-02, GPU 1``, or ``gpu-02`` for its whole free GPUs.
    where: str
    free: str
    #: ``alice's notebook ½ (idle 35 min), train-3 ¼``; empty for whole GPUs.
    beside: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """What is free in the pools that somebody waits for."""

    rows: tuple[Piece, ...]
    #: How many rows are left out.
    more: int
    #: ``Moving alice's notebook (idle 35 min) frees a whole GPU.``; empty where no idle one would.
    way: str


def idle_spans_ms(activities: ActivityList | None) -> Mapping[str, int]:
    """How long each idle notebook has been idle, by its lease."""
    if activities is None:
        return {}
    return {
        item.lease.id: activities.now_ms - item.lease.idle.idle_since_ms
        for item in activities.activities
        if item.lease.idle and item.lease.idle.idle_since_ms is not None
    }


def pieces(nodes: NodeList, idle_ms: Mapping[str, int], pools: Collection[str]) -> Pieces:
    """The pieces of these pools, the largest first, and the idle notebook that could make one whole."""
    usable = [node for node in nodes.nodes if node.pool in pools and node.state == "ready"]
    rows = sorted(
        (found for node in usable for found in _of_node(node, idle_ms)),
        key=lambda one: (-one[0], one[1].where),
    )
    return Pieces(
        rows=tuple(row for _, row in rows[:_MOST]),
        more=max(0, len(rows) - _MOST),
        way=_way(usable, idle_ms),
    )


def _of_node(node: NodeView, idle_ms: Mapping[str, int]) -> Iterator[tuple[int, Piece]]:
    devices = [device for device in node.devices if device.unhealthy is None]
    whole = sum(not device.holds for device in devices) * WHOLE_MILLI_GPU
    if whole:
        yield (
            whole,
            Piece(where=node.id, free=gettext("%(free)s free", free=format_gpus(whole)), beside=""),
        )
    for device in devices:
        free = _free(device)
        if device.holds and free:
            yield (
                free,
                Piece(
                    where=f"{node.id}, GPU {device.index}",
                    free=gettext("%(free)s free", free=format_milli_gpu(free)),
                    beside=", ".join(_holder(hold, idle_ms) for hold in device.holds),
                ),
            )


def _free(device: DeviceView) -> int:
    return max(0, WHOLE_MILLI_GPU - sum(hold.milli_gpu for hold in device.holds))


def _holder(hold: HoldView, idle_ms: Mapping[str, int]) -> str:
    share = format_milli_gpu(hold.milli_gpu)
    if hold.shown_as in _NOTEBOOKS:
        return f"{_whose(hold)} {share}{_idle(hold, idle_ms)}"
    job = hold.name or gettext("a job of %(team)s", team=hold.team)
    return f"{job} {share}"


def _whose(hold: HoldView) -> str:
    return gettext("%(owner)s's notebook", owner=words.person(hold.owner))


def _idle(hold: HoldView, idle_ms: Mapping[str, int]) -> str:
    if hold.shown_as != "notebook-idle":
        return ""
    span = idle_ms.get(hold.workload_id or "")
    if span is None:
        return " (" + gettext("idle") + ")"
    return " (" + gettext("idle %(span)s", span=words.duration(span)) + ")"


def _way(nodes: Collection[NodeView], idle_ms: Mapping[str, int]) -> str:
    """The notebook that has been idle longest of those that alone keep a GPU from being whole."""
    alone = [
        device.holds[0]
        for node in nodes
        for device in node.devices
        if device.unhealthy is None
        and len(device.holds) == 1
        and _free(device)
        and device.holds[0].shown_as == "notebook-idle"
    ]
    if not alone:
        return ""
    hold = max(alone, key=lambda one: idle_ms.get(one.workload_id or "", 0))
    which = f"{_whose(hold)}{_idle(hold, idle_ms)}"
    return gettext("Moving %(notebook)s frees a whole GPU.", notebook=which)

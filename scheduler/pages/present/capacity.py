"""The capacity map and the row of figures above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.providers import isolation_sentence
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext, gettext_noop, ngettext
from gpucommons.scheduler.models import (
    DeviceView,
    HoldView,
    NodeList,
    NodeView,
    PoolView,
    Report,
    SlowPairView,
    SlowView,
    UnhealthyView,
)
from gpucommons.scheduler.models.text.state_words import HELD_WORDS, node_words
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.present.waiting import WaitingRow

#: What a hold can be, in the order of the legend, with its words.
LEGEND = tuple(HELD_WORDS.items())
#: How slices of a pool are kept apart, in one word each.
_ISOLATION = {
    "hardware": gettext_noop("hardware"),
    "kernel": gettext_noop("kernel"),
    "driver": gettext_noop("driver"),
    "cooperative": gettext_noop("cooperative"),
    "watched": gettext_noop("watched"),
    "none": gettext_noop("none"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One slice drawn on a GPU; ``top`` and ``height`` are percent of the cell."""

    shown_as: str
    top: float
    height: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One GPU."""

    label: str
    parts: tuple[Part, ...]
    is_unhealthy: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unhealthy:
    """A GPU that takes nothing new, and what is on it all the same."""

    index: int
    #: Its driver's word.
    text: str
    since_ms: int
    #: It is well again, and waits a moment.
    is_well: bool
    #: Who has it, as in the cell.
    holders: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """One node."""

    name: str
    detail: str
    #: What is wrong with it, if anything: ``cordoned``, ``lost``, ``fenced``.
    state: str | None
    cells: tuple[Cell, ...]
    #: Why an admin did that, in their words.
    state_text: str = ""
    #: When its cloud takes it back, if it said so.
    leaves_ms: int | None = None
    #: By step times of what ran there.
    slow: SlowView | None = None
    slow_pairs: tuple[SlowPairView, ...] = ()
    #: Of its GPUs that take nothing new.
    unhealthy: tuple[Unhealthy, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """The nodes of one pool."""

    pool: str
    detail: str
    #: What the isolation mode named in ``detail`` means.
    isolation: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One figure of the row: ``28½ of 32 GPUs held``."""

    key: str
    value: str
    of: str
    label: str


def capacity_map(nodes: NodeList, pools: Sequence[PoolView]) -> tuple[Field, ...]:
    """Draw every node, pool by pool; pools with GPUs first."""
    by_pool: dict[str, list[NodeView]] = {}
    for node in nodes.nodes:
        by_pool.setdefault(node.pool, []).append(node)
    views = {pool.name: pool for pool in pools}
    ordered = sorted(by_pool, key=lambda name: (not any(n.devices for n in by_pool[name]), name))
    return tuple(
        Field(
            pool=name,
            detail=_pool_detail(views.get(name)),
            isolation=gettext(isolation_sentence(views[name].isolation)) if name in views else "",
            boxes=tuple(_box(node) for node in sorted(by_pool[name], key=lambda node: node.id)),
        )
        for name in ordered
    )


def figures(
    nodes: NodeList, waiting: Sequence[WaitingRow], last_hour: Report | None, *, whose: str = ""
) -> tuple[Figure, ...]:
    """Held, really used, held idle, borrowed, waiting; of ``whose`` work use and waits are told, if not all."""
    devices = [device for node in nodes.nodes for device in node.devices]
    held = {key: 0 for key, _ in LEGEND}
    for device in devices:
        for hold in device.holds:
            held[hold.shown_as] = held.get(hold.shown_as, 0) + hold.milli_gpu
    used = {
        "team": gettext("of hours held by your team really used, last hour"),
        "teams": gettext("of hours held by your teams really used, last hour"),
    }.get(whose, gettext("of held hours really used, last hour"))
    return (
        Figure(
            key="held",
            value=format_milli_gpu(sum(held.values())),
            of=gettext("of %(all)s", all=len(devices)),
            label=gettext("GPUs held"),
        ),
        Figure(key="used", value=_used(last_hour), of="", label=used),
        Figure(
            key="idle",
            value=format_milli_gpu(held["notebook-idle"]),
            of="",
            label=gettext("held idle"),
        ),
        Figure(
            key="borrowed",
            value=format_milli_gpu(held["borrowed"]),
            of="",
            label=gettext("borrowed"),
        ),
        Figure(
            key="waiting",
            value=str(len(waiting)),
            of="",
            label=_waiting(waiting, whose),
        ),
    )


def _waiting(waiting: Sequence[WaitingRow], whose: str) -> str:
    longest_ms = max((row.waited_ms for row in waiting), default=None)
    if longest_ms is None:
        return {
            "team": gettext("of your team waiting"),
            "teams": gettext("of your teams waiting"),
        }.get(whose, gettext("waiting"))
    span = words.duration(longest_ms)
    return {
        "team": gettext("of your team waiting, longest %(span)s", span=span),
        "teams": gettext("of your teams waiting, longest %(span)s", span=span),
    }.get(whose, gettext("waiting, longest %(span)s", span=span))


def simulated(nodes: NodeList) -> bool:
    """True where any GPU has no hardware behind it."""
    return any(device.simulated for node in nodes.nodes for device in node.devices)


def _used(last_hour: Report | None) -> str:
    # Minutes without telemetry say nothing about use: they are left out, never counted as idle.
    rows = [row for row in last_hour.rows if row.used_milli_gpu_h is not None] if last_hour else []
    held = sum(row.held_milli_gpu_h for row in rows)
    if held == 0:
        return "–"
    return f"{round(100 * sum(row.used_milli_gpu_h or 0 for row in rows) / held)} %"


def _pool_detail(pool: PoolView | None) -> str:
    if pool is None:
        return gettext("not in force yet")
    if not pool.total_milli_gpu + pool.out_milli_gpu:
        return gettext("no GPUs")
    said = []
    if pool.total_milli_gpu:
        free, total = format_milli_gpu(pool.free_milli_gpu), format_milli_gpu(pool.total_milli_gpu)
        said.append(gettext("%(free)s of %(all)s free", free=free, all=total))
    if pool.out_milli_gpu:
        out = format_gpus(pool.out_milli_gpu)
        said.append(gettext("%(gpus)s not to give out", gpus=out))
    isolation = gettext(
        "isolation: %(kind)s", kind=gettext(_ISOLATION.get(pool.isolation, pool.isolation))
    )
    return " · ".join((*said, isolation))


def _cores(node: NodeView) -> str:
    cores = ngettext(
        "%(num)s core to give out", "%(num)s cores to give out", node.cpu_milli // 1000
    )
    if not node.cpu_is_shared:
        return cores
    return gettext("%(cores)s, shared: its machine may have fewer", cores=cores)


def _box(node: NodeView) -> Box:
    kinds = sorted({device.kind for device in node.devices})
    detail = f"{', '.join(kinds)} × {len(node.devices)}" if kinds else _cores(node)
    return Box(
        name=node.id,
        detail=detail,
        state=None if node.state == "ready" else gettext(node_words(node.state)),
        cells=tuple(_cell(device) for device in sorted(node.devices, key=lambda d: d.index)),
        state_text=node.state_text,
        leaves_ms=node.leaves_ms,
        slow=node.slow,
        slow_pairs=tuple(node.slow_pairs),
        unhealthy=tuple(
            _unhealthy(device, device.unhealthy) for device in node.devices if device.unhealthy
        ),
    )


def _unhealthy(device: DeviceView, ill: UnhealthyView) -> Unhealthy:
    return Unhealthy(
        index=device.index,
        text=ill.text,
        since_ms=ill.since_ms,
        is_well=ill.well_since_ms is not None,
        holders="; ".join(_part(hold).label for hold in device.holds),
    )


def _cell(device: DeviceView) -> Cell:
    parts = tuple(_part(hold) for hold in sorted(device.holds, key=lambda hold: hold.offset))
    free = WHOLE_MILLI_GPU - sum(hold.milli_gpu for hold in device.holds)
    said = [part.label for part in parts]
    if device.unhealthy is not None:
        said.append(gettext("takes nothing new: %(text)s", text=device.unhealthy.text))
    elif free > 0:
        said.append(
            gettext("%(free)s free", free=format_milli_gpu(free)) if parts else gettext("free")
        )
    return Cell(
        label=f"GPU {device.index}, {device.kind}: {'; '.join(said)}",
        parts=parts,
        is_unhealthy=device.unhealthy is not None,
    )


def _part(hold: HoldView) -> Part:
    # Slices grow from the bottom of the cell, as the offset does.
    height = hold.milli_gpu / WHOLE_MILLI_GPU * 100
    who = " · ".join(text for text in (hold.team, hold.owner, hold.name or "") if text)
    return Part(
        shown_as=hold.shown_as,
        top=round(100 - hold.offset / WHOLE_MILLI_GPU * 100 - height, 3),
        height=round(height, 3),
        label=f"{format_milli_gpu(hold.milli_gpu)} {words.held(hold.shown_as)}, {who}",
    )

"""The capacity map: nodes, their devices and who holds what on them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpucommons.scheduler.models.fields import Line, Model, View


class HoldView(View):
    """One slice drawn on one device of the capacity map."""

    workload_id: str | None = None
    name: str | None = None
    team: str
    owner: str = ""
    #: ``notebook``, ``notebook-idle``, ``guaranteed``, ``borrowed``.
    shown_as: str
    offset: int
    milli_gpu: int


class UnhealthyView(View):
    """Why a GPU takes nothing new."""

    #: Its driver's word: ``GPU is lost``.
    text: str
    since_ms: int
    #: Since when its driver says nothing of the kind any more: soon it takes work again.
    well_since_ms: int | None = None


class DeviceView(View):
    """One GPU of the capacity map."""

    id: str
    index: int
    kind: str
    memory_mib: int
    simulated: bool
    #: None where it takes work.
    unhealthy: UnhealthyView | None = None
    holds: list[HoldView] = []


class SlowView(View):
    """The same steps took longer there than elsewhere, as those who ran them told."""

    #: So much longer, by the median over jobs.
    percent: int
    runs: int
    jobs: int
    since_ms: int
    #: Until then another is taken of equal nodes.
    until_ms: int


class SlowPairView(View):
    """The same for jobs on this node and another one together, beside other pairs of nodes."""

    other: str
    slow: SlowView


class LinkView(View):
    """The best way between two GPUs of a node, as their driver tells it."""

    first: str
    second: str
    #: ``nvlink``; ``switch`` of PCIe; ``socket``: one NUMA node; ``node``: across NUMA nodes.
    kind: str


class NodeView(View):
    """One node of the capacity map."""

    id: str
    pool: str
    state: str
    cpu_milli: int
    memory_mib: int
    #: Its processors are booked and not fenced, and may be more than its machine has: a workstation's.
    cpu_is_shared: bool = False
    #: Why an admin cordoned or fenced it, for admins.
    state_text: str = ""
    #: When its cloud takes it back, where that was announced.
    leaves_ms: int | None = None
    #: Version of its GPUs' driver; "" where nobody tells it.
    driver: str = ""
    devices: list[DeviceView] = []
    #: Pairs that are not among them: nobody knows.
    links: list[LinkView] = []
    #: For admins, where it is known to be slow.
    slow: SlowView | None = None
    #: Likewise, each with the other node.
    slow_pairs: list[SlowPairView] = []


class NodeList(View):
    """All nodes."""

    nodes: list[NodeView]
    now_ms: int


class NodeNoticeRequest(Model):
    """A node's cloud takes it back."""

    in_s: int = Field(strict=True, ge=1, le=86_400)


class NodeStateRequest(Model):
    """Cordon, uncordon or fence."""

    state: Literal["ready", "cordoned", "fenced"]
    reason: Line = ""

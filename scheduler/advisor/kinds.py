"""What GPUs and links can do: tables that are data, and a pool described by them.

Numbers of the table are data sheets'; a probe's take their place (`Pool.links`), with their age.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from gpucommons.scheduler.files.yaml_text import read_yaml

GIB = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A tier of connections between GPUs."""

    bytes_per_s: float
    latency_s: float
    #: All GPUs of the node send through the same root, so that what each sends adds up.
    shared: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuKind:
    """One kind of GPU."""

    name: str
    memory_bytes: float
    memory_bytes_per_s: float
    #: Dense FLOP/s per number format.
    peak: Mapping[str, float]
    link: Link
    #: Share of the peak that power and clocks allow for long.
    sustained: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Where a plan would run."""

    kind: GpuKind
    gpus_per_node: int
    nodes: int
    #: Between GPUs of one node; between nodes, for all network cards of a node together.
    inside: Link
    between: Link
    #: Share of one device that a worker has, if less than a whole one.
    fraction: float = 1.0
    #: How much of a shared device's compute its neighbours take while they run.
    neighbours_busy: float = 0.0
    #: Share of the links that others use, measured.
    background: float = 0.0
    #: What storage hands out, for all readers together; 0: not known, and then no bound.
    storage_bytes_per_s: float = 0.0
    #: Samples per second that the loaders of one GPU decode; 0: not known.
    loader_samples_per_s: float = 0.0
    #: What its hub calls it.
    name: str = ""

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.gpus_per_node * self.nodes

    @property
    def memory_bytes(self) -> float:
        """What one worker may use."""
        return self.kind.memory_bytes * self.fraction

    @property
    def compute_share(self) -> float:
        """A fraction computes with the whole device while its neighbours are idle."""
        return 1 - (1 - self.fraction) * self.neighbours_busy


@dataclass(frozen=True, slots=True)
class Tables:
    """Kinds and links by name."""

    kinds: Mapping[str, GpuKind]
    links: Mapping[str, Link]


def tables_from(text: str) -> Tables:
    """Read tables; what is wrong in them is named."""
    read: Any = read_yaml(text)
    links = {name: _link(name, row) for name, row in read["links"].items()}
    return Tables({name: _kind(name, row, links) for name, row in read["kinds"].items()}, links)


def _link(name: str, row: Mapping[str, Any]) -> Link:
    speed, latency = float(row["gb_s"]), float(row["latency_us"])
    if not (speed > 0 and latency >= 0):
        raise ValueError(f"Link {name}: speed must be above 0 and latency not below.")
    return Link(
        bytes_per_s=speed * 1e9, latency_s=latency * 1e-6, shared=bool(row.get("shared", False))
    )


def _kind(name: str, row: Mapping[str, Any], links: Mapping[str, Link]) -> GpuKind:
    peak = {form: float(value) * 1e12 for form, value in row["tflops"].items()}
    memory, speed = float(row["memory_gib"]), float(row["memory_gb_s"])
    if not (memory > 0 and speed > 0 and peak and min(peak.values()) > 0):
        raise ValueError(f"GPU kind {name}: memory, bandwidth and TFLOP/s must be above 0.")
    return GpuKind(
        name=name,
        memory_bytes=memory * GIB,
        memory_bytes_per_s=speed * 1e9,
        peak=peak,
        link=links[row["link"]],
        sustained=float(row.get("sustained", 1.0)),
    )


def kind_called(name: str, tables: Tables) -> GpuKind | None:
    """The kind that a driver or an admin calls so (``A100-40``, ``GeForce-RTX-4090-24``); None: not there.

    The number at the end is the memory: of cards that come with one size the table has none.
    """
    model, _, gib = name.rpartition("-")
    plain = model if gib.isdecimal() else name
    words = (name, plain, *(word.removeprefix("GeForce-") for word in (name, plain)))
    return next((tables.kinds[word] for word in words if word in tables.kinds), None)


@cache
def shipped() -> Tables:
    """The tables of this package."""
    text = resources.files(__package__).joinpath("kinds.yaml").read_text(encoding="utf-8")
    return tables_from(text)

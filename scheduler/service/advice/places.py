"""Where a plan could run: pools as the advisor sees them, and the sizes that a submit would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.scheduler.advisor.constants import Constants
from gpucommons.scheduler.advisor.kinds import GpuKind, Link, Pool, Tables, kind_called
from gpucommons.scheduler.core.model.resources import Measured, NodeState, drivers_of
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName, Spec
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.intake.could_ever_run import check_can_run
from gpucommons.scheduler.intake.team_rules import Asked, check_policies
from gpucommons.scheduler.money import from_micro

_MIB = 2**20
_NANO, _MEGA, _GIGA = 1e-9, 1e6, 1e9
#: Drivers, firmware and cables change: older numbers of a probe are not reckoned with.
FRESH_MS = 30 * 24 * 3_600_000
#: What is further from a data sheet is a mistake: of a fraction, on a busy node, or made up.
_LEAST, _MOST = 0.05, 2.5
#: One hop takes microseconds on any bus, and tenths of a millisecond on slow Ethernet.
_SLOWEST_INSIDE_NS, _SLOWEST_BETWEEN_NS = 1_000_000, 20_000_000
#: Of who told no driver, and of what was kept before drivers were.
_UNKNOWN = ("",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A pool, and the jobs that each number of its GPUs would be."""

    name: PoolName
    pool: Pool
    simulated: bool
    #: Money per GPU and hour now; None: no price is known.
    price: float | None = None
    #: What no data sheet has, of this pool.
    known: Constants = field(default_factory=Constants)
    #: So many nodes have as many GPUs as its largest: with one there are no links between them.
    alike: int = 1
    #: When its GPUs and links were measured; None: data sheets alone speak.
    measured_ms: Millis | None = None
    #: Why what was measured is not reckoned with; "" where it is, or nothing was.
    doubt: str = ""
    #: Versions of the driver on its nodes; "" among them where a node told none.
    drivers: tuple[str, ...] = ()
    #: By number of GPUs.
    specs: Mapping[int, Spec] = field(default_factory=dict)
    #: Why a submit of so many GPUs would be refused.
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """GPUs of the largest job."""
        return max(self.specs, default=0)

    def has_driver(self, drivers: tuple[str, ...]) -> bool:
        """Whether what ran with these drivers says something of today's; an unknown one only of unknown ones."""
        return set(drivers or _UNKNOWN) <= set(self.drivers or _UNKNOWN)


def place_of(cluster: Cluster, name: PoolName, tables: Tables) -> Place | str:
    """A pool as the advisor sees it; else the sentence why nothing can be said of it.

    Plans stay on one node where nobody has measured the links between nodes.
    """
    nodes = [
        node
        for node in cluster.nodes.values()
        if node.pool == name
        and node.devices
        and node.state in (NodeState.READY, NodeState.CORDONED)
    ]
    devices = [device for node in nodes for device in node.devices]
    kind = _kind_of(name, devices, tables)
    if isinstance(kind, str):
        return kind
    largest = max(len(node.devices) for node in nodes)
    pool = Pool(
        kind=kind,
        gpus_per_node=largest,
        nodes=1,
        inside=kind.link,
        between=kind.link,
        name=name,
    )
    price = cluster.pools[name].price_at(cluster.now_ms)
    place = Place(
        name=name,
        pool=pool,
        simulated=any(device.simulated for device in devices),
        price=None if price is None else from_micro(price),
        alike=sum(len(node.devices) == largest for node in nodes),
        drivers=drivers_of(nodes),
    )
    found = cluster.pools[name].measured
    if found is None:
        return place
    doubt = _doubt(place, found, cluster.now_ms)
    if doubt:
        return replace(place, doubt=doubt)
    if not _is_fresh(found.between_ms, cluster.now_ms):
        found = replace(found, between_mb_s=0)
    return measured_place(place, found, place.alike)


def _kind_of(name: PoolName, devices: Sequence[Device], tables: Tables) -> GpuKind | str:
    """The one kind of a pool's devices; else the sentence why plans would be guesses."""
    kinds = sorted({device.kind for device in devices})
    if not kinds:
        return f"Pool {name} has no GPUs now."
    if len(kinds) > 1:
        return f"Pool {name} mixes kinds of GPUs ({', '.join(kinds)}): plans would be guesses."
    (called,) = kinds
    kind = kind_called(called, tables)
    if kind is None:
        return f"What {called} (pool {name}) computes per second is not in the table of GPU kinds."
    memory_mib = min(share_memory_mib(device, WHOLE_MILLI_GPU) for device in devices)
    return replace(kind, name=called, memory_bytes=float(memory_mib * _MIB))


def _doubt(place: Place, found: Measured, now_ms: int) -> str:
    """What speaks against reckoning with what was measured; "" for nothing."""
    kind, link = place.pool.kind, place.pool.inside.bytes_per_s
    if found.gpu_kind != kind.name:
        return f"other GPUs were measured ({found.gpu_kind})"
    if found.at_ms > now_ms:
        return "its date lies in the future"
    if not _is_fresh(found.at_ms, now_ms):
        return "it was measured more than 30 days ago"
    if not place.has_driver(found.drivers):
        before = driver_words(found.drivers)
        return f"its GPUs had {before} then, and have {driver_words(place.drivers)} now"
    return _not_of(kind, link, found)


def _not_of(kind: GpuKind, link: float, found: Measured) -> str:
    """What of it cannot be of such GPUs; "" for nothing."""
    gemm, near, far = (
        found.gemm_gflops * _GIGA,
        found.inside_mb_s * _MEGA,
        found.between_mb_s * _MEGA,
    )
    if not (gemm or near or far):
        return "it names no speed"
    if gemm and not _LEAST * _peak(kind) <= gemm <= _MOST * _peak(kind):
        return f"{gemm / 1e12:.3g} TFLOP/s cannot be of {kind.name}"
    if near and not _LEAST * link <= near <= _MOST * link:
        return f"{near / 1e9:.3g} GB/s between GPUs of a node cannot be of {kind.name}"
    # A ring over nodes passes the links inside of them, too.
    if far > _MOST * max(link, near):
        return f"{far / 1e9:.3g} GB/s between nodes cannot be of {kind.name}"
    if found.inside_ns > _SLOWEST_INSIDE_NS or found.between_ns > _SLOWEST_BETWEEN_NS:
        hop = max(found.inside_ns, found.between_ns) / 1e6
        return f"{hop:.3g} ms for one hop cannot be of a cluster's links"
    return ""


def driver_words(drivers: Iterable[str]) -> str:
    """``driver 550.54.15``; ``drivers 550.54.15 and 580.95.05``; ``a driver that nobody told``."""
    known = sorted(filter(None, drivers))
    if not known:
        return "a driver that nobody told"
    return f"driver{'s' if len(known) > 1 else ''} {' and '.join(known)}"


def _is_fresh(at_ms: int, now_ms: int) -> bool:
    return 0 <= now_ms - at_ms <= FRESH_MS


def _peak(kind: GpuKind) -> float:
    return kind.peak.get("bf16", kind.peak.get("fp16", 0.0))


def measured_place(place: Place, found: Measured, nodes: int) -> Place:
    """The same with what was measured in place of data sheets, over nodes whose links are known."""
    pool, known = place.pool, place.known
    inside, between = pool.inside, pool.between
    if found.inside_mb_s:
        # It was measured while all GPUs of the node sent: of a shared root that is each one's part.
        crowd = max(1.0, pool.gpus_per_node / 2) if inside.shared else 1.0
        inside = replace(
            inside,
            bytes_per_s=found.inside_mb_s * _MEGA * crowd,
            latency_s=found.inside_ns * _NANO,
        )
        known = replace(known, inside=1.0)
    if found.between_mb_s:
        between = Link(bytes_per_s=found.between_mb_s * _MEGA, latency_s=found.between_ns * _NANO)
        known = replace(known, between=1.0)
    peak = _peak(pool.kind) * pool.kind.sustained
    if found.gemm_gflops and peak:
        known = replace(known, products=min(1.0, found.gemm_gflops * _GIGA / peak))
    return replace(
        place,
        pool=replace(
            pool, inside=inside, between=between, nodes=nodes if found.between_mb_s else 1
        ),
        known=known,
        measured_ms=found.at_ms,
    )


def with_sizes(place: Place, spec: Spec, cluster: Cluster) -> Place:
    """The same with what a submit would say to each number of GPUs: a worker on each node."""
    specs, refused = {}, {}
    for gpus in (*sizes(place.pool.gpus_per_node), *over_nodes(place.pool)):
        (role,) = spec.roles
        workers = workers_of(place.pool, gpus)
        sized = replace(role, count=workers, milli_gpu=gpus // workers * WHOLE_MILLI_GPU)
        asked = replace(spec, pools=(place.name,), roles=(sized,))
        try:
            _check(asked, cluster)
        except SchedulerError as error:
            refused[gpus] = str(error)
        else:
            specs[gpus] = asked
    return replace(place, specs=specs, refused=refused)


def sizes(most: int) -> tuple[int, ...]:
    """Numbers of GPUs that people ask for: doubled from one on, and all of a node."""
    doubled = [1]
    while doubled[-1] * 2 <= most:
        doubled.append(doubled[-1] * 2)
    return (*doubled, most) if doubled[-1] < most else tuple(doubled)


def over_nodes(pool: Pool) -> tuple[int, ...]:
    """Numbers of GPUs of two, four, … and all whole nodes."""
    return tuple(count * pool.gpus_per_node for count in sizes(pool.nodes) if count > 1)


def workers_of(pool: Pool, gpus: int) -> int:
    """One on each node."""
    return max(1, gpus // pool.gpus_per_node)


def _check(spec: Spec, cluster: Cluster) -> None:
    (role,) = spec.roles
    asked = Asked(
        environment=None,
        max_run_ms=spec.max_run_ms,
        priority=spec.priority,
        milli_gpu=role.milli_gpu,
        workers=role.count,
    )
    check_policies(asked, cluster.teams[spec.team], cluster.policy)
    check_can_run(spec, cluster)

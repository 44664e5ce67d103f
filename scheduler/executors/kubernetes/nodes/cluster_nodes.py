"""The scheduler's nodes from the cluster's: pools by labels, what others take left out. Pure.

A GPU here is a slot, ``NODE/gpu-2``: slots of a node are alike, and which card a pod really gets is
known only when it holds it. Nor does a kubelet that offers fewer cards than before say which one is
away, or whether pods lost one: its device plugin, too, begins anew. So that takes free slots alone; who
holds one loses it with its pod, its node, or by the word of who looks at the card.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.gpu.devices.driver_versions import driver_version_from
from gpucommons.gpu.devices.kinds import kind_of, memory_mib_of
from gpucommons.gpu.hibernation.containers import RESOURCE as HIBERNATE
from gpucommons.scheduler.core.model.going_on import HibernationAbility
from gpucommons.scheduler.core.model.resources import Node, NodeState, Pool
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen, OtherPod
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
COUNT = "nvidia.com/gpu.count"
#: As GPU Feature Discovery labels a node: the whole version, or by an older release its parts.
DRIVER = "nvidia.com/cuda.driver-version.full"
DRIVER_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
#: No machine has more: a label is only text.
_MOST_CARDS = 64
SIMULATED = f"{names.GROUP}/simulated"
#: Before the name of a set of data.
DATA = f"data.{names.GROUP}/"
#: Before the profile, in the resource of instances that cards are cut into.
CUT = "nvidia.com/mig-"
_PROFILE = re.compile(r"[0-9]+g\.(?P<gib>[0-9]+)gb")
#: Where neither labels nor the pool's kind say how large a card is.
_UNKNOWN_MIB = 16_384
#: MiB that a slow volume takes and gives in a second. What it really takes, each pod finds out.
_SAVED, _WOKEN = 200, 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What others' pods take of a node."""

    gpus: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0
    kai_gpus: int = 0
    claims: int = 0
    #: By resource of a device plugin.
    extended: Mapping[str, int] = field(default_factory=dict)

    def gpus_of(self, place: PoolPlace) -> int:
        """GPUs that are not to be had, as whoever hands them out in the pool counts them."""
        match place.provider:
            case "kai":
                return self.kai_gpus
            case "dra":
                # Which device a claim is for, and how much of it, only its driver can tell.
                return self.gpus + self.claims
            case _ if is_cut(place):
                return self.extended.get(place.gpu_resource, 0)
            case _:
                return self.gpus


def taken_by_others(others: Iterable[OtherPod]) -> Mapping[str, Taken]:
    """Sums by node."""
    by_node: dict[str, list[OtherPod]] = defaultdict(list)
    for pod in others:
        by_node[pod.node].append(pod)
    return {
        node: Taken(
            gpus=sum(pod.gpus for pod in pods),
            cpu_milli=sum(pod.cpu_milli for pod in pods),
            memory_mib=sum(pod.memory_mib for pod in pods),
            kai_gpus=sum(pod.kai_gpus for pod in pods),
            claims=sum(pod.claims for pod in pods),
            extended=sum((Counter(dict(pod.extended)) for pod in pods), Counter()),
        )
        for node, pods in by_node.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """Who holds what, as far as it decides which slots can be offered."""

    #: What others' pods take, by node.
    taken: Mapping[str, Taken]
    #: Slots that work of ours holds: they are not the ones that others have.
    held: Set[DeviceId] = frozenset()
    #: Slots that reservations hold.
    reserved: Container[DeviceId] | None = None
    #: Slots that are lost: what runs on them is not what is reserved.
    lost: Container[DeviceId] = ()
    #: Slots that a pod has which is in nobody's books: held by no work of ours, they are not offered.
    strayed: Container[DeviceId] = ()
    #: Nodes where the device plugin may give away a card that work of ours runs on.
    closed: Container[NodeId] = ()
    #: Nodes whose slices another system should make, which is not there.
    unmade: Container[str] = ()


def nodes_of(
    seen: Iterable[NodeSeen],
    pools: Iterable[Pool],
    settings: KubernetesSettings,
    holdings: Holdings,
    *,
    executor: str = "kubernetes",
) -> tuple[Node, ...]:
    """The nodes that answer, each in the first pool of an executor whose labels it has."""
    ours = [pool for pool in pools if pool.executor == executor]
    chosen = [(pool, settings.selector_of(pool.name)) for pool in ours]
    held, found = _by_node(holdings.held), []
    for node in sorted(seen, key=lambda one: one.name):
        if not node.ready:
            continue
        pool = next(
            (pool for pool, wanted in chosen if wanted.items() <= node.labels.items()), None
        )
        if pool is not None:
            place = settings.place_of(pool.name)
            devices = slots(node, pool, place, held[node.name], rather=holdings.reserved or ())
            found.append(_node(node, pool, devices, settings, holdings))
    return tuple(found)


def _by_node(held: Iterable[DeviceId]) -> defaultdict[str, list[DeviceId]]:
    found = defaultdict[str, list[DeviceId]](list)
    for slot in held:
        found[slot.rpartition("/")[0]].append(slot)
    return found


def _node(
    node: NodeSeen,
    pool: Pool,
    devices: tuple[Device, ...],
    settings: KubernetesSettings,
    holdings: Holdings,
) -> Node:
    place = settings.place_of(pool.name)
    taken = holdings.taken.get(node.name, Taken())
    offered = tuple(one for one in devices if _is_offered(one, place, holdings))
    if place.reservations == "standing" and holdings.reserved is not None:
        devices = offered
    else:
        closed = NodeId(node.name) in holdings.closed
        devices = _without(offered, len(devices) if closed else taken.gpus_of(place), holdings.held)
    if node.name in holdings.unmade:
        devices = tuple(one for one in devices if one.device_id in holdings.held)
    return Node(
        node_id=NodeId(node.name),
        pool=pool.name,
        devices=devices,
        cpu_milli=max(0, node.cpu_milli - taken.cpu_milli),
        memory_mib=max(0, node.memory_mib - taken.memory_mib),
        state=NodeState.CORDONED if node.cordoned else NodeState.READY,
        rack=node.labels.get(place.rack_label),
        data=_data(node.labels),
        hibernation=_ability(node, settings),
        driver=driver_of(node.labels) if devices else "",
    )


def driver_of(labels: Mapping[str, str]) -> str:
    """Version of the driver; "" where no label says it."""
    parts = [labels[name] for name in DRIVER_PARTS if labels.get(name)]
    return driver_version_from(labels.get(DRIVER) or ".".join(parts))


def with_drivers(nodes: Iterable[Node], told: Mapping[NodeId, str]) -> tuple[Node, ...]:
    """The same; where no label names the driver, it is what the node's agent told."""
    return tuple(
        replace(node, driver=told[node.node_id])
        if node.devices and not node.driver and node.node_id in told
        else node
        for node in nodes
    )


def _ability(node: NodeSeen, settings: KubernetesSettings) -> HibernationAbility | None:
    """Whether jobs' processes are saved there; None where no admin has asked for that."""
    if not settings.hibernation:
        return None
    if settings.hibernation_hindrance:
        return HibernationAbility(able=False, because=settings.hibernation_hindrance)
    if not node.allocatable.get(HIBERNATE):
        because = "its node does not offer to save processes (the log of the node's agent says why)"
        return HibernationAbility(able=False, because=because)
    return HibernationAbility(able=True, save_mib_per_s=_SAVED, wake_mib_per_s=_WOKEN)


def _data(labels: Mapping[str, str]) -> frozenset[str]:
    """The sets of data that an admin says lie on the node: ``data.gpucommons.io/imagenet=true``."""
    return frozenset(
        label.removeprefix(DATA)
        for label, value in labels.items()
        if label.startswith(DATA) and value != "false"
    )


def _is_offered(device: Device, place: PoolPlace, holdings: Holdings) -> bool:
    slot, reserved = device.device_id, holdings.reserved
    if slot in holdings.lost:
        return False
    if slot in holdings.held:
        # A reservation that is made anew, or not heard of yet, takes nothing from who has the card.
        return True
    stands = place.reservations == "standing"
    return slot not in holdings.strayed and (not stands or reserved is None or slot in reserved)


def slots(
    node: NodeSeen,
    pool: Pool,
    place: PoolPlace,
    held: Collection[DeviceId] = (),
    *,
    rather: Container[DeviceId] = (),
) -> tuple[Device, ...]:
    """The GPUs of a node as slots: all that are held, and of the free ones so many as it offers.

    ``rather``: free ones that stay before others do.
    """
    count = _count(node, place)
    there = max([count, *(int(slot.rpartition("/gpu-")[2]) + 1 for slot in held)])
    if not there:
        return ()
    memory_mib = _memory_mib(node, pool, place)
    kind = _kind(node, pool, place, memory_mib)
    simulated = is_simulated(node)
    devices = tuple(
        Device(
            device_id=slot_id(node.name, index),
            index=index,
            kind=kind,
            memory_mib=memory_mib,
            simulated=simulated,
        )
        for index in range(there)
    )
    return _without(devices, there - count, held, rather=rather)


def _count(node: NodeSeen, place: PoolPlace) -> int:
    """Cards of a node: as its kubelet offers them, else as GPU feature discovery counts them.

    HAMi's plugin offers every card many times over, and one for claims offers none.
    """
    if place.provider in {"hami", "dra"}:
        said = node.labels.get(COUNT, "")
        return min(int(said), _MOST_CARDS) if said.isdecimal() else 0
    return node.allocatable.get(place.gpu_resource, 0)


def _kind(node: NodeSeen, pool: Pool, place: PoolPlace, memory_mib: int) -> str:
    """As the agent names it: model and memory of a card, model and profile of an instance."""
    product = node.labels.get(PRODUCT)
    card = kind_of(product, memory_mib) if product else pool.gpu_kind or f"GPU-{memory_mib >> 10}"
    if not is_cut(place):
        return card
    model = card.rpartition("-")[0] if product else "GPU"
    return pool.gpu_kind or f"{model}-{place.gpu_resource.removeprefix(CUT)}"


def _memory_mib(node: NodeSeen, pool: Pool, place: PoolPlace) -> int:
    """As GPU feature discovery says, else as the instance's profile or the pool's kind does."""
    cut = is_cut(place)
    said = node.labels.get(f"{place.gpu_resource}.memory" if cut else MEMORY, "")
    if said.isdigit():
        return int(said)
    if cut and (profile := _PROFILE.search(place.gpu_resource)):
        return int(profile["gib"]) << 10
    try:
        return memory_mib_of(pool.gpu_kind or "")
    except ValueError:
        return _UNKNOWN_MIB


def is_simulated(node: NodeSeen) -> bool:
    """Whether its GPUs are none."""
    return node.labels.get(SIMULATED) == "true"


def is_cut(place: PoolPlace) -> bool:
    """Whether a pool's devices are instances that an admin has cut cards into."""
    return place.gpu_resource.startswith(CUT)


def holds_ahead(place: PoolPlace) -> bool:
    """Whether a pool's cards are held before somebody asks for a part of one."""
    return place.reservations == "ahead" and place.provider is None and not is_cut(place)


def why_no_part(place: PoolPlace, pool: Pool, milli_gpu: int) -> str | None:
    """Why a pool gives no part of a device; None where it does, or a whole one is asked for."""
    if not is_cut(place) or not 0 < milli_gpu < WHOLE_MILLI_GPU:
        return None
    profile = place.gpu_resource.removeprefix(CUT)
    return (
        f"Pool {pool.name} gives MIG instances ({profile}), each of them whole: ask for 1 GPU, which is"
        " one instance there, or for another pool."
    )


def why_not_parked(place: PoolPlace, pool: Pool) -> str:
    """Why a pool's cards are not given to others while a notebook's pod lives; empty where they are."""
    if place.provider is not None:
        return (
            f"{place.provider} makes the slices of pool {pool.name}, and gives that of a server to"
            " nobody else while the server runs."
        )
    if place.reservations == "standing":
        return ""
    return (
        f"Whole GPUs of pool {pool.name} come from the cluster's device plugin, which takes none back"
        " while a server runs, and may give away for good what a parked notebook has to go back to. Where"
        f" an admin sets reservations: standing for {pool.name}, its notebooks can be parked."
    )


def _without(
    devices: tuple[Device, ...],
    gpus: int,
    held: Container[DeviceId],
    *,
    rather: Container[DeviceId] = (),
) -> tuple[Device, ...]:
    """Leave out as many slots as are not to be had: free ones, the last first."""
    hidden: set[DeviceId] = set()
    for device in sorted(devices, key=lambda one: (one.device_id in rather, -one.index)):
        if len(hidden) >= gpus:
            break
        if device.device_id not in held:
            hidden.add(device.device_id)
    return tuple(device for device in devices if device.device_id not in hidden)


def slot_id(node: str, index: int) -> DeviceId:
    """Name of the place of one GPU on a node."""
    return DeviceId(f"{node}/gpu-{index}")

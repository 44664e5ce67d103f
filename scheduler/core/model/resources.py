"""What exists and who pays: nodes in pools, teams with quotas, and blocks of devices kept for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.devices.topology import DeviceLink
from gpucommons.gpu.slices.slices import MpsDaemon
from gpucommons.scheduler import pool_defaults
from gpucommons.scheduler.core.model.going_on import OFF, ON, HibernationAbility
from gpucommons.scheduler.core.model.price_and_budget import Budget, BudgetPolicy, Price
from gpucommons.scheduler.core.model.types import Millis, NodeId, PoolName, TeamName, UserName
from gpucommons.scheduler.on_idle import UNLESS_SAID


class NodeState(StrEnum):
    """Whether a node takes work."""

    READY = "ready"
    #: Keeps what runs, takes nothing new.
    CORDONED = "cordoned"
    #: Not heard of: what ran there counts as live until it is fenced.
    LOST = "lost"
    #: An admin states that nothing runs or can write there.
    FENCED = "fenced"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnhealthyDevice:
    """A GPU whose driver says that it can't compute: it takes nothing new."""

    device: Device
    #: The driver's word, for people: ``GPU is lost``.
    text: str
    #: Since when the core knows; executors leave it out.
    since_ms: Millis = Millis(0)
    #: Since when its driver says nothing of the kind any more; None while it does.
    well_since_ms: Millis | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowNode:
    """The same steps took longer on a node than on others: of equal nodes another is taken."""

    #: So much longer: the median over jobs, each of which says it by the median of its runs there.
    percent: int
    #: Of all these jobs.
    runs: int
    since_ms: Millis
    #: Unless more runs say so again.
    until_ms: Millis
    jobs: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowPair:
    """Jobs on a node and another one took longer steps than the same jobs on other pairs of nodes."""

    other: NodeId
    slow: SlowNode


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One machine of a pool."""

    node_id: NodeId
    pool: PoolName
    #: Those that take work.
    devices: tuple[Device, ...]
    cpu_milli: int
    memory_mib: int
    state: NodeState = NodeState.READY
    #: Nodes of one rack are close to each other; None where that is not known.
    rack: str | None = None
    #: The cluster cordons it: lifted when the cluster lifts it.
    cordoned_outside: bool = False
    #: An admin here cordoned it: lifted by an admin only, also where it was away in between.
    cordoned_here: bool = False
    #: Why an admin here cordoned or fenced it, in their words.
    state_text: str = ""
    #: When its cloud takes it back, as a notice said; it takes nothing new. None = there was none.
    leaves_ms: Millis | None = None
    #: The earliest time that its executor has told, for as long as it tells one: kept over a lift.
    told_leaves_ms: Millis | None = None
    #: Names of the sets of data that lie on it.
    data: frozenset[str] = frozenset()
    #: Since when its executor has it no more; None while it has.
    missing_since_ms: Millis | None = None
    #: Whether processes can be saved and woken on it; None = not known (yet).
    hibernation: HibernationAbility | None = None
    #: Version of its GPUs' driver; "" = nobody has told.
    driver: str = ""
    #: Pairs of its GPUs of which it is known how near they are to each other; none: nobody has told.
    links: tuple[DeviceLink, ...] = ()
    #: By whoever looks at step times; None = nothing of the kind is known.
    slow: SlowNode | None = None
    #: By the same; each such pair stands at both of its nodes.
    slow_pairs: tuple[SlowPair, ...] = ()
    #: Those that take nothing new; who had one before has it still.
    unhealthy: tuple[UnhealthyDevice, ...] = ()

    @property
    def all_devices(self) -> tuple[Device, ...]:
        """Those that take work and those that do not, as ``nvidia-smi`` counts them."""
        if not self.unhealthy:
            return self.devices
        found = (*self.devices, *(one.device for one in self.unhealthy))
        return tuple(sorted(found, key=lambda one: one.index))

    def given_out_of(self, device_ids: tuple[DeviceId, ...], milli_gpu: int) -> int:
        """How much of what is held of these devices it gives out: an unhealthy one goes to nobody."""
        ill = sum(one.device.device_id in device_ids for one in self.unhealthy)
        return milli_gpu * (len(device_ids) - ill) // len(device_ids) if ill else milli_gpu

    def with_unhealthy(self, said: Mapping[DeviceId, str]) -> Node:
        """The same node; those of its GPUs of which the driver says this take nothing new."""
        ill = tuple(
            UnhealthyDevice(device=one, text=said[one.device_id])
            for one in self.devices
            if one.device_id in said
        )
        if not ill:
            return self
        well = tuple(one for one in self.devices if one.device_id not in said)
        return replace(self, devices=well, unhealthy=ill)

    def with_all_taking_work(self) -> Node:
        """The same node, were it ready and all of its GPUs well."""
        return replace(self, state=NodeState.READY, devices=self.all_devices, unhealthy=())


def drivers_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Versions of the GPUs' driver on these nodes, each once; "" among them where a node told none."""
    return tuple(sorted({node.driver for node in nodes if node.all_devices}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a probe found on the GPUs and links of a pool; 0 where it did not look."""

    at_ms: Millis
    #: What was measured: numbers of another kind say nothing.
    gpu_kind: str
    #: Products of large matrices in 16 bits.
    gemm_gflops: int = 0
    #: Bus bandwidth of an all-reduce among all GPUs of a node, and what one hop takes.
    inside_mb_s: int = 0
    inside_ns: int = 0
    #: The same among all GPUs of several nodes.
    between_mb_s: int = 0
    between_ns: int = 0
    #: When, where a later probe of one node left it as it was; 0: with the rest.
    between_at_ms: Millis = Millis(0)
    #: Versions of the GPUs' driver on the pool's nodes then; none: kept by an older release.
    drivers: tuple[str, ...] = ()

    @property
    def between_ms(self) -> Millis:
        """When links between nodes were measured."""
        return self.between_at_ms or self.at_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class Growth:
    """A pool whose nodes an autoscaler brings where work waits, and takes away where none is."""

    #: So many at most, those that are there among them.
    max_nodes: int
    #: What each of them has for work.
    gpus: int
    cpu_milli: int
    memory_mib: int
    #: From the moment at which it is asked for until it takes work.
    boot_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """Nodes alike enough to be one choice, and the settings they share."""

    name: PoolName
    #: Name of the executor that runs work here.
    executor: str = "local"
    #: GPU model of its nodes; None for CPU nodes.
    gpu_kind: str | None = None
    #: From the announcement of a stop to SIGTERM.
    notice_ms: int = pool_defaults.NOTICE_S * 1000
    #: From SIGTERM to SIGKILL.
    grace_ms: int = pool_defaults.GRACE_S * 1000
    #: Sent with the announcement of a stop: ``SIGUSR1`` or ``none``. A job may ask for another.
    notice_signal: str = "none"
    #: Unused fixed-block GPUs that are never lent.
    headroom_milli_gpu: int = 0
    #: GPUs that a team's guaranteed work gives up are lent to others only after so long: as long as
    #: a borrower should at least have them. Who is stopped sooner has gained nothing by them.
    lend_after_ms: int = pool_defaults.LEND_AFTER_S * 1000
    #: Of a thousand GPUs, how many are kept from borrowers while guarantees are unused, so that who
    #: comes back to a guarantee mostly stops nobody. Two in a hundred: no more than stand still in
    #: a full pool anyway while jobs come and go.
    unlent_permille: int = pool_defaults.UNLENT_PERMILLE
    #: A job runs at least so long before it is stopped for fair share or priority: as long as jobs
    #: commonly run until their first checkpoint.
    min_run_ms: int = pool_defaults.MIN_RUN_S * 1000
    #: Of a thousand running jobs, how many may be moved within an hour to make room for one that
    #: waits only for lack of a place; at least one, unless it is 0. Two in a hundred is what packing
    #: gains most from; each move costs a job a restart.
    moved_permille: int = pool_defaults.MOVED_PERMILLE
    #: What was borrowed so long ago counts half when the surplus is divided.
    half_life_ms: int = pool_defaults.HALF_LIFE_S * 1000
    #: Notebook sizes offered, in milli-GPU; block sizes (1000 · 2^k, k ≥ -3).
    notebook_sizes: tuple[int, ...] = pool_defaults.NOTEBOOK_SIZES
    #: Isolation in force on its nodes, one of ``gpu.usage.ISOLATION_MODES``.
    isolation: str = "none"
    simulated: bool = False
    #: The daemon that fractions of its GPUs go through; None = the pool did not opt in to MPS.
    mps: MpsDaemon | None = None
    #: Processes of stopped jobs are saved to disk where that works: ``on`` or ``off``.
    hibernation: str = "on"
    #: Jobs that borrow are stopped once on purpose after their first save: ``on`` or ``off``. Off until
    #: an admin wants it: a stop that nobody asked for surprises, and every other stop shows as much.
    drills: str = OFF
    #: What users may choose for idle notebooks; the first is for who chose nothing.
    on_idle: tuple[str, ...] = UNLESS_SAID
    #: Of its notebooks, for one user: how long a saved kernel stays at most, and how large all of them
    #: may be together; None = as the notebook server's own settings say.
    kernels_kept_days: int | None = None
    kernels_kept_gib: int | None = None
    #: A notebook whose cell has kept its GPU busy for so long is offered to become a job; 0 = never.
    job_offer_after_ms: int = pool_defaults.JOB_OFFER_AFTER_S * 1000
    #: What a GPU costs, earliest first; none: no price is known.
    prices: tuple[Price, ...] = ()
    #: Of the prices, as ISO 4217 names it.
    currency: str = ""
    #: What plans reckon with in place of data sheets; None: nobody has measured it.
    measured: Measured | None = None
    #: Its nodes come by demand; None: those that are there are all.
    growth: Growth | None = None
    #: What the cluster's autoscaler says of nodes that are asked for; "" = nothing.
    scale_up_text: str = ""
    #: Since when each node that an autoscaler is to bring is asked for, the oldest first.
    scale_up_since_ms: tuple[Millis, ...] = ()

    def price_at(self, at_ms: int) -> int | None:
        """Millionths per GPU and hour at a moment; None where there is no price."""
        found = [price for price in self.prices if price.from_ms <= at_ms]
        return found[-1].micro_per_gpu_h if found else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """What a team may hold in one pool, in milli-GPU."""

    fixed_milli_gpu: int = 0
    guaranteed_milli_gpu: int = 0
    #: Cap on guaranteed + borrowed; None for no cap.
    limit_milli_gpu: int | None = None
    #: Divides the surplus among teams that borrow; 0 = never borrows.
    over_quota_weight: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Rules of a team or hub; a refusal names the rule (the field's name)."""

    #: Environments (images, kernels) that may be used; empty = all.
    environments: frozenset[str] = frozenset()
    max_run_ms: int | None = None
    priorities: frozenset[str] = frozenset({"low", "normal", "high"})
    max_milli_gpu_per_job: int | None = None
    #: Jobs use GPUs that cost at most so much per hour, in millionths of the pools' currency.
    max_price_micro: int | None = None
    max_workers: int | None = None
    max_pending_per_user: int = 100
    retrain_in_guarantee: bool = False
    #: Show owners' names of other teams' workloads.
    show_names: bool = False
    #: Members may run jobs from what each other's jobs of the team ran from.
    share_snapshots: bool = False
    #: ``off``: its jobs are not stopped on purpose where their pool would have it.
    drills: str = ON


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """Who pays. Quotas live on leaf teams; parents sum."""

    name: TeamName
    parent: TeamName | None = None
    #: Hub groups whose members belong to the team.
    groups: frozenset[str] = frozenset()
    #: Members named one by one (no hub, or beside its groups).
    members: frozenset[UserName] = frozenset()
    #: Users who see and steer everything of this team.
    leads: frozenset[UserName] = frozenset()
    quotas: Mapping[PoolName, Quota] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    #: The service that alone may change the team; None = every admin may.
    managed_by: UserName | None = None
    budget: Budget | None = None
    #: A sentence while the budget is used up, as whoever reads the ledger noted; "" while it is not.
    budget_spent: str = ""

    @property
    def may_borrow(self) -> bool:
        """Whether its budget lets its jobs run beyond its quota."""
        return self._at_full in (None, BudgetPolicy.WARN)

    @property
    def may_start(self) -> bool:
        """Whether its budget lets its jobs start."""
        return self._at_full is not BudgetPolicy.NO_NEW_JOBS

    @property
    def _at_full(self) -> BudgetPolicy | None:
        """The rule that holds now; None while there is budget left, or none was set."""
        return self.budget.at_full if self.budget is not None and self.budget_spent else None


def policies_of(team: TeamName, teams: Mapping[TeamName, Team], hub: Policy) -> tuple[Policy, ...]:
    """All policies that a team's work is under: the hub's and its own."""
    return (hub, teams[team].policy) if team in teams else (hub,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A part of a team's fixed quota, laid out on devices.

    ``milli_gpu`` is 1000·2^k: below 1000 it lies aligned on one device (``offset`` a multiple of
    its size), from 1000 on it is whole devices of one node.
    """

    team: TeamName
    pool: PoolName
    node_id: NodeId
    device_ids: tuple[DeviceId, ...]
    offset: int
    milli_gpu: int

"""One run: pods arrive one after the other, each is placed at once or turned away for good."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.packing.arrivals import arrivals, installed_milli_gpu, shuffled
from benchmarks.packing.baselines import BestFit, fixed_order_fgd
from benchmarks.packing.holding import devices_for, give, take
from benchmarks.packing.moves import MOST_MOVES, Held, Movables, find
from benchmarks.packing.traces import TraceNode, read_nodes, read_pods
from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.foresight import Foresight
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.core.packing.rows import Rows
from gpucommons.scheduler.core.packing.score_board import Board

MIGRATE = "gpucommons-migrate"
POLICIES = ("bestfit", "fgd", "gpucommons", MIGRATE)

#: Part of the pods placed so far that may have been moved.
MOVED_PERCENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one run is about."""

    nodes: Path
    pods: Path
    policy: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it."""

    trace: str
    policy: str
    seed: int
    allocated_percent_at_100: float
    decisions_per_second: float
    moved_percent: float


def rows_of(nodes: Sequence[TraceNode]) -> Rows:
    """Empty nodes, in this order."""
    rows = Rows([node.kind for node in nodes], [node.devices for node in nodes])
    for row, node in enumerate(nodes):
        rows.write(row, [WHOLE_MILLI_GPU] * node.devices, node.cpu_milli, node.memory_mib)
    return rows


class Cluster:
    """Nodes that fill up, under one policy."""

    def __init__(self, board: Board, demand: LearnedDemand | None = None) -> None:
        """Start empty; with ``demand`` the policy learns from each arrival."""
        self.board = board
        self.demand = demand
        self.allocated_milli_gpu = 0
        self.placed = 0
        self.moved = 0

    def arrive(self, ask: Ask) -> None:
        """Place a pod, or turn it away."""
        if self.demand is not None:
            self._learn(self.demand, ask)
        row = self.board.best(ask)
        if row is None:
            self.make_room(ask)
        else:
            self.put(ask, row, devices_for(self.board, ask, row))

    def put(self, ask: Ask, row: int, positions: tuple[int, ...]) -> None:
        """Place a pod here."""
        take(self.board.rows, row, positions, ask)
        self.allocated_milli_gpu += ask.milli_gpu
        self.placed += 1

    def make_room(self, ask: Ask) -> None:
        """Turn a pod away that fits nowhere."""

    def _learn(self, before: LearnedDemand, ask: Ask) -> None:
        self.demand = before.after(ask)
        if self.demand.known is not before.known:
            self.board.set_policy(Foresight(self.demand.known, self.board.rows))


class MovingCluster(Cluster):
    """Moves a few small pods where that makes room; whole-GPU pods stay where they are."""

    def __init__(self, board: Board, demand: LearnedDemand) -> None:
        """Start empty."""
        super().__init__(board, demand)
        self._movables = Movables()
        self._in_vain: set[Ask] = set()

    def put(self, ask: Ask, row: int, positions: tuple[int, ...]) -> None:
        """Place a pod and remember it, if it may be moved."""
        super().put(ask, row, positions)
        if ask.milli < WHOLE_MILLI_GPU:
            self._movables.add(Held(self.placed, ask, row, positions))

    def make_room(self, ask: Ask) -> None:
        """Move what may be moved, or turn the pod away."""
        allowed = self.placed * MOVED_PERCENT // 100 - self.moved
        # Without moves nothing becomes free: what failed once fails until somebody moved.
        if allowed <= 0 or ask in self._in_vain:
            return
        found = find(self.board, ask, self._movables, min(allowed, MOST_MOVES))
        if found is None:
            self._in_vain.add(ask)
            return
        self._in_vain.clear()
        rows = self.board.rows
        for one in found.moves:
            give(rows, one.held.row, one.held.positions, one.held.ask)
            self._movables.remove(one.held)
        for one in found.moves:
            take(rows, one.row, one.positions, one.held.ask)
            self._movables.add(one.held._replace(row=one.row, positions=one.positions))
        self.moved += len(found.moves)
        self.put(ask, found.row, found.positions)


def cluster_for(policy: str, rows: Rows, pods: Sequence[Ask]) -> Cluster:
    """Return an empty cluster under a policy."""
    if policy == "bestfit":
        return Cluster(Board(rows, BestFit()))
    if policy == "fgd":
        return Cluster(Board(rows, fixed_order_fgd(pods, rows)))
    demand = LearnedDemand()
    board = Board(rows, Foresight(demand.known, rows))
    return MovingCluster(board, demand) if policy == MIGRATE else Cluster(board, demand)


def run(case: Case) -> Result:
    """Play one case."""
    nodes, pods = read_nodes(case.nodes), read_pods(case.pods)
    installed = installed_milli_gpu(nodes)
    cluster = cluster_for(case.policy, rows_of(shuffled(nodes, case.seed)), pods)
    coming = arrivals(pods, installed, case.seed)
    # Time of this process alone: runs go side by side, and often beside other work.
    begin = time.process_time()
    for ask in coming:
        cluster.arrive(ask)
    seconds = time.process_time() - begin
    return Result(
        trace=case.pods.stem,
        policy=case.policy,
        seed=case.seed,
        allocated_percent_at_100=round(100 * cluster.allocated_milli_gpu / installed, 3),
        decisions_per_second=round(len(coming) / seconds),
        moved_percent=round(100 * cluster.moved / max(1, cluster.placed), 3),
    )

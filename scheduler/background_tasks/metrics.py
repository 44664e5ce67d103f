"""What Prometheus scrapes: the cluster as it is at that moment, and how the API is used."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import HoldClass, Kind
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.service.service import Deciding
from gpucommons.scheduler.threads.pulse import Pulse

#: Wide on purpose: long polls of 25 s belong to the normal ones.
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class ClusterCollector(Collector):
    """Gauges read from the last committed cluster when scraped: nothing to keep in step."""

    def __init__(self, loop: Deciding) -> None:
        self._loop = loop

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing to announce: names are known when scraped."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges."""
        cluster = self._loop.cluster
        yield _capacity(cluster)
        yield from _team_gauges(cluster)
        yield _workloads(cluster)
        yield _waiting(cluster)
        yield _idle(cluster)
        yield _parked(cluster)
        yield _badges(cluster)


def _capacity(cluster: Cluster) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "gpucommons_capacity_milli_gpu",
        "Milli-GPU by pool and node state.",
        labels=["pool", "state"],
    )
    found: Tally[tuple[str, str]] = Tally()
    for node in cluster.nodes.values():
        found[node.pool, NodeState(node.state)] += len(node.devices) * 1000
        if node.unhealthy:
            found[node.pool, "unhealthy"] += len(node.unhealthy) * 1000
    for labels, milli_gpu in sorted(found.items()):
        gauge.add_metric(labels, milli_gpu)
    return gauge


def _team_gauges(cluster: Cluster) -> Iterator[GaugeMetricFamily]:
    held = GaugeMetricFamily(
        "gpucommons_held_milli_gpu",
        "Milli-GPU held or promised, by the quota they count against.",
        labels=["team", "pool", "class"],
    )
    for (team, pool), use in quota.uses(cluster.nodes, cluster.workloads.values()).items():
        for hold_class in (HoldClass.FIXED, HoldClass.GUARANTEED, HoldClass.OVER_QUOTA):
            held.add_metric([team, pool, hold_class], use.of(hold_class))
    yield held
    saved = GaugeMetricFamily(
        "gpucommons_quota_milli_gpu",
        "Quota by team, pool and kind of quota.",
        labels=["team", "pool", "quota"],
    )
    for team_name, owner in cluster.teams.items():
        for pool_name, found in owner.quotas.items():
            saved.add_metric([team_name, pool_name, "fixed"], found.fixed_milli_gpu)
            saved.add_metric([team_name, pool_name, "guaranteed"], found.guaranteed_milli_gpu)
            if found.limit_milli_gpu is not None:
                saved.add_metric([team_name, pool_name, "limit"], found.limit_milli_gpu)
    yield saved


def _workloads(cluster: Cluster) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "gpucommons_workloads", "Live workloads.", labels=["team", "kind", "state"]
    )
    found = Tally((w.spec.team, w.spec.kind, w.state) for w in cluster.workloads.values())
    for labels, number in sorted(found.items()):
        gauge.add_metric(labels, number)
    return gauge


def _waiting(cluster: Cluster) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "gpucommons_waiting", "Waiting workloads by reason.", labels=["team", "reason"]
    )
    found = Tally(
        (w.spec.team, "none" if w.reason is None else w.reason.code.value)
        for w in cluster.workloads.values()
        if w.state in WAITING_STATES
    )
    for labels, number in sorted(found.items()):
        gauge.add_metric(labels, number)
    return gauge


def _idle(cluster: Cluster) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "gpucommons_idle_notebooks", "Notebooks that hold a GPU and are idle.", labels=["team"]
    )
    found = Tally(
        w.spec.team
        for w in cluster.workloads.values()
        if w.spec.kind is Kind.NOTEBOOK
        and w.current is not None
        and w.idleness is not None
        and w.idleness.idle_since_ms is not None
    )
    for team, number in sorted(found.items()):
        gauge.add_metric([team], number)
    return gauge


def _parked(cluster: Cluster) -> GaugeMetricFamily:
    """As the ledger counts it: also while a notebook is in line to have its GPU back."""
    gauge = GaugeMetricFamily(
        "gpucommons_parked_milli_gpu",
        "Milli-GPU that parked notebooks held before, and that others can have.",
        labels=["team", "pool"],
    )
    found: Tally[tuple[str, str]] = Tally()
    for one in cluster.workloads.values():
        last = one.attempts[-1] if one.attempts else None
        if last is not None and last.parked and last.ended_ms is not None and last.placements:
            node = cluster.nodes.get(last.placements[0].node_id)
            pool = one.spec.pools[0] if node is None else node.pool
            found[one.spec.team, pool] += sum(placed_milli_gpu(each) for each in last.placements)
    for labels, milli_gpu in sorted(found.items()):
        gauge.add_metric(labels, milli_gpu)
    return gauge


def _badges(cluster: Cluster) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "gpucommons_safe_to_borrow",
        "Code that was stopped and went on, by way to go on.",
        labels=["team", "way"],
    )
    found = Tally((badge.team, badge.way) for badge in cluster.badges.values())
    for labels, number in sorted(found.items()):
        gauge.add_metric(labels, number)
    return gauge


class PulseCollector(Collector):
    """Whether the scheduler decides, for an alarm: its API may answer all the while."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing to announce: names are known when scraped."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """A gauge and a counter."""
        yield GaugeMetricFamily(
            "gpucommons_undecided_seconds",
            "Time since a cycle last went well, be it one that followed another replica.",
            value=self._pulse.useless_s,
        )
        yield CounterMetricFamily(
            "gpucommons_failed_cycles", "Cycles that failed.", value=self._pulse.failed
        )


#: What was counted so far, by the values of two labels.
Counts = Callable[[], Mapping[tuple[str, str], int]]


class CountsCollector(Collector):
    """What is counted where it happens: one counter with two labels."""

    def __init__(self, name: str, text: str, labels: tuple[str, str], counts: Counts) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._counts = counts

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Nothing to announce: names are known when scraped."""
        return iter(())

    def collect(self) -> Iterator[CounterMetricFamily]:
        """One counter."""
        counter = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, number in sorted(self._counts().items()):
            counter.add_metric(labels, number)
        yield counter


def requests_counter(requests: Counts) -> CountsCollector:
    """What the scheduler asks of a cluster's API server."""
    text = "Requests to the API server of the cluster, by verb and resource."
    return CountsCollector("gpucommons_kubernetes_requests", text, ("verb", "resource"), requests)


def messages_counter(messages: Counts) -> CountsCollector:
    """What became of messages by mail and webhook."""
    text = "Messages to users by channel: sent, failed or dropped."
    return CountsCollector("gpucommons_notifications", text, ("channel", "fate"), messages)


class Metrics:
    """Everything of one scheduler, in a registry of its own."""

    def __init__(
        self,
        loop: Deciding,
        *,
        cluster_requests: Counts | None = None,
        messages: Counts | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(ClusterCollector(loop))
        self.registry.register(PulseCollector(loop.pulse))
        if cluster_requests is not None:
            self.registry.register(requests_counter(cluster_requests))
        if messages is not None:
            self.registry.register(messages_counter(messages))
        self._requests = Counter(
            "gpucommons_api_requests",
            "Requests by operation and status.",
            ["method", "operation", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "gpucommons_api_seconds",
            "Time to answer, long polls included.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def request(self, method: str, operation: str, status: int, seconds: float) -> None:
        """One request was answered. Names invented by callers are not kept."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

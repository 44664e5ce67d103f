"""What the culler publishes about itself, for Prometheus, on loopback."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Counters of one culler; its own registry, so that tests and programs can hold several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.cycles = self._counter("cycles", "Finished cycles")
        self.failed_cycles = self._counter(
            "failed_cycles", "Cycles in which the scheduler or the hub could not be read"
        )
        self.kept = self._counter("kept", "Notebooks kept, by reason, once per cycle", "reason")
        self.warned = self._counter("warned", "Warnings given, by reason", "reason")
        self.culled = self._counter("culled", "Servers stopped, by reason", "reason")
        self.released = self._counter("released", "Servers restarted without a device", "reason")
        self.parked = self._counter(
            "parked", "Servers that were asked to park, by reason", "reason"
        )
        self.hibernated = self._counter(
            "hibernated", "Servers stopped after their kernels were to be saved", "reason"
        )
        self.spared = self._counter(
            "spared", "Culls called off because the re-check right before them showed activity"
        )
        self.false_culls = self._counter(
            "false_culls", "Culls during which activity showed up after the re-check"
        )
        self.failed_acts = self._counter(
            "failed_acts", "Warnings, culls and releases that failed and are tried again"
        )
        self.unverified = Gauge(
            "gpucommons_culler_unverified",
            "Notebooks that hold a GPU without a fresh report or reading",
            registry=self.registry,
        )
        self.cycle_seconds = Histogram(
            "gpucommons_culler_cycle_seconds", "Length of a cycle", registry=self.registry
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"gpucommons_culler_{name}", text, labels, registry=self.registry)

    def value(self, name: str, **labels: str) -> float:
        """Read one number back, for the log line of a cycle and for tests."""
        return self.registry.get_sample_value(f"gpucommons_culler_{name}", labels) or 0.0

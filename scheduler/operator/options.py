"""What the operator is told: command line and environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucommons.scheduler.operator.following import Pace


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorSettings:
    """Everything that the operator needs."""

    scheduler_url: str
    token: str | None = field(repr=False, default=None)
    #: Only take finalizers off, and end.
    release: bool = False
    #: Port of ``/healthz``; 0 = none.
    health_port: int = 0
    pace: Pace = field(default_factory=Pace)


def read_settings(arguments: Sequence[str], environ: Mapping[str, str]) -> OperatorSettings:
    """Settings; the token comes from the environment, never from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gpucommons.scheduler.operator",
        description="Makes TrainingJobs and Teams of a Kubernetes cluster known to the scheduler.",
    )
    add = parser.add_argument
    add("--scheduler-url", default="", help="the API (default: GPUCOMMONS_URL)")
    add("--health-port", type=int, default=0, help="port of /healthz (0: none)")
    add("--give-up-s", type=float, default=300.0, help="longest that a deletion waits")
    add(
        "--release",
        action="store_true",
        help="take the finalizers off all objects and end: before the operator is uninstalled",
    )
    given = parser.parse_args(arguments)
    url = given.scheduler_url or environ.get("GPUCOMMONS_URL", "")
    if not url and not given.release:
        parser.error("say where the scheduler is: --scheduler-url or GPUCOMMONS_URL")
    return OperatorSettings(
        scheduler_url=url,
        token=environ.get("JUPYTERHUB_API_TOKEN") or None,
        release=given.release,
        health_port=given.health_port,
        pace=Pace(give_up_s=given.give_up_s),
    )

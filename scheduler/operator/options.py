"""What the operator is told: command line and environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    parser = parser_of(
        "python -m gpucommons.scheduler.operator",
        "Makes TrainingJobs and Teams of a Kubernetes cluster known to the scheduler.",
    )
    add = parser.add_argument
    add("--give-up-s", type=float, default=300.0, help="longest that a deletion waits")
    add(
        "--release",
        action="store_true",
        help="take the finalizers off all objects and end: before the operator is uninstalled",
    )
    given = parser.parse_args(arguments)
    pace = Pace(give_up_s=given.give_up_s)
    if given.release:
        return OperatorSettings(scheduler_url="", release=True, pace=pace)
    return replace(settings_of(parser, given, environ), pace=pace)


def parser_of(prog: str, description: str) -> argparse.ArgumentParser:
    """The command line of a program that stands between a cluster and the scheduler."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    add = parser.add_argument
    add("--scheduler-url", default="", help="the API (default: GPUCOMMONS_URL)")
    add("--health-port", type=int, default=0, help="port of /healthz (0: none)")
    return parser


def settings_of(
    parser: argparse.ArgumentParser, given: argparse.Namespace, environ: Mapping[str, str]
) -> OperatorSettings:
    """What every such program is told; a usage error where nobody says where the scheduler is."""
    url = given.scheduler_url or environ.get("GPUCOMMONS_URL", "")
    if not url:
        parser.error("say where the scheduler is: --scheduler-url or GPUCOMMONS_URL")
    return OperatorSettings(
        scheduler_url=url,
        token=environ.get("JUPYTERHUB_API_TOKEN") or None,
        health_port=given.health_port,
    )

"""All checks in the order in which an admin would go through them, as a document and for people."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict

from gpucommons.gpu.doctor.diagnosis import OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor import (
    hub,
    network,
    pools,
    prerequisites,
    rights,
    scopes,
)
from gpucommons.scheduler.cli.cluster_doctor.cluster import Check, Cluster, look
from gpucommons.scheduler.cli.present import show, table
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect

CHECKS: Mapping[str, Check] = {
    "Kubernetes": prerequisites.version,
    "clocks": prerequisites.clocks,
    "parts": prerequisites.parts,
    "rights": rights.check,
    "namespaces": prerequisites.pod_security,
    "pools": pools.check,
    "storage": prerequisites.storage,
    "hub": hub.check,
    "scopes": scopes.check,
    "network": network.check,
}
_HEADER = ("CHECK", "", "FOUND", "WHAT TO DO")
_WORDS = {OK: "ok", PROBLEM: "not ok"}


def doctor(arguments: argparse.Namespace) -> int:
    """Look at the cluster of the caller's kubeconfig."""
    cluster = Cluster(server=connect(), namespace=arguments.namespace, now_s=time.time())
    findings = look(CHECKS, cluster)
    document, text = report(findings)
    show(document, text, output=arguments.output)
    return 1 if any(one.level == PROBLEM for one in findings) else 0


def report(findings: tuple[Finding, ...]) -> tuple[dict[str, object], str]:
    """The lines as a document, and for people."""
    rows = [
        (one.check, _WORDS.get(one.level, one.level), one.found, one.change) for one in findings
    ]
    wrong = sum(one.level == PROBLEM for one in findings)
    summary = (
        f"{wrong} of {len(findings)} lines are not ok." if wrong else "Nothing stops work here."
    )
    document: dict[str, object] = {"findings": [asdict(one) for one in findings]}
    return document, f"{table(_HEADER, rows)}\n\n{summary}"

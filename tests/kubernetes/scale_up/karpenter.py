"""The real Karpenter with its own provider of simulated nodes (KWOK), beside a cluster of the tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.harness.free_ports import free_port
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.toolchain import toolchain

#: Of one node that it may bring, in the form of its kwok/cloudprovider/instance_types.json.
_TYPES = (("four", "64", "256Gi", "4", 3.2), ("eight", "128", "512Gi", "8", 6.4))


def start(cluster: Cluster) -> None:
    """Its definitions, and the process; it ends with the cluster."""
    program = toolchain.find("karpenter")
    definitions = (path.read_text() for path in sorted(program.parent.glob("*.yaml")))
    _apply(cluster, "\n---\n".join(definitions))
    types = cluster.folder / "instance-types.json"
    types.write_text(json.dumps([_type(*one) for one in _TYPES]))
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(free_port()),
        "HEALTH_PROBE_PORT": str(free_port()),
        "SYSTEM_NAMESPACE": "kube-system",
        "KARPENTER_SERVICE": "karpenter",
        "INSTANCE_TYPES_FILE_PATH": str(types),
    }
    cluster.processes.start("karpenter", [program], environment=environment)


def pool_of_nodes(cluster: Cluster, pool: str, labels: Mapping[str, str]) -> None:
    """A NodePool as our documentation says: the pool's label and its taint."""
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    node_class = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    spec = {
        "taints": [{"key": "gpucommons.io/pool", "value": pool, "effect": "NoSchedule"}],
        "requirements": requirements,
        "nodeClassRef": node_class,
        "expireAfter": "720h",
    }
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": pool},
            "spec": {
                "template": {"metadata": {"labels": dict(labels)}, "spec": spec},
                "limits": {"nvidia.com/gpu": "8"},
                "disruption": {
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "consolidateAfter": "1s",
                },
            },
        },
    ]
    # Definitions are served a moment after they were made.
    wait_for(lambda: _applied(cluster, yaml.safe_dump_all(documents)), "its definitions")


def _type(name: str, cpu: str, memory: str, gpus: str, price: float) -> dict[str, Any]:
    offered = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}
    offering = {
        "Price": price,
        "Available": True,
        "Requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in offered.items()
        ],
    }
    resources = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "name": f"{name}-amd64-linux",
        "offerings": [offering],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {**resources, "nvidia.com/gpu": gpus},
    }


def _apply(cluster: Cluster, text: str) -> None:
    answer = _kubectl(cluster, text)
    assert answer.returncode == 0, answer.stderr


def _applied(cluster: Cluster, text: str) -> bool:
    return _kubectl(cluster, text).returncode == 0


def _kubectl(cluster: Cluster, text: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [toolchain.find("kubectl"), "--kubeconfig", cluster.kubeconfig]
    command += ["apply", "--server-side", "-f", "-"]
    return subprocess.run(command, input=text, check=False, capture_output=True, text=True)

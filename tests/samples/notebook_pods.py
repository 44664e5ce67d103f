"""Pods and leases for tests."""

from __future__ import annotations

from typing import Any

from gpucommons.gpu.providers import Injection
from gpucommons.gpu.providers.cluster.pods import slice_folder
from gpucommons.scheduler.models import LeaseView
from gpucommons.spawner.pods.pod import PodNeeds
from gpucommons.spawner.server_environment import Attachment, environment_of

NO_LEASE: LeaseView | None = None
SLICE = {
    "slice_id": "0190aaaa-0000-7000-8000-0000000000aa",
    "node": "gpu-03",
    "device_ids": ["gpu-03/gpu-1"],
    "device_indices": [1],
    "visible_devices": ["GPU-aaaa"],
    "gpu_kind": "A100-40",
    "milli_gpu": 500,
    "memory_mib": 19866,
    "isolation": "cooperative",
    "simulated": False,
}


def held(**slice_fields: object) -> LeaseView:
    return LeaseView.model_validate(
        {
            "id": "0190aaaa-0000-7000-8000-000000000001",
            "user": "alice",
            "server_name": "",
            "team": "vision",
            "pool": "gpu",
            "state": "granted",
            "milli_gpu": 500,
            "requested_ms": 1,
            "since_ms": 1,
            "slice": SLICE | slice_fields,
        }
    )


LEASE = held()


def needs(
    lease: LeaseView | None, *, injection: Injection | None = None, priority_class: str = ""
) -> PodNeeds:
    given = injection
    if given is None:
        given = Injection()
        if lease is not None and lease.slice is not None:
            env = {"NVIDIA_VISIBLE_DEVICES": "GPU-aaaa", "CUDA_VISIBLE_DEVICES": "GPU-aaaa"}
            given = slice_folder({"slice": lease.slice.slice_id}).over(Injection(env=env))
    attachment = Attachment(
        scheduler_url="http://scheduler", agent_dir="", shared_account=False, prepared=given
    )
    return PodNeeds(
        user_label="alice",
        user="alice",
        server_name="",
        env=environment_of(lease, attachment),
        lease=lease,
        injection=given,
        priority_class=priority_class,
    )


def plain_pod() -> dict[str, Any]:
    """A pod as KubeSpawner makes it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "jupyter-alice",
            "labels": {"component": "singleuser-server"},
            "annotations": {"hub.jupyter.org/username": "alice"},
        },
        "spec": {
            "containers": [
                {
                    "name": "notebook",
                    "image": "lab:1",
                    "env": [{"name": "EDITOR", "value": "vi"}],
                    "resources": {"limits": {}, "requests": {}},
                    "volumeMounts": [{"name": "home", "mountPath": "/home/jovyan"}],
                }
            ],
            "volumes": [{"name": "home", "emptyDir": {}}],
        },
    }

"""The hub of a cluster: notebooks as pods, beside whatever else configures this hub.

For the ``hub.extraConfig`` of Zero to JupyterHub::

    from gpucommons.spawner.cluster import configure_cluster
    configure_cluster(c, scheduler_url="http://gpucommons-api.gpucommons.svc:8000",
                      pages_url="http://gpucommons-pages.gpucommons.svc:8001")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpucommons.spawner.hub_config import HubSettings, configure

#: Where the hub's pod finds the tokens of the services, one file each.
TOKENS_DIR = "/etc/gpucommons/tokens"
#: In namespaces with this label only the hub and GPU Commons make pods with GPUs.
GUARDED = {"gpucommons.io/guarded": "true"}
PRIORITY_CLASS = "gpucommons-notebook"
#: What a namespace asks that enforces PodSecurity `restricted`.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class MissingToken(Exception):
    """A token of a service is not where it should be."""


def configure_cluster(
    c: Any, *, scheduler_url: str, pages_url: str, tokens_dir: str = TOKENS_DIR
) -> None:
    """Configure the hub; what Zero to JupyterHub set before stays.

    Raises
    ------
    MissingToken
        When a service could not prove who it is.
    """
    configure(
        c,
        HubSettings(
            scheduler_url=scheduler_url,
            pages_url=pages_url,
            service_token=_token(tokens_dir, "scheduler"),
            culler_token=_token(tokens_dir, "culler"),
            spawner_token=_token(tokens_dir, "spawner"),
            operator_token=_token(tokens_dir, "operator", optional=True),
            spawner_class="gpucommons.spawner.kube.GpuKubeSpawner",
        ),
    )
    c.GpuKubeSpawner.gpu_priority_class_name = PRIORITY_CLASS
    c.KubeSpawner.user_namespace_labels.update(GUARDED)
    if "container_security_context" not in c.KubeSpawner:
        c.KubeSpawner.container_security_context = RESTRICTED


def _token(folder: str, name: str, *, optional: bool = False) -> str:
    file = Path(folder) / name
    try:
        found = file.read_text().strip()
    except FileNotFoundError:
        found = ""
    if not found and not optional:
        message = (
            f"There is no token in {file}: mount the Secret gpucommons-hub-tokens of the"
            " chart there (hub.extraVolumes, hub.extraVolumeMounts)."
        )
        raise MissingToken(message)
    return found

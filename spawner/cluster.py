"""The hub of a cluster: notebooks as pods, beside whatever else configures this hub.

For the ``hub.extraConfig`` of Zero to JupyterHub::

    from gpucommons.spawner.cluster import configure_cluster
    configure_cluster(c, scheduler_url="http://gpucommons-api.gpucommons.svc:8000",
                      pages_url="http://gpucommons-pages.gpucommons.svc:8001")
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from gpucommons.spawner.hub_config import HubSettings, configure, leave_out

#: Where the hub's pod finds the tokens of the services, one file each.
TOKENS_DIR = "/etc/gpucommons/tokens"
#: In namespaces with this label only the hub and GPU Commons make pods with GPUs.
GUARDED = {"gpucommons.io/guarded": "true"}
PRIORITY_CLASS = "gpucommons-notebook"
_SPAWNER = "gpucommons.spawner.kube.GpuKubeSpawner"
#: What a namespace asks that enforces PodSecurity `restricted`.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


_UNCONNECTED = (
    "This hub is not connected to its GPU scheduler, so only CPU can be started. The hub's log says to"
    " its admin what is missing."
)
_MISSING = (
    "GPU Commons is left out, and the hub starts without it: there is no token in %s. Install its chart"
    " and restart the hub; the Secret gpucommons-hub-tokens is mounted there (hub.extraVolumes with"
    " `optional: true`, hub.extraVolumeMounts). To take it out for good, remove configure_cluster."
)

log = logging.getLogger("gpucommons.spawner")


def configure_cluster(
    c: Any, *, scheduler_url: str, pages_url: str, tokens_dir: str = TOKENS_DIR
) -> None:
    """Configure the hub; what Zero to JupyterHub set before stays.

    Where a token is missing, as after an uninstall of the chart, the hub starts without GPUs and says
    so: people who need none are not kept out by what others need.
    """
    tokens = {
        name: _token(Path(tokens_dir) / name)
        for name in ("scheduler", "culler", "spawner", "operator")
    }
    missing = [name for name, token in tokens.items() if not token and name != "operator"]
    if missing:
        log.warning(_MISSING, ", ".join(str(Path(tokens_dir) / name) for name in missing))
        leave_out(c, spawner_class=_SPAWNER, why=_UNCONNECTED)
    else:
        configure(
            c,
            HubSettings(
                scheduler_url=scheduler_url,
                pages_url=pages_url,
                service_token=tokens["scheduler"],
                culler_token=tokens["culler"],
                spawner_token=tokens["spawner"],
                operator_token=tokens["operator"],
                spawner_class=_SPAWNER,
            ),
        )
    c.GpuKubeSpawner.gpu_priority_class_name = PRIORITY_CLASS
    c.KubeSpawner.user_namespace_labels.update(GUARDED)
    if "container_security_context" not in c.KubeSpawner:
        c.KubeSpawner.container_security_context = RESTRICTED


def _token(file: Path) -> str:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""

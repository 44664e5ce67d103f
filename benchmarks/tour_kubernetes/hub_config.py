"""The hub of the tour: read by JupyterHub, with the facts of this run as JSON beside the state."""

import json
import os
from pathlib import Path

from gpucommons.spawner.cluster import RESTRICTED
from gpucommons.spawner.hub_config import HubSettings, configure

c = get_config()  # noqa: F821 - JupyterHub's own
facts = json.loads(Path(os.environ["TOUR_FACTS"]).read_text())
state = Path(facts["state"])

configure(
    c,
    HubSettings(
        scheduler_url=facts["api_url"],
        pages_url=facts["pages_url"],
        service_token=facts["tokens"]["scheduler"],
        culler_token=facts["tokens"]["culler"],
        spawner_token=facts["tokens"]["spawner"],
        teams=facts["teams"],
        admins=["admin"],
        spawner_class="gpucommons.spawner.kube.GpuKubeSpawner",
    ),
)
c.JupyterHub.bind_url = facts["public_url"]
c.JupyterHub.hub_bind_url = facts["hub_url"]
c.JupyterHub.hub_connect_url = facts["hub_url"]
c.JupyterHub.db_url = f"sqlite:///{state}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(state / "cookie_secret")
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = facts["proxy_api_url"]
c.ConfigurableHTTPProxy.auth_token = facts["proxy_token"]
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = facts["password"]
c.Authenticator.allowed_users = {"alice", "bob", "admin"}
c.Authenticator.admin_users = {"admin"}
c.Spawner.start_timeout = 180
c.Spawner.http_timeout = 120
c.Spawner.poll_interval = 2
c.KubeSpawner.namespace = facts["namespace"]
c.KubeSpawner.image = facts["image"]
c.KubeSpawner.image_pull_policy = "Never"
c.KubeSpawner.cmd = ["jupyterhub-singleuser"]
c.KubeSpawner.uid = c.KubeSpawner.gid = c.KubeSpawner.fs_gid = 1000
c.KubeSpawner.container_security_context = RESTRICTED
# One that both nodes mount: kernels that were saved on one wake on the other.
c.KubeSpawner.volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]
c.KubeSpawner.environment = {"HOME": "/home/user"}
c.KubeSpawner.mem_limit = "2G"
c.KubeSpawner.volume_mounts = [{"name": "home", "mountPath": "/home/user"}]
c.KubeSpawner.working_dir = "/home/user"
c.KubeSpawner.node_selector = facts["node_selector"]

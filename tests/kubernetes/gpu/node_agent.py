"""The node agent as a privileged pod of one real node, as the chart runs it."""

from __future__ import annotations

import secrets
import uuid
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.client.agent_transports import HttpTransport
from gpucommons.gpu.errors import AgentUnavailable
from tests.kubernetes.api import wait_for
from tests.kubernetes.toolchain.images import PYTHON

KUBELET = "/var/lib/kubelet"
PORT = 8002
ACCOUNT = "gpucommons-agent"
TOKEN_FOLDER = "/etc/gpucommons/agent"
CRIU = "/opt/gpucommons/criu"
DEVICES = "/var/run/cdi"


class NodeAgent:
    """One agent, with a driver of volumes and a token of its own."""

    def __init__(
        self,
        api: client.ApiClient,
        namespace: str,
        node: str,
        *,
        driver: str | None = None,
        criu: Path | None = None,
    ) -> None:
        """With a folder of CRIU it lets pods save their processes."""
        self._api = api
        self._core = client.CoreV1Api(api)
        self._storage = client.StorageV1Api(api)
        self.namespace = namespace
        #: What a scheduler that means this agent is called.
        self.instance = namespace
        self.token = secrets.token_urlsafe(32)
        self.node = node
        self.criu = criu
        self.name = "agent"
        # Its own, so that several live beside each other; or the one that everybody means.
        self.driver = driver or f"slices-{uuid.uuid4().hex[:8]}.gpucommons.test"

    def start(self) -> None:
        """Make the driver known, and start the agent."""
        self._storage.create_csi_driver(
            {
                "metadata": {
                    "name": self.driver,
                    "labels": {"security.kubernetes.io/csi-ephemeral-volume-profile": "restricted"},
                },
                "spec": {
                    "attachRequired": False,
                    "podInfoOnMount": True,
                    "fsGroupPolicy": "None",
                    "volumeLifecycleModes": ["Ephemeral"],
                    "requiresRepublish": True,
                },
            }
        )
        self._core.create_namespaced_service_account(
            self.namespace, {"metadata": {"name": ACCOUNT}, "automountServiceAccountToken": False}
        )
        self._core.create_namespaced_secret(
            self.namespace, {"metadata": {"name": "agent"}, "stringData": {"token": self.token}}
        )
        self.run()

    def beside(self, node: str) -> NodeAgent:
        """The agent of another node under the same roof: only its pod is to be started."""
        other = NodeAgent(self._api, self.namespace, node, driver=self.driver, criu=self.criu)
        other.token, other.name = self.token, f"agent-{node}"
        return other

    def run(self) -> None:
        """Start its pod; the one before must be gone."""
        wait_for(lambda: not self._exists(), "the agent before is gone", seconds=120)
        self._core.create_namespaced_pod(self.namespace, self._pod())
        try:
            wait_for(self._answers, "the node agent answers", seconds=240)
        except TimeoutError as late:
            late.add_note(self._found())
            raise

    def said(self) -> str:
        """What it printed."""
        try:
            return str(self._core.read_namespaced_pod_log(self.name, self.namespace))
        except ApiException as refusal:
            return str(refusal.body)

    def _found(self) -> str:
        """What is known of its pod, and what it printed."""
        pod = self._core.read_namespaced_pod(self.name, self.namespace)
        return f"{pod.status}\n{self.said()}"

    def kill(self) -> None:
        """End its process at once, without a word to anybody."""
        self._core.delete_namespaced_pod(self.name, self.namespace, grace_period_seconds=0)

    def stop(self) -> None:
        """End it and forget its driver."""
        if self._exists():
            self._core.delete_namespaced_pod(self.name, self.namespace)
        self._storage.delete_csi_driver(self.driver)
        wait_for(lambda: not self._exists(), "the agent is gone", seconds=120)

    @property
    def folder(self) -> str:
        """Where it keeps what it knows, on its node and in its pod."""
        return f"{KUBELET}/plugins/{self.driver}"

    @property
    def url(self) -> str:
        """Where its door is now."""
        address = self._core.read_namespaced_pod(self.name, self.namespace).status.pod_ip
        return f"http://{address}:{PORT}"

    def connect(self, url: str) -> AgentClient:
        """A client with this agent's token."""
        return AgentClient(HttpTransport(url=url, token=self.token, in_clear=True), timeout_s=20)

    @property
    def client(self) -> AgentClient:
        """The way in for a scheduler."""
        return self.connect(self.url)

    def volume(self, **attributes: str) -> dict[str, Any]:
        """The volume by which a pod is shown its slice."""
        return {
            "name": "slice",
            "csi": {"driver": self.driver, "volumeAttributes": attributes},
        }

    def _answers(self) -> bool:
        pod = self._core.read_namespaced_pod(self.name, self.namespace)
        if not pod.status.pod_ip:
            return False
        try:
            self.client.devices()
        except AgentUnavailable:
            return False
        return True

    def _exists(self) -> bool:
        try:
            self._core.read_namespaced_pod(self.name, self.namespace)
        except ApiException:
            return False
        return True

    def _pod(self) -> dict[str, Any]:
        command = [
            "python", "-m", "gpucommons.gpu.agent", "--kubernetes", "--node", self.node,
            "--dir", self.folder, "--csi-driver", self.driver,
            "--door", f"0.0.0.0:{PORT}", "--door-token-file", f"{TOKEN_FOLDER}/token",
            "--door-in-clear",
        ]  # fmt: skip
        container: dict[str, Any] = {
            "name": "agent",
            "image": PYTHON,
            "imagePullPolicy": "Never",
            "command": command,
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            "securityContext": {"privileged": True, "runAsUser": 0},
            "volumeMounts": [
                {"name": "kubelet", "mountPath": KUBELET, "mountPropagation": "Bidirectional"},
                {"name": "token", "mountPath": TOKEN_FOLDER, "readOnly": True},
            ],
        }
        volumes: list[dict[str, Any]] = [
            {"name": "kubelet", "hostPath": {"path": KUBELET, "type": "Directory"}},
            {"name": "token", "secret": {"secretName": "agent"}},
        ]
        if self.criu is not None:
            container["command"] = [*command, "--hibernation", CRIU, "--cdi-dir", DEVICES]
            container["volumeMounts"] = [
                *container["volumeMounts"],
                {"name": "criu", "mountPath": CRIU, "readOnly": True},
                {"name": "devices", "mountPath": DEVICES},
            ]
            volumes += [
                {"name": "criu", "hostPath": {"path": str(self.criu), "type": "Directory"}},
                {"name": "devices", "hostPath": {"path": DEVICES, "type": "DirectoryOrCreate"}},
            ]
        return {
            "metadata": {
                "name": self.name,
                "labels": {
                    "app.kubernetes.io/component": "agent",
                    "app.kubernetes.io/instance": self.instance,
                },
            },
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "serviceAccountName": ACCOUNT,
                "hostPID": True,
                "automountServiceAccountToken": False,
                # One that is killed may leave its folder a moment after its successor looks.
                "restartPolicy": "OnFailure",
                "containers": [container],
                "volumes": volumes,
            },
        }

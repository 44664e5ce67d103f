"""Short ways to run a pod that a `restricted` namespace admits, and to hear what it said."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.kubernetes.api import wait_for
from tests.kubernetes.node.real_node import REAL
from tests.kubernetes.toolchain.images import TOOLS

#: What PodSecurity `restricted` asks of a container.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Pods:
    """The pods of one namespace."""

    def __init__(self, core: client.CoreV1Api, namespace: str) -> None:
        self.core = core
        self.namespace = namespace

    def create(
        self,
        name: str,
        command: Sequence[str],
        *,
        image: str = TOOLS,
        gpus: int = 0,
        node: str | None = None,
        labels: Mapping[str, str] | None = None,
        mounts: Sequence[Mapping[str, Any]] = (),
        env: Sequence[Mapping[str, Any]] = (),
        **spec: Any,
    ) -> None:
        """Create a pod with one container that runs once."""
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container = {
            "name": "main",
            "image": image,
            "command": list(command),
            "imagePullPolicy": "Never",
            "securityContext": RESTRICTED,
            "resources": {"limits": limits},
            "volumeMounts": list(mounts),
            "env": list(env),
        }
        place = {"kubernetes.io/hostname": node} if node else {REAL: "true"}
        body = {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {
                "containers": [container],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "nodeSelector": place,
                **spec,
            },
        }
        wait_for(self._has_account, "the namespace's service account")
        self.core.create_namespaced_pod(self.namespace, body)

    def create_service(
        self, name: str, *, headless: bool = False, port: int = 9000, target: int = 9000
    ) -> str:
        """A Service of the pods with the label `app: NAME`; its cluster address."""
        spec: dict[str, Any] = {
            "selector": {"app": name},
            "ports": [{"port": port, "targetPort": target}],
            "publishNotReadyAddresses": True,
        }
        if headless:
            spec["clusterIP"] = "None"
        body = {"metadata": {"name": name}, "spec": spec}
        return str(self.core.create_namespaced_service(self.namespace, body).spec.cluster_ip)

    def read(self, name: str) -> Any:
        """The pod as the API server has it."""
        return self.core.read_namespaced_pod(name, self.namespace)

    def wait_running(self, name: str, *, seconds: float = 120) -> None:
        """Wait until its process runs."""
        wait_for(
            lambda: self.read(name).status.phase == "Running", f"{name} Running", seconds=seconds
        )

    def output(self, name: str, *, seconds: float = 120) -> str:
        """What the pod printed, once it has ended well."""

        def phase() -> str | None:
            found = self.read(name).status.phase
            return found if found in ("Succeeded", "Failed") else None

        try:
            ended = wait_for(phase, f"the end of {name}", seconds=seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {self.read(name).status}") from None
        said = str(self.core.read_namespaced_pod_log(name, self.namespace))
        assert ended == "Succeeded", said
        return said

    def _has_account(self) -> bool:
        try:
            self.core.read_namespaced_service_account("default", self.namespace)
        except ApiException:
            return False
        return True


def make_volume(api: client.ApiClient, namespace: str, claim: str, folder: Path) -> str:
    """A claim that is bound to a folder of this machine; the name of its volume, which outlives it."""
    core, name = client.CoreV1Api(api), f"{claim}-{uuid.uuid4().hex[:8]}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    core.create_persistent_volume(
        {
            "metadata": {"name": name},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": str(folder), "type": "Directory"},
                "claimRef": {"name": claim, "namespace": namespace},
            },
        }
    )
    wanted = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    core.create_namespaced_persistent_volume_claim(
        namespace, {"metadata": {"name": claim}, "spec": wanted}
    )
    return name

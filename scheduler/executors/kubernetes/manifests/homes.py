"""The owner's home folder in a job's pods, where the admin wants it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    Connection,
)
from gpucommons.scheduler.executors.kubernetes.manifests.environment import literally
from gpucommons.scheduler.executors.kubernetes.manifests.home_volumes import Claim, home_trouble
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import JobFiles
from gpucommons.scheduler.executors.kubernetes.manifests.manifests import Files
from gpucommons.scheduler.executors.kubernetes.settings import HomeVolume, KubernetesSettings

_VOLUME = "gpucommons-home"
_PAGE = 500
_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, kw_only=True, slots=True)
class WithHome:
    """Any files of a job, and its owner's home beside them."""

    files_of_job: JobFiles
    home: HomeVolume
    settings: KubernetesSettings
    connection: Connection

    def ready(self, launch: Launch) -> None:
        """Refuse what could never start."""
        nodes = [placement.node_id for placement in launch.attempt.placements]
        spec = launch.workload.spec
        namespace = self.settings.namespace_of(spec.team)
        claim = self._claim(namespace, self.home.claim_of(spec.owner))
        trouble = home_trouble(claim, owner=spec.owner, nodes=nodes)
        if trouble is not None:
            raise ApiError(CONFLICT, "HomeNotMountable", trouble)
        self.files_of_job.ready(launch)

    def _claim(self, namespace: str, name: str) -> Claim | None:
        path = f"/api/v1/namespaces/{namespace}"
        try:
            found = self.connection.get(f"{path}/persistentvolumeclaims/{name}")
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        modes = tuple(found["spec"].get("accessModes") or ())
        return Claim(name=name, access_modes=modes, mounted=self._mounted(path, name))

    def _mounted(self, path: str, name: str) -> dict[str, str]:
        """Pods with this claim, by what the API server says now; few namespaces have many pods."""
        mounted: dict[str, str] = {}
        query: dict[str, str | int] = {"limit": _PAGE}
        while True:
            page = self.connection.get(f"{path}/pods", **query)
            for pod in page["items"]:
                if _mounts(pod, name):
                    mounted[pod["metadata"]["name"]] = pod["spec"].get("nodeName") or ""
            more = page["metadata"].get("continue")
            if not more:
                return mounted
            query["continue"] = more

    def files(self, launch: Launch, settings: KubernetesSettings) -> Files:
        """See :class:`.job_files.JobFiles`."""
        found = self.files_of_job.files(launch, settings)
        home = self.home
        claim = {"claimName": home.claim_of(launch.workload.spec.owner), "readOnly": home.read_only}
        mount: dict[str, Any] = {
            "name": _VOLUME,
            "mountPath": home.mount_path,
            "readOnly": home.read_only,
        }
        if home.sub_path:
            mount["subPath"] = home.sub_path.replace("{username}", launch.workload.spec.owner)
        return replace(
            found,
            init_containers=tuple(
                _linking(container, launch, mount) for container in found.init_containers
            ),
            volumes=(*found.volumes, {"name": _VOLUME, "persistentVolumeClaim": claim}),
            volume_mounts=(*found.volume_mounts, mount),
            env={**found.env, "HOME": home.mount_path},
        )

    def commands(self, launch: Launch) -> Mapping[str, Sequence[str]]:
        """See :class:`.job_files.JobFiles`."""
        return self.files_of_job.commands(launch)


def _linking(
    container: Mapping[str, Any], launch: Launch, mount: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What prepares the pod links what the snapshot left out, where the job will see it too."""
    spec = launch.workload.spec
    if not spec.links or spec.links_from is None:
        return container
    words = [f"--home={mount['mountPath']}", f"--below={spec.links_from}"]
    words += [f"--link={path}" for path in spec.links]
    return {
        **container,
        "command": [*container["command"], *map(literally, words)],
        "volumeMounts": [*container["volumeMounts"], {**mount, "readOnly": True}],
    }


def _mounts(pod: Mapping[str, Any], claim: str) -> bool:
    if (pod.get("status") or {}).get("phase") in _OVER:
        return False
    volumes = pod["spec"].get("volumes") or ()
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim for volume in volumes
    )

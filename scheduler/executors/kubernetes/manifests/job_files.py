"""How a job's files come to its pods, and what stands above its command: the seam to the storage.

Without a storage pods get the same, but for a place where files outlive them: what a worker says of
itself, and a signal at the notice, are heard in every pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.manifests.manifests import Files
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import WORK, PodPlace, plan_pod
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings


class JobFiles(Protocol):
    """What a storage must offer."""

    def ready(self, launch: Launch) -> None:
        """Make what must be there before the pods are; called beside the loop, may take its time."""
        ...

    def files(self, launch: Launch, settings: KubernetesSettings) -> Files:
        """Volumes, init container and variables of an attempt's pods."""
        ...

    def commands(self, launch: Launch) -> Mapping[str, Sequence[str]]:
        """The command of each role, as its container runs it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedFiles:
    """Files by the storage's plan: an init container brings them, a small parent keeps the rest."""

    place: PodPlace
    #: Makes what an attempt finds on the storage.
    make_ready: Callable[[Launch], None] = lambda _launch: None

    def ready(self, launch: Launch) -> None:
        """See the protocol."""
        self.make_ready(launch)

    def files(self, launch: Launch, settings: KubernetesSettings) -> Files:
        """See the protocol."""
        del settings
        plan = plan_pod(launch, self.place)
        return Files(
            init_containers=(plan.init_container,),
            volumes=tuple(plan.volumes),
            volume_mounts=tuple(plan.volume_mounts),
            env={"HOME": WORK, **plan.env},
        )

    def commands(self, launch: Launch) -> Mapping[str, Sequence[str]]:
        """See the protocol."""
        plan = plan_pod(launch, self.place)
        return {role.name: plan.command(role.command) for role in launch.workload.spec.roles}

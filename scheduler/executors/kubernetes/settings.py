"""What an admin decides about jobs on the cluster: one YAML file, read once.

What a user may not choose stands here: namespace, account, runtime class, images. A pool of the
scheduler is matched to nodes by labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from gpucommons.scheduler.environments.images import image_of
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.models.fields import Model
from gpucommons.scheduler.models.text.yaml_errors import read_model

#: The resource of NVIDIA's device plugin.
PLUGIN_RESOURCE = "nvidia.com/gpu"
#: The scheduler's own image, where its operator names no other.
OWN_IMAGE = "gpucommons"
#: Least uid that jobs may run as.
_FIRST_USER = 1000


class PoolPlace(Model):
    """Which nodes make up a pool, and how their GPUs are handed out."""

    #: Labels that a node must have; default ``gpucommons.io/pool: NAME``.
    selector: dict[str, str] = {}
    #: ``standing``: a reservation pod holds every GPU, and all work goes through it. ``on-demand``:
    #: whole GPUs come from the device plugin, a reservation is made only for fractions. ``ahead``:
    #: likewise, and the GPU of each team's next notebook with a fraction is held beforehand.
    reservations: Literal["ahead", "on-demand", "standing"] = "ahead"
    rack_label: str = "topology.kubernetes.io/rack"
    gpu_resource: str = PLUGIN_RESOURCE
    runtime_class: str | None = None
    #: Another system of the cluster makes the pool's slices; None = our agent and reservations.
    provider: Literal["kai", "hami", "dra"] | None = None
    #: How the cluster's autoscaler is shown that a node is missing: by a pod that needs one, or by a
    #: ProvisioningRequest, which the cluster autoscaler answers in words…
    scale_up: Literal["placeholder", "provisioning-request"] = "placeholder"
    #: …of this class.
    provisioning_class: str = Field(
        default="best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    )
    #: With ``dra``: the DeviceClass of the pool's GPUs…
    device_class: str = Field(
        default="gpu.nvidia.com", pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
    )
    #: …and whether their driver lets several claims share a device's memory.
    shared_memory: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.provider is not None and self.reservations == "standing":
            message = (
                f"reservations: standing holds every GPU for our own slices, and provider:"
                f" {self.provider} makes the slices there: leave one of the two out"
            )
            raise ValueError(message)
        if self.provider in {"kai", "hami"} and self.gpu_resource != PLUGIN_RESOURCE:
            message = (
                f"provider: {self.provider} hands out {PLUGIN_RESOURCE} alone:"
                f" leave out gpu_resource: {self.gpu_resource}"
            )
            raise ValueError(message)
        asks = self.scale_up == "provisioning-request"
        if "provisioning_class" in self.model_fields_set and not asks:
            message = "provisioning_class belongs to scale_up: provisioning-request alone"
            raise ValueError(message)
        if self.provider != "dra" and {"device_class", "shared_memory"} & self.model_fields_set:
            message = "device_class and shared_memory belong to provider: dra alone"
            raise ValueError(message)
        return self


#: Of a pool that the file does not name; asked for with every job.
_USUAL = PoolPlace()


class PodAdditions(Model):
    """What every pod of a job gets besides, in the words of the Kubernetes API."""

    volumes: list[dict[str, Any]] = []
    volume_mounts: list[dict[str, Any]] = []
    env: list[dict[str, Any]] = []
    tolerations: list[dict[str, Any]] = []
    #: Further fields of the pod's spec, for example ``dnsPolicy`` and ``dnsConfig``.
    spec: dict[str, Any] = {}


class HomeVolume(Model):
    """Jobs see their owner's home folder: a claim in the namespace where they run."""

    #: As the hub's spawner names it; ``{username}`` becomes the user's slug.
    claim: str = "claim-{username}"
    mount_path: str = Field(default="/home/jovyan", pattern=r"^/[A-Za-z0-9_./-]{1,200}$")
    sub_path: str = Field(default="", pattern=r"^[A-Za-z0-9_.{}-]{0,200}$")
    read_only: bool = False

    def claim_of(self, user: str) -> str:
        """The claim of a user's home."""
        return self.claim.replace("{username}", names.slug(user))


class KubernetesSettings(Model):
    """The whole file."""

    #: Tells several installations in one cluster apart.
    instance: str = Field(default="gpucommons", pattern=r"^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$")
    namespace: str = "gpucommons-jobs"
    system_namespace: str = "gpucommons"
    #: Namespace of hub and notebooks; None = notebooks are told by their labels wherever they are.
    hub_namespace: str | None = None
    #: Namespace of a team's jobs, where it has one of its own. Only in these are jobs ours: one
    #: that is taken out must be empty.
    team_namespaces: dict[str, str] = {}
    #: Image by the name of an environment; "" is what a job gets that names none.
    environments: dict[str, str] = {}
    #: Jobs may name any image, within their team's policy.
    any_image: bool = False
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: list[str] = []
    service_account: str | None = None
    run_as_user: int = Field(default=1000, ge=_FIRST_USER)
    run_as_group: int = Field(default=1000, ge=1)
    priority_class: str | None = None
    reservation_priority_class: str | None = "gpucommons-reservation"
    #: Below all work: the cluster's scheduler removes such a pod for any other.
    placeholder_priority_class: str | None = "gpucommons-placeholder"
    #: The scheduler's own Deployment, in its namespace: placeholders go with it. None = they have no owner.
    placeholder_owner: str | None = None
    #: The scheduler's own image: of reservation pods, and of what prepares a job's files.
    own_image: str = OWN_IMAGE
    #: The node agent runs on the GPU nodes: fractions and usage come through it.
    agents: bool = False
    agent_namespace: str = "gpucommons-agents"
    agent_port: int = 8002
    agent_token_file: Path = Path("/etc/gpucommons/agent/token")
    #: Their account: a pod of any other is no agent, whatever its labels say.
    agent_service_account: str = "gpucommons-agent"
    #: Certificate authority of the agents' HTTP APIs.
    agent_ca_file: Path | None = None
    #: The name in their certificates; pods come and go with their addresses.
    agent_server_name: str = "gpucommons-agent"
    #: Agents are asked over plain HTTP: something else encrypts the network between pods.
    agent_in_clear: bool = False
    #: The label that tells nodes apart.
    node_label: str = names.HOSTNAME
    #: Pods of ended attempts stay so long, with their logs.
    keep_finished_s: int = Field(default=86_400, ge=0)
    #: A pod that cannot start (no image, refused by a quota) is given so long to get over it.
    patience_s: int = Field(default=60, ge=0)
    #: What is not ours in a job's pods (a webhook's proxy) may outlive the command so long.
    linger_s: int = Field(default=30, ge=1)
    #: What a pod held that vanished without an end is held for its grace and so long besides, where
    #: no agent can be asked whether it still runs.
    vanished_hold_s: int = Field(default=15, ge=0)
    #: The log of a worker that is stopped is read to its end before it is gone.
    keep_stopped_logs: bool = True
    #: The agents offer that pods save their processes (``hibernation.enabled`` of the chart), and jobs
    #: ask for it.
    hibernation: bool = False
    #: Why jobs' processes cannot be saved all the same, as a clause: set by whoever knows the storage.
    hibernation_hindrance: str = ""
    pools: dict[str, PoolPlace] = {}
    pod: PodAdditions = PodAdditions()
    #: None = jobs see no home: their files travel with them.
    home: HomeVolume | None = None

    @model_validator(mode="after")
    def _agents_are_asked_safely(self) -> Self:
        if self.agents and self.agent_ca_file is None and not self.agent_in_clear:
            message = (
                "agents need agent_ca_file, or their token would cross the network in clear; say "
                "agent_in_clear: true where something else encrypts that network"
            )
            raise ValueError(message)
        return self

    def place_of(self, pool: str) -> PoolPlace:
        """How a pool lies in the cluster."""
        return self.pools.get(pool) or _USUAL

    @property
    def provisions(self) -> bool:
        """Whether nodes of any pool are asked for by ProvisioningRequests."""
        return any(one.scale_up == "provisioning-request" for one in self.pools.values())

    def selector_of(self, pool: str) -> Mapping[str, str]:
        """Labels of the pool's nodes."""
        return self.place_of(pool).selector or {names.POOL: pool}

    def namespace_of(self, team: str) -> str:
        """Where a team's jobs run."""
        return self.team_namespaces.get(team, self.namespace)

    @property
    def job_namespaces(self) -> frozenset[str]:
        """Everywhere that jobs run."""
        return frozenset({self.namespace, *self.team_namespaces.values()})

    def image_of(self, environment: str) -> str:
        """The image of an environment.

        Raises
        ------
        BadRequest
            When there is none of that name.
        """
        image = image_of(self.environments, environment, any_image=self.any_image)
        if image is not None:
            return image
        known = ", ".join(sorted(name for name in self.environments if name)) or "none"
        asked = f"There is no environment {environment!r} on this cluster"
        if not environment:
            asked = "This cluster has no default environment"
        message = f"{asked}: name one of: {known}."
        raise BadRequest(message)


def read_settings(path: Path) -> KubernetesSettings:
    """Read the file.

    Raises
    ------
    BadRequest
        When it cannot be read or says something else.
    """
    try:
        return read_model(KubernetesSettings, path.read_text(), empty={})
    except (OSError, BadRequest) as error:
        message = f"{path} does not describe a cluster: {error}"
        raise BadRequest(message) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolTraits:
    """What the scheduler's pool says about its pods."""

    grace_ms: int = 30_000
    place: PoolPlace = field(default_factory=PoolPlace)

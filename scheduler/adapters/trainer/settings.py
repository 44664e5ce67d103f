"""What an admin says of Trainer: which namespaces' TrainJobs are ours, for which teams, on which nodes."""

from __future__ import annotations

from pydantic import Field, model_validator

from gpucommons.scheduler.environments.images import image_of
from gpucommons.scheduler.executors.kubernetes.settings import (
    PLUGIN_RESOURCE,
    KubernetesSettings,
    PoolPlace,
)
from gpucommons.scheduler.models.fields import Model, Name, UserName


class TrainerNamespace(Model):
    """Whose the TrainJobs of a namespace are."""

    #: The teams that may pay; the first does where a TrainJob names none.
    teams: list[Name] = Field(min_length=1, max_length=64)
    #: Whose jobs they are here: a member of these teams.
    user: UserName


class TrainerPool(Model):
    """Which nodes make up a pool."""

    #: Labels that a node must have; default ``gpucommons.io/pool: NAME``.
    selector: dict[str, str] = Field(default_factory=dict)
    gpu_resource: str = PLUGIN_RESOURCE


class SentJobs(Model):
    """Where jobs of ours go as TrainJobs."""

    namespace: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
    runtime: str = "torch-distributed"
    #: Image by the name of an environment, as jobs of other pools know them; "" is for those that name none.
    environments: dict[str, str] = Field(default_factory=dict)
    #: Jobs may name any image, within their team's policy.
    any_image: bool = False

    def image_of(self, environment: str) -> str:
        """Its image; "" where there is none."""
        return image_of(self.environments, environment, any_image=self.any_image) or ""


class TrainerSettings(Model):
    """The whole file."""

    namespaces: dict[str, TrainerNamespace] = Field(default_factory=dict)
    pools: dict[str, TrainerPool] = Field(min_length=1)
    #: None = jobs that are none of Trainer's are refused.
    sent: SentJobs | None = None

    @model_validator(mode="after")
    def _has_work(self) -> TrainerSettings:
        if not self.namespaces and self.sent is None:
            message = "namespaces names no namespace, and sent is left out: there is nothing to do"
            raise ValueError(message)
        if self.sent is not None and self.sent.namespace in self.namespaces:
            message = (
                f"{self.sent.namespace} is among namespaces: jobs that are sent out need a namespace of"
                " their own"
            )
            raise ValueError(message)
        return self

    @property
    def watched(self) -> tuple[str, ...]:
        """All namespaces with TrainJobs of ours."""
        sent = () if self.sent is None else (self.sent.namespace,)
        return (*self.namespaces, *sent)

    @property
    def resources(self) -> frozenset[str]:
        """What GPUs are called in these pools."""
        return frozenset(one.gpu_resource for one in self.pools.values())

    @property
    def cluster(self) -> KubernetesSettings:
        """The pools as those of jobs whose pods we make."""
        places = {
            name: PoolPlace(selector=one.selector, gpu_resource=one.gpu_resource)
            for name, one in self.pools.items()
        }
        return KubernetesSettings(pools=places)

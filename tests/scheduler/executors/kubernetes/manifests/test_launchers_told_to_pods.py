"""What each launcher says of workers is true of the pods that are made for them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_objects import FILES, JOB, a_launch, an_attempt

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.manifests import environment
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import LayOut, lay_out
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.in_pod import starting
from gpucommons.scheduler.launchers import LAUNCHERS, PLAIN

SETTINGS = KubernetesSettings(environments={"": "python:3"})
POOL = Pool(name=PoolName("train"), executor="kubernetes", grace_ms=1000)
OWNER = {"metadata": {"name": JOB, "uid": "job-uid"}}
#: Those with roles that TensorFlow knows, in an order in which no role stands together.
GANGS = [("worker", "worker"), ("chief", "worker", "ps", "worker")]
PLACE = re.compile(r"([-a-z0-9.]+\.svc)\W+(\d+)")


def laid_out(launcher: str, roles: tuple[str, ...]) -> LayOut:
    return lay_out(a_launch(an_attempt(*roles), launcher=launcher), SETTINGS, POOL, FILES)


def told(plan: LayOut) -> dict[str, str]:
    """What all of its pods find in their environment."""
    secret: dict[str, Any] = dict(dict(plan.owned(OWNER))["secrets"])
    return {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}


def names_of_pods(plan: LayOut) -> Iterator[str]:
    """By rank, as the Job controller names them and the cluster's DNS knows them."""
    service = dict(plan.owned(OWNER))["services"]["metadata"]["name"]
    numbers: dict[str, int] = {}
    jobs = {job["metadata"]["labels"]["gpucommons.io/role"]: dict(job) for job in plan.jobs}
    for placement in plan.launch.attempt.placements:
        job = jobs[placement.role]
        pod = job["spec"]["template"]["spec"]
        number = numbers.get(placement.role, 0)
        numbers[placement.role] = number + 1
        assert number < job["spec"]["completions"]
        yield f"{job['metadata']['name']}-{number}.{pod['subdomain']}.{plan.way.namespace}.svc"
        assert pod["subdomain"] == service


@pytest.mark.parametrize("roles", GANGS, ids="-".join)
@pytest.mark.parametrize("launcher", [one for one in LAUNCHERS if one != PLAIN])
def test_every_place_that_a_worker_is_told_is_a_pod_of_its_attempt(
    launcher: str, roles: tuple[str, ...]
) -> None:
    plan = laid_out(launcher, roles)
    pods, ports = list(names_of_pods(plan)), environment.ports(plan.launch)
    said = []
    for rank in range(len(roles)):
        environ = {**told(plan), "GPUCOMMONS_RANK": str(rank)}
        command = starting.read(environ, ["as", "asked"])
        # Where torch meets stands in two variables.
        environ["MASTER"] = f"{environ.pop('MASTER_ADDR')}:{environ['MASTER_PORT']}"
        del environ["GPUCOMMONS_RANK"]
        said.append(json.dumps([command, environ]))
        places = PLACE.findall(said[-1])
        assert {pods[0]} <= {name for name, _ in places} <= set(pods)
        assert {int(port) for _, port in places} <= set(ports)
    assert len(set(said)) == len(roles), "two workers were told that they are the same one"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_a_launcher_says_is_not_lost_behind_a_variable_of_the_container(launcher: str) -> None:
    plan = laid_out(launcher, ("worker", "worker"))
    environ = {**told(plan), "GPUCOMMONS_RANK": "1"}
    before = set(environ)
    starting.read(environ, ["as", "asked"])
    (job,) = plan.jobs
    of_container = {one["name"] for one in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert not of_container & (set(environ) - before - {"GPUCOMMONS_RANK"})

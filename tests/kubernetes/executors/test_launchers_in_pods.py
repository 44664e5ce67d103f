"""Workers of each launcher meet in real pods of two nodes, with the real frameworks.

The frameworks lie on this machine; pods see them where they lie here, as an image would have them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from benchmarks.real_scripts import environment
from gpucommons.scheduler.core.model.types import Role
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.settings import PodAdditions
from tests.kubernetes.attempts_api import AttemptsApi
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.toolchain.images import PREFIX

#: Each worker hands in the last part of its pod's name, and the first prints what came together.
_OWN = "import socket; own = int(socket.gethostname().rsplit('-')[-1])"
_TORCH = """
import torch.distributed as world
world.init_process_group("gloo")
found = [None] * world.get_world_size()
world.all_gather_object(found, own)
"""
_JAX = """
import jax, jax.numpy as jnp
from jax.experimental import multihost_utils
jax.distributed.initialize()
found = multihost_utils.process_allgather(jnp.array(own)).tolist()
"""
_MPI = """
from mpi4py import MPI
found = MPI.COMM_WORLD.allgather(own)
"""
# The chief and the worker are pods of two Jobs, each with the number 0.
_TENSORFLOW = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = strategy.cluster_resolver.task_type == "worker"
of_each = strategy.run(lambda: tf.constant([own + int(task)]))
found = strategy.gather(of_each, axis=0).numpy().tolist()
"""
_RAY = """
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init()
@ray.remote
def look():
    return int(socket.gethostname().rsplit('-')[-1])
on = [On(node_id=node["NodeID"], soft=False) for node in ray.nodes()]
found = ray.get([look.options(scheduling_strategy=one).remote() for one in on])
"""
# Executors come one after the other, and the first may have done all there is by then.
_SPARK = """
import socket, time
from pyspark.sql import SparkSession
context = SparkSession.builder.getOrCreate().sparkContext
def look(_task):
    time.sleep(0.2)
    return int(socket.gethostname().rsplit('-')[-1])
found = set()
while len(found) < 2:
    found = set(context.parallelize(range(8), 8).map(look).collect())
context.stop()
"""
_SCRIPTS = {
    "spark": _SPARK,
    "ray": _RAY,
    "tensorflow": _TENSORFLOW,
    "jax": _JAX,
    "mpi": _MPI,
    "torchrun": _TORCH,
    "c10d": _TORCH,
}


#: Spark starts seven Java machines there, mostly one after the other: on a busy machine each takes a minute.
_SECONDS = {"spark": 480}


@pytest.fixture
def frameworks() -> Path:
    found = environment.find()
    if found is None:
        if os.environ.get("REQUIRE_FRAMEWORKS") == "1":
            pytest.fail(environment.HOW_TO_GET)
        pytest.skip(environment.HOW_TO_GET)
    return found


@pytest.fixture
def jobs(  # noqa: PLR0917 - pytest passes them by name
    api: client.ApiClient,
    kubeconfig: Path,
    namespace: str,
    python_image: str,
    attempts_api: AttemptsApi,
    two_real_nodes: list[str],
    frameworks: Path,
) -> Iterator[Jobs]:
    interpreter = (frameworks / "bin" / "python").resolve().parents[1]
    places = dict.fromkeys((frameworks, interpreter, Path("/usr")))
    volumes = [
        {"name": f"image-{number}", "hostPath": {"path": str(place)}}
        for number, place in enumerate(places)
    ]
    mounts = [
        {"name": f"image-{number}", "mountPath": str(place), "readOnly": True}
        for number, place in enumerate(places)
    ]
    path = {"name": "PATH", "value": f"{frameworks}/bin:/{PREFIX}/bin:/usr/bin:/bin"}
    made = Jobs(
        api,
        kubeconfig,
        namespace,
        environments={"": python_image},
        own_image=python_image,
        pod=PodAdditions(volumes=volumes, volume_mounts=mounts, env=[path]),
    )
    made.api_url = attempts_api.url
    for node in two_real_nodes:
        made.core.patch_node(node, {"metadata": {"labels": made.labels}})
    yield made
    made.close()
    for node in two_real_nodes:
        made.core.patch_node(node, {"metadata": {"labels": dict.fromkeys(made.labels)}})


def started(jobs: Jobs, name: str, nodes: list[str]) -> Launch:
    script = "\n".join((_OWN, _SCRIPTS[name], "print('met', *sorted(found), flush=True)"))
    python = ("python", "-c", script)
    elastic = ("torchrun", "--rdzv-backend", "c10d", "--no-python", *python)
    asked: dict[str, Any] = {
        "launcher": "torchrun" if name == "c10d" else name,
        "roles": tuple(
            Role(name=role, command=elastic if name == "c10d" else python, memory_mib=1024)
            for role in (("chief", "worker") if name == "tensorflow" else ("worker",))
        ),
    }
    return jobs.launch(*nodes, milli_gpu=0, memory_mib=3072, cpu_milli=500, **asked)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", _SCRIPTS)
def test_workers_meet_over_the_pods_of_two_nodes(
    jobs: Jobs, two_real_nodes: list[str], name: str
) -> None:
    launch = started(jobs, name, two_real_nodes)
    try:
        end = jobs.wait_ended(launch, seconds=_SECONDS.get(name, 200))
    finally:
        first, other = (
            jobs.executor.log(launch.attempt, rank=rank, offset=0, limit_bytes=1 << 16).lines
            for rank in (0, 1)
        )
        print(*first, "-- the other worker --", *other, sep="\n")  # noqa: T201 - told if it fails
    said = [line for line in first if line.startswith("met")]
    assert (end.exit_code, said[:1]) == (0, ["met 0 1"])

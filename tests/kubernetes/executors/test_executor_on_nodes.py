"""Jobs on real nodes: images that are not there, and parts of cards that a device plugin hands out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.types import Millis, PoolName, Role
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import HomeVolume
from tests.kubernetes.api import wait_for
from tests.kubernetes.attempts_api import AttemptsApi
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.node.node_parts import start_plugin_of_instances
from tests.kubernetes.node.real_node import RealNode
from tests.kubernetes.pods import make_volume


def label(jobs: Jobs, node: str, value: str | None) -> None:
    jobs.core.patch_node(node, {"metadata": {"labels": {"gpucommons.io/pool": value}}})


@pytest.fixture
def jobs(  # noqa: PLR0917 - pytest passes them by name
    api: client.ApiClient,
    kubeconfig: Path,
    restricted_namespace: str,
    python_image: str,
    two_real_nodes: list[str],
    attempts_api: AttemptsApi,
) -> Iterator[Jobs]:
    made = Jobs(
        api,
        kubeconfig,
        restricted_namespace,
        environments={"": python_image, "gone": "127.0.0.1:1/not-there:1"},
        own_image=python_image,
    )
    made.api_url = attempts_api.url
    for node in two_real_nodes:
        label(made, node, made.pool.name)
    yield made
    made.close()
    for node in two_real_nodes:
        label(made, node, None)


def test_an_image_that_cannot_be_pulled_is_a_failed_start(
    jobs: Jobs, two_real_nodes: list[str]
) -> None:
    end = jobs.wait_ended(jobs.launch(two_real_nodes[0], environment="gone"))
    assert (end.exit_code, end.start_failed) == (None, True)
    assert end.text.startswith("Its image cannot be fetched: ")


def test_a_share_of_a_card_is_held_by_a_reservation_and_seen_by_its_worker(
    jobs: Jobs, real_node: str
) -> None:
    slot = DeviceId(f"{real_node}/gpu-0")
    jobs.fractions.add(slot)
    launch = jobs.launch(real_node, milli_gpu=500)
    jobs.wait_started(launch)
    card = jobs.executor.cards()[slot]
    (pod,) = jobs.pods(launch)
    assert pod.metadata.annotations["gpucommons.io/devices"] == card
    assert card.startswith("GPU-")
    hold = jobs.core.read_namespaced_pod(f"gc-hold-{names.slug(real_node)}-0", jobs.namespace)
    assert hold.spec.containers[0].resources.limits["nvidia.com/gpu"] == "1"
    # The share first, then what holds it.
    jobs.stop(launch)
    jobs.wait_ended(launch)
    jobs.live.clear()
    jobs.executor.forget(launch.attempt.attempt_id)
    jobs.fractions.clear()

    def gone() -> bool:
        found = jobs.core.list_namespaced_pod(jobs.namespace).items
        return not [one for one in found if one.metadata.name.startswith("gc-hold-")]

    wait_for(gone, "no reservation")
    assert jobs.executor.cards() == {}


def test_a_reservation_made_anew_on_another_card_hands_nothing_out_while_a_share_runs(
    jobs: Jobs, real_node: str
) -> None:
    slot = DeviceId(f"{real_node}/gpu-0")
    jobs.fractions.add(slot)
    sleeps = ("python3", "-c", "import time; time.sleep(600)")
    roles = (Role(name="worker", milli_gpu=500, command=sleeps),)
    launch = jobs.launch(real_node, milli_gpu=500, roles=roles)
    jobs.wait_started(launch)
    card = jobs.executor.cards()[slot]
    # The scheduler is away. Somebody removes the reservation, and another pod gets its card.
    jobs.executor.close()
    hold = f"gc-hold-{names.slug(real_node)}-0"
    jobs.core.delete_namespaced_pod(hold, jobs.namespace, grace_period_seconds=1)
    wait_for(lambda: hold not in names_of(jobs), "the reservation is gone")
    taken = take_cards(jobs, real_node)
    assert card in taken.values()
    free = next(pod for pod, held in taken.items() if held != card)
    jobs.core.delete_namespaced_pod(free, jobs.namespace, grace_period_seconds=1)
    wait_for(lambda: free not in names_of(jobs), "a card that is free")
    jobs.executor = jobs.boot()
    running = replace(launch.attempt, started_ms=Millis(1))
    assert [live.running for live in jobs.executor.adopt([running])] == [True]
    # What is made anew holds another card than the one that the share runs on.
    now = wait_for(lambda: jobs.executor.cards().get(slot), "a reservation made anew")
    assert now == taken[free]
    assert jobs.executor.bound_to(launch.attempt.placements[0]) is None
    assert slot not in offered(jobs, real_node)
    assert card in jobs.executor.troubles()[slot]
    jobs.stop(launch)
    jobs.wait_ended(launch)
    jobs.live.clear()
    jobs.executor.forget(launch.attempt.attempt_id)
    wait_for(lambda: not jobs.pods(launch), "the share is gone")
    assert jobs.executor.troubles() == {}
    jobs.fractions.clear()


def test_a_worker_on_an_instance_of_a_cut_card_gets_the_one_that_its_plugin_chose(  # noqa: PLR0917 - as above
    api: client.ApiClient,
    kubeconfig: Path,
    restricted_namespace: str,
    python_image: str,
    own_nodes: list[RealNode],
    attempts_api: AttemptsApi,
) -> None:
    node, resource, pool = own_nodes[0], "nvidia.com/mig-1g.10gb", "cut"
    made = Jobs(
        api,
        kubeconfig,
        restricted_namespace,
        environments={"": python_image},
        own_image=python_image,
        pools={pool: {"gpu_resource": resource}},
    )
    made.api_url = attempts_api.url
    made.pool = replace(made.pool, name=PoolName(pool), gpu_kind=None)
    start_plugin_of_instances(node, resource, ("MIG-one", "MIG-two"))
    label(made, node.name, pool)
    try:

        def instances() -> bool:
            found = [one for one in made.executor.nodes() if one.node_id == node.name]
            kinds = [(device.kind, device.memory_mib) for one in found for device in one.devices]
            return kinds == [("GPU-1g.10gb", 10_240)] * 2

        wait_for(instances, "both instances are offered", seconds=120)
        says = ("python3", "-c", "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])")
        roles = (Role(name="worker", milli_gpu=1000, command=says),)
        launch = made.launch(node.name, roles=roles)
        assert made.wait_ended(launch).exit_code == 0
        log = made.executor.log(launch.attempt, rank=0, offset=0, limit_bytes=1000)
        assert log.lines in (("MIG-one",), ("MIG-two",))
    finally:
        made.close()
        label(made, node.name, None)
        node.stop_process("instances")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home folder of jobs' user, on this machine."""
    folder = Path(tempfile.mkdtemp(prefix="gc-home"))
    folder.chmod(0o755)
    (folder / "project").mkdir()
    (folder / "project" / "data.bin").write_text("42\n")
    yield folder
    shutil.rmtree(folder)


def test_what_was_left_out_at_submit_is_read_from_the_home_or_nothing_starts(  # noqa: PLR0917 - as above
    api: client.ApiClient,
    kubeconfig: Path,
    restricted_namespace: str,
    python_image: str,
    real_node: str,
    attempts_api: AttemptsApi,
    home: Path,
) -> None:
    volume = make_volume(api, restricted_namespace, "claim-ada", home)
    made = Jobs(
        api,
        kubeconfig,
        restricted_namespace,
        environments={"": python_image},
        own_image=python_image,
        home=HomeVolume(read_only=True),
    )
    made.api_url = attempts_api.url
    reads = ("python3", "-c", "print(open('data.bin').read(), end='')")
    asked: dict[str, Any] = {
        "roles": (Role(name="worker", command=reads),),
        "links": ("data.bin",),
        "links_from": "project",
    }
    try:
        launch = made.launch(real_node, milli_gpu=0, **asked)
        assert made.wait_ended(launch).exit_code == 0
        log = made.executor.log(launch.attempt, rank=0, offset=0, limit_bytes=1000)
        assert log.lines == ("42",)
        (home / "project" / "data.bin").unlink()
        end = made.wait_ended(made.launch(real_node, milli_gpu=0, **asked))
        assert (end.exit_code, end.start_failed) == (None, True)
        assert "data.bin is not in the home folder any more: submit the job again" in end.text
    finally:
        made.close()
        client.CoreV1Api(api).delete_persistent_volume(volume)


def names_of(jobs: Jobs) -> set[str]:
    return {pod.metadata.name for pod in jobs.core.list_namespaced_pod(jobs.namespace).items}


def offered(jobs: Jobs, node: str) -> set[DeviceId]:
    found = next(one for one in jobs.executor.nodes() if one.node_id == node)
    return {device.device_id for device in found.devices}


def take_cards(jobs: Jobs, node: str) -> dict[str, str]:
    """Pods of somebody else have every free card of the node; which each has."""
    script = (
        "import os, time; print(os.environ['NVIDIA_VISIBLE_DEVICES'], flush=True); time.sleep(600)"
    )
    container = {
        "name": "c",
        "image": jobs.settings.own_image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pods = [f"taker-{number}" for number in range(4)]
    for name in pods:
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
        }
        jobs.core.create_namespaced_pod(jobs.namespace, {"metadata": {"name": name}, "spec": spec})

    def said() -> dict[str, str] | None:
        found = {
            pod.metadata.name: jobs.core.read_namespaced_pod_log(
                pod.metadata.name, jobs.namespace
            ).strip()
            for pod in jobs.core.list_namespaced_pod(jobs.namespace).items
            if pod.metadata.name in pods and pod.status.phase == "Running"
        }
        return found if len(found) == len(pods) and all(found.values()) else None

    return wait_for(said, "all cards of the node")

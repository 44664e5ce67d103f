"""A job's pod that saves its processes: what it asks of its node, what it is told, when it has started."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from cluster_objects import a_launch, an_attempt
from published_schemas import validate

from gpucommons.gpu.hibernation.containers import PROFILE, RESOURCE
from gpucommons.scheduler.core.model.going_on import ProcessImage
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import Attempt, AttemptState, Millis, PoolName
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import PlannedFiles
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import expected_of, lay_out
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.in_pod.tree import VARIABLE, Tree

POOL = Pool(name=PoolName("train"), executor="kubernetes", grace_ms=30_000)
FILES = PlannedFiles(place=PodPlace(image="ours", storage="volume", claim="jobs"))
SETTINGS = KubernetesSettings(environments={"": "python:3"}, hibernation=True)
IMAGE = ProcessImage(user="ann", size_bytes=5, save_ms=5, sha256="a" * 64)


def node_of(launch: Launch, **changes: Any) -> dict[str, NodeSeen]:
    name = launch.attempt.placements[0].node_id
    seen = NodeSeen(
        name=name,
        labels={"gpucommons.io/pool": "train"},
        ready=True,
        ready_changed_s=0,
        cordoned=False,
        allocatable={RESOURCE: 64},
        cpu_milli=8000,
        memory_mib=16_000,
    )
    return {name: replace(seen, **changes)}


def container(
    launch: Launch, settings: KubernetesSettings = SETTINGS, pool: Pool = POOL, **node: Any
) -> dict[str, Any]:
    plan = lay_out(launch, settings, pool, FILES, node_of(launch, **node))
    for job in plan.jobs:
        validate(job, "1.35", strict=True)
    # A webhook that gives it a GPU is noticed all the same.
    assert expected_of(plan).gpus == {"worker": 0}
    pod = plan.jobs[0]["spec"]["template"]["spec"]
    told = [one["value"] for one in pod["initContainers"][0]["env"] if one["name"] == VARIABLE]
    own = [one["value"] for one in pod["containers"][0]["env"] if one["name"] == VARIABLE]
    # What saves and wakes is brought by whoever prepares the pod.
    assert told == own
    found: dict[str, Any] = pod["containers"][0]
    return {**found, "told": json.loads(own[0]) if own else None}


def launch(attempt: Attempt | None = None) -> Launch:
    return a_launch(attempt or an_attempt(milli_gpu=0))


def test_a_pod_asks_its_node_for_what_saving_needs_and_is_told_its_grace() -> None:
    found = container(launch())
    assert found["resources"]["limits"][RESOURCE] == "1"
    assert found["securityContext"]["seccompProfile"] == {
        "type": "Localhost",
        "localhostProfile": PROFILE,
    }
    assert "startupProbe" not in found
    told = found["told"]
    assert (told["number"], told["grace_s"], told["hindrance"]) == (2, 30, "")
    assert told["promised"] == ""


def test_a_pod_that_wakes_something_has_started_when_that_is_over() -> None:
    first = replace(
        an_attempt(milli_gpu=0, attempt_id="0" * 8),
        number=1,
        state=AttemptState.ENDED,
        started_ms=Millis(1),
        ended_ms=Millis(2),
        image=IMAGE,
    )
    second = an_attempt(milli_gpu=0)
    begun = launch(second)
    kept = replace(begun, workload=replace(begun.workload, attempts=(first, second)))
    found = container(kept)
    assert (found["told"]["number"], found["told"]["promised"]) == (2, "a" * 64)
    probe = found["startupProbe"]
    assert "/gpucommons/notice" in probe["exec"]["command"][-1]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 600


def test_where_it_cannot_be_it_is_told_why_and_asks_for_nothing() -> None:
    off = replace(POOL, hibernation="off")
    for found, because in (
        (container(launch(), pool=off), "the pool train has hibernation switched off"),
        (container(launch(), allocatable={}), "its node does not offer to save processes"),
    ):
        assert RESOURCE not in found["resources"]["limits"]
        assert "seccompProfile" not in found["securityContext"]
        assert because in found["told"]["hindrance"]


def test_where_nobody_asked_for_it_nothing_changes() -> None:
    found = container(launch(), settings=KubernetesSettings(environments={"": "python:3"}))
    assert found["told"] is None
    assert RESOURCE not in found["resources"]["limits"]


def test_an_attempt_of_several_workers_is_not_saved() -> None:
    gang = a_launch(an_attempt("worker", "worker", milli_gpu=0))
    plan = lay_out(gang, SETTINGS, POOL, FILES, node_of(gang))
    assert "jobs of several workers are not hibernated" in str(plan.jobs)
    assert RESOURCE not in str(plan.jobs)


def test_what_saves_lets_go_of_a_job_while_some_of_its_grace_is_left(tmp_path: Path) -> None:
    told = {"hindrance": "", "number": 1, "grace_s": 60.0, "max_bytes": 1}
    api = MagicMock()
    api.hasty.return_value.once.return_value = {"saves": True, "max_bytes": 1}
    tree = Tree(told, api, tmp_path, tmp_path / "begun")
    tree._image = MagicMock()
    tree._image.save.return_value = {"refused": "It was not saved in time."}
    begun_s = time.time()

    assert not tree.stop(MagicMock(), time.monotonic(), may_save=True)

    [call] = tree._image.save.call_args_list
    _, until_s, _ = call.args
    assert until_s == pytest.approx(begun_s + 30, abs=10)
    assert call.kwargs == {"let_go_s": 15}

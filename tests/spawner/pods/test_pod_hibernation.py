"""A pod asks to save its kernels only where root is nowhere in it, and then has the time for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from notebook_pods import LEASE, needs, plain_pod

from gpucommons.gpu.hibernation.containers import PROFILE, RESOURCE
from gpucommons.spawner.cluster import RESTRICTED
from gpucommons.spawner.pods.pod import fitted, notebook_of
from gpucommons.spawner.pods.pod_changes import changed
from gpucommons.spawner.pods.pod_hibernation import grace_seconds, obstacle, saves_within_s

GIB = 1 << 30


def restricted(**container: Any) -> dict[str, Any]:
    pod = plain_pod()
    notebook_of(pod)["securityContext"] = {**RESTRICTED, **container}
    return pod


def test_a_pod_that_saves_has_device_filter_and_time_and_its_server_knows() -> None:
    pod = fitted(restricted(), replace(needs(LEASE), saves_within_s=90))
    notebook = notebook_of(pod)
    assert notebook["resources"]["limits"][RESOURCE] == "1"
    context = notebook["securityContext"]
    assert context["seccompProfile"] == {"type": "Localhost", "localhostProfile": PROFILE}
    assert context["runAsNonRoot"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    env = {one["name"]: one.get("value") for one in notebook["env"]}
    assert env["GPUCOMMONS_STOP_SECONDS"] == "90"
    assert env["GPUCOMMONS_STOP_ENDS_KERNELS"] == "1"
    assert saves_within_s(pod) == 90


def test_a_pod_that_does_not_save_asks_for_nothing_whatever_was_left_in_it() -> None:
    pod = restricted()
    notebook_of(pod)["resources"]["limits"][RESOURCE] = "1"
    found = fitted(pod, needs(LEASE))
    assert RESOURCE not in notebook_of(found)["resources"]["limits"]
    assert notebook_of(found)["securityContext"] == RESTRICTED
    assert saves_within_s(found) == saves_within_s(None) == 0


def test_a_cluster_that_takes_the_device_away_is_noticed() -> None:
    asked = fitted(restricted(), replace(needs(LEASE), saves_within_s=90))
    stored = fitted(restricted(), needs(LEASE))
    assert "the GPUs it asks of the device plugin" in changed(asked, stored)


@pytest.mark.parametrize(
    ("container", "says"),
    [
        ({"runAsNonRoot": False}, "may be root"),
        ({"privileged": True}, "may be root"),
        ({"allowPrivilegeEscalation": None}, "may become root"),
        ({"capabilities": {"drop": ["NET_RAW"]}}, "has capabilities"),
        ({"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}, "has capabilities"),
    ],
)
def test_who_may_be_root_may_not_ask(container: dict[str, Any], says: str) -> None:
    pod = restricted(**container)
    assert says in (obstacle(pod["spec"], notebook_of(pod)) or "")


@pytest.mark.parametrize("shares", ["hostPID", "shareProcessNamespace"])
def test_a_pod_whose_containers_see_each_other_may_not_ask(shares: str) -> None:
    pod = restricted()
    pod["spec"][shares] = True
    assert "see each other's processes" in (obstacle(pod["spec"], notebook_of(pod)) or "")


def test_what_the_whole_pod_says_holds_for_a_container_that_says_nothing() -> None:
    pod = restricted()
    del notebook_of(pod)["securityContext"]["runAsNonRoot"]
    assert obstacle(pod["spec"], notebook_of(pod)) is not None
    pod["spec"]["securityContext"] = {"runAsNonRoot": True}
    assert obstacle(pod["spec"], notebook_of(pod)) is None


def test_the_time_fits_the_memory_within_what_the_hub_waits() -> None:
    assert grace_seconds(2 * GIB, 300) == 31
    assert grace_seconds(40 * GIB, 600) == 225
    assert grace_seconds(400 * GIB, 300) == 300
    assert grace_seconds(None, 300) == 120

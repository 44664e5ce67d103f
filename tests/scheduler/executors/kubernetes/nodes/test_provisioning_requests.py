"""ProvisioningRequests: what is asked for, what is read back, when one goes, and what those who wait read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from published_schemas import validate
from pydantic import ValidationError

from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.nodes.provisioning_requests import (
    RETRY_S,
    RequestSeen,
    due_requests,
    in_words,
    pod_template,
    provisioning_request,
    read_request,
    request_name,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

CLOUD = PoolName("cloud")
GROWTH = Growth(max_nodes=3, gpus=8, cpu_milli=90_500, memory_mib=700_000, boot_ms=240_000)
POOL = Pool(name=CLOUD, executor="kubernetes", gpu_kind="A100-40", growth=GROWTH)
SETTINGS = KubernetesSettings(
    pools={
        "cloud": PoolPlace(scale_up="provisioning-request", selector={"cloud.example/pool": "a100"})
    }
)
NOON_S = 1_796_040_000.0


def seen(number: int, state: str = "", **changes: Any) -> RequestSeen:
    name = request_name(CLOUD, number)
    return RequestSeen(name=name, uid=f"u{number}", pool=CLOUD, state=state, **changes)


def conditions(*types: str, message: str = "said so") -> dict[str, Any]:
    made = provisioning_request(POOL, 1, SETTINGS)
    made["metadata"]["uid"] = "u1"
    made["status"] = {
        "conditions": [
            {
                "type": one,
                "status": "True",
                "reason": "Because",
                "message": message,
                "lastTransitionTime": "2026-11-30T12:00:00Z",
            }
            for one in types
        ]
    }
    return made


def test_a_request_asks_for_a_whole_node_by_a_template_of_its_own_name() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "s", "uid": "d1"}
    request = provisioning_request(POOL, 2, SETTINGS, owner=owner)
    template = pod_template(POOL, GROWTH, 2, SETTINGS, owner=owner)
    validate(template, "1.35", strict=True)
    (pods,) = request["spec"]["podSets"]
    assert pods == {"count": 1, "podTemplateRef": {"name": template["metadata"]["name"]}}
    assert request["spec"]["provisioningClassName"].startswith("best-effort-atomic-scale-up.")
    spec = template["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert spec["nodeSelector"] == {"cloud.example/pool": "a100"}
    assert [request["metadata"]["ownerReferences"], template["metadata"]["ownerReferences"]] == [
        [owner]
    ] * 2


@pytest.mark.parametrize(
    ("types", "state"),
    [
        ((), ""),
        (("Accepted",), "Accepted"),
        (("Accepted", "Provisioned"), "Provisioned"),
        (("Accepted", "Provisioned", "BookingExpired"), "BookingExpired"),
        (("Accepted", "Failed"), "Failed"),
    ],
)
def test_the_condition_that_counts_is_read_back(types: tuple[str, ...], state: str) -> None:
    found = read_request(conditions(*types))
    assert found is not None
    assert (found.pool, found.state) == (CLOUD, state)
    assert not state or (found.message, found.since_s) == ("said so", NOON_S)


def test_a_condition_that_is_not_true_says_nothing() -> None:
    request = conditions("Failed")
    request["status"]["conditions"][0]["status"] = "False"
    found = read_request(request)
    assert found is not None
    assert found.state == ""


def test_anothers_request_is_none_of_ours() -> None:
    request = conditions()
    request["metadata"]["name"] = "kueue-1"
    assert read_request(request) is None


def test_as_many_are_made_as_are_missing_under_names_that_are_free() -> None:
    found = due_requests({CLOUD: 3}, [seen(1), seen(2, leaving=True)], 0)
    assert (found.make, found.remove) == (((CLOUD, 3), (CLOUD, 4)), ())


def test_of_too_many_one_whose_node_came_goes_first() -> None:
    found = due_requests({CLOUD: 1}, [seen(1, "Provisioned"), seen(2, "Accepted")], 0)
    assert [one.name for one in found.remove] == ["gc-request-cloud-1"]
    assert due_requests({}, [seen(2, "Accepted")], 0).remove == (seen(2, "Accepted"),)


def test_one_that_failed_stays_for_a_while_and_is_then_made_anew() -> None:
    failed = seen(1, "Failed", since_s=NOON_S)
    soon = due_requests({CLOUD: 1}, [failed], NOON_S + RETRY_S - 1)
    assert (soon.make, soon.remove) == ((), ())
    later = due_requests({CLOUD: 1}, [failed], NOON_S + RETRY_S)
    assert (later.make, later.remove) == (((CLOUD, 2),), (failed,))


@pytest.mark.parametrize("state", ["BookingExpired", "CapacityRevoked"])
def test_one_whose_capacity_is_gone_is_made_anew_at_once(state: str) -> None:
    gone = seen(1, state, since_s=NOON_S)
    found = due_requests({CLOUD: 1}, [gone], NOON_S)
    assert (found.make, found.remove) == (((CLOUD, 2),), (gone,))


def test_the_worst_is_said_of_a_pool_in_words() -> None:
    failed = seen(2, "Failed", message="no capacity in zone b.")
    said = in_words([seen(1, "Provisioned"), failed, seen(3)])
    assert said == {CLOUD: "The cluster's autoscaler brings none for now: no capacity in zone b."}
    assert in_words([seen(1, "Accepted")])[CLOUD] == "The cluster's autoscaler works on it."
    assert "not taken up" in in_words([seen(1, "Accepted"), seen(2)])[CLOUD]
    assert in_words([replace(failed, message="")])[CLOUD].endswith("it does not say why.")


def test_what_an_autoscaler_says_is_one_line_of_bounded_length() -> None:
    found = read_request(conditions("Failed", message="x\ny " * 400))
    assert found is not None
    assert "\n" not in found.message
    assert len(found.message) <= 300


def test_a_class_without_requests_is_refused_in_words() -> None:
    with pytest.raises(ValidationError, match="belongs to scale_up: provisioning-request"):
        PoolPlace(provisioning_class="queued-provisioning.gke.io")

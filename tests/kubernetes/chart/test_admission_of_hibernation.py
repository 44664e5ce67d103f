"""Who may have what a node gives to pods that save their processes: nobody by hand, and root never."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from gpucommons.gpu.hibernation.containers import PROFILE, RESOURCE
from gpucommons.spawner.cluster import RESTRICTED
from tests.kubernetes.guarded import Guarded, Refused, guarded, pod

FILTER = {"seccompProfile": {"type": "Localhost", "localhostProfile": PROFILE}}
DEVICE = {"resources": {"limits": {RESOURCE: "1"}}}
NOTEBOOK = pod(container={**DEVICE, "securityContext": {**RESTRICTED, **FILTER}})


@pytest.fixture(scope="module")
def place(api: client.ApiClient) -> Iterator[Guarded]:
    with guarded(api) as found:
        yield found


def changed(**context: Any) -> dict[str, Any]:
    """The notebook with another security context; None takes a key out."""
    body = copy.deepcopy(NOTEBOOK)
    [container] = body["spec"]["containers"]
    said = {**container["securityContext"], **context}
    container["securityContext"] = {key: one for key, one in said.items() if one is not None}
    return body


def test_the_hubs_notebooks_may_and_users_pods_may_not(place: Guarded) -> None:
    pods = place.path("pods") + "?dryRun=All"
    place.hub.ask("POST", pods, NOTEBOOK)
    unprivileged = {"containers": [{"name": "one", "image": "lab:1"}], "securityContext": FILTER}
    for body in (
        NOTEBOOK,
        pod(container=DEVICE),
        pod(container={"securityContext": FILTER}),
        {"metadata": {"generateName": "mine-"}, "spec": unprivileged},
    ):
        with pytest.raises(Refused, match="ValidatingAdmissionPolicy 'gpucommons-"):
            place.user.ask("POST", pods, body)
    # What asks for none of it is not judged.
    place.user.ask("POST", pods, pod())


@pytest.mark.parametrize(
    "context",
    [
        {"runAsNonRoot": None},
        {"runAsNonRoot": False},
        {"allowPrivilegeEscalation": None},
        {"capabilities": None},
        {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
        {"capabilities": None, "privileged": True, "allowPrivilegeEscalation": True},
    ],
    ids=str,
)
def test_not_even_the_hub_or_an_administrator_gives_it_to_who_may_be_root(
    place: Guarded, context: dict[str, Any]
) -> None:
    for person in (place.hub, place.admin):
        message = person.refused("POST", place.path("pods") + "?dryRun=All", changed(**context))
        assert "may not be root, nor become it" in message


@pytest.mark.parametrize("shares", ["shareProcessNamespace", "hostPID"])
def test_nobody_else_in_the_pod_sees_the_processes_that_have_it(
    place: Guarded, shares: str
) -> None:
    body = copy.deepcopy(NOTEBOOK)
    body["spec"][shares] = True
    message = place.admin.refused("POST", place.path("pods") + "?dryRun=All", body)
    assert "set neither hostPID nor shareProcessNamespace" in message


def test_it_holds_where_nobody_thought_of_guarding_a_namespace(place: Guarded) -> None:
    pods = "/api/v1/namespaces/default/pods?dryRun=All"
    assert "may not be root" in place.admin.refused("POST", pods, pod(container=DEVICE))

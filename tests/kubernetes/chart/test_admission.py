"""A notebook user with the rights of an editor tries to get at a GPU, on a real API server.

Each attack is one test; next to them stand the things that must go on working.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.kubernetes.api import wait_for
from tests.kubernetes.guarded import Guarded, Person, guarded, pod

TOLERATION = {"key": "gpucommons.io/pool", "operator": "Exists"}
SLICE_VOLUME = {"name": "s", "csi": {"driver": "slices.gpucommons.io"}}
ALL_GPUS = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
HUBS_OWN = {"env": [{"name": "GPUCOMMONS_URL", "value": "http://scheduler"}]}
OURS = {
    "gpucommons.io/kind": "notebook",
    "gpucommons.io/slice": "0190aaaa-0000-7000-8000-0000000000aa",
}
#: What GPU Commons and the Job controller look for, under names that are not ours.
FOUND_BY = {
    "app.kubernetes.io/instance": "gpucommons",
    "batch.kubernetes.io/controller-uid": "0190aaaa-0000-7000-8000-0000000000bb",
}


@pytest.fixture(scope="module")
def place(api: client.ApiClient) -> Iterator[Guarded]:
    with guarded(api) as found:
        yield found


@pytest.fixture
def notebook(place: Guarded) -> Iterator[dict[str, Any]]:
    """A notebook with a slice, as the hub makes it; no node takes it, so it stays pending."""
    body = pod(
        container={
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "GPU-1"}],
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        },
        metadata={
            "labels": {**OURS, **FOUND_BY},
            "annotations": {"gpucommons.io/devices": "GPU-1"},
        },
        tolerations=[TOLERATION],
        volumes=[SLICE_VOLUME],
        schedulingGates=[{"name": "gpucommons.io/placement"}],
    )
    made = place.hub.ask("POST", place.path("pods"), body)
    yield made
    name = made["metadata"]["name"]
    place.admin.ask("DELETE", place.path("pods", name) + "?gracePeriodSeconds=0")


ATTACKS: dict[str, dict[str, Any]] = {
    "a GPU as a limit": pod(container={"resources": {"limits": {"nvidia.com/gpu": "1"}}}),
    "a MIG instance": pod(container={"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}),
    "a GPU of another maker": pod(container={"resources": {"limits": {"amd.com/gpu": "1"}}}),
    "a GPU by maker": pod(container={"resources": {"limits": {"gpu.intel.com/i915": "1"}}}),
    "a GPU as a request": pod(
        container={
            "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
        }
    ),
    "a class of devices as a resource": pod(
        container={
            "resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}}
        }
    ),
    "a GPU in an init container": pod(
        initContainers=[
            {"name": "i", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        ]
    ),
    "all GPUs by variable": pod(container=ALL_GPUS),
    "all GPUs by variable in an init container": pod(
        initContainers=[{"name": "i", "image": "x", **ALL_GPUS}]
    ),
    "all GPUs by variable in a sidecar": pod(
        initContainers=[{"name": "i", "image": "x", "restartPolicy": "Always", **ALL_GPUS}]
    ),
    "a variable whose value comes from elsewhere": pod(
        container={
            "env": [
                {
                    "name": "NVIDIA_VISIBLE_DEVICES",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                }
            ]
        }
    ),
    "devices of CUDA": pod(container={"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}),
    "a pipe of MPS": pod(container={"env": [{"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/m"}]}),
    "a preloaded library": pod(container={"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}),
    "another slice's name": pod(container={"env": [{"name": "GPUCOMMONS_SLICE_ID", "value": "x"}]}),
    "a name put together by envFrom": pod(
        container={"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "c"}}]}
    ),
    "a name put together letter by letter": pod(
        container={"envFrom": [{"prefix": "N", "configMapRef": {"name": "c"}}]}
    ),
    "a prefix longer than the name's start": pod(
        container={"envFrom": [{"prefix": "NVIDIA_VISIBLE", "secretRef": {"name": "c"}}]}
    ),
    "the pool's taint": pod(tolerations=[TOLERATION]),
    "the pool's taint by value": pod(
        tolerations=[{"key": "gpucommons.io/pool", "value": "gpu", "effect": "NoSchedule"}]
    ),
    "every taint": pod(tolerations=[{"operator": "Exists"}]),
    "every taint that forbids scheduling": pod(
        tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]
    ),
    "a node by name, around the scheduler": pod(nodeName="gpu-03"),
    "the folder of a slice": pod(volumes=[SLICE_VOLUME]),
    "a label of ours": pod(metadata={"labels": {"gpucommons.io/slice": "x"}}),
    "an annotation of ours": pod(metadata={"annotations": {"gpucommons.io/devices": "GPU-1"}}),
    "a fraction of KAI": pod(metadata={"annotations": {"gpu-fraction": "0.5"}}),
    "a fraction of HAMi": pod(metadata={"annotations": {"nvidia.com/use-gpuuuid": "GPU-1"}}),
    "a container device by annotation": pod(
        metadata={"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}
    ),
    "a claim on a device": pod(
        resourceClaims=[{"name": "g", "resourceClaimName": "of-a-notebook"}]
    ),
    "the account of the hub": pod(serviceAccountName="careless-hub"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_users_pod_cannot_have(place: Guarded, attack: dict[str, Any]) -> None:
    sentence = place.user.refused("POST", place.path("pods"), attack)
    assert sentence.rstrip().endswith(".")


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
@pytest.mark.parametrize("resource", ["deployments", "jobs"])
def test_a_users_workload_cannot_make_pods_with(
    place: Guarded, resource: str, attack: dict[str, Any]
) -> None:
    place.user.refused("POST", place.path(resource), workload(resource, attack))


def workload(resource: str, body: dict[str, Any]) -> dict[str, Any]:
    """A workload that makes such pods."""
    template = copy.deepcopy(body)
    template["metadata"].pop("generateName")
    selector: dict[str, Any] = {"app": "mine"}
    template["metadata"].setdefault("labels", {}).update(selector)
    spec: dict[str, Any] = {"template": template, "selector": {"matchLabels": selector}}
    if resource == "jobs":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"template": template}
    elif resource == "replicationcontrollers":
        spec = {"template": template, "selector": selector}
    elif resource == "cronjobs":
        template["spec"]["restartPolicy"] = "Never"
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    elif resource == "statefulsets":
        spec["serviceName"] = "mine"
    elif resource == "podtemplates":
        return {"metadata": {"generateName": "mine-"}, "template": template}
    return {"metadata": {"generateName": "mine-"}, "spec": spec}


def test_a_pod_too_large_to_be_judged_is_refused(place: Guarded) -> None:
    env = [{"name": f"A{number}", "value": "x"} for number in range(1000)]
    container = {"image": "x", "env": env}
    many = [{"name": f"c{number}", **container} for number in range(60)]
    last = {"name": "last", "image": "x", **ALL_GPUS}
    body = {"metadata": {"generateName": "mine-"}, "spec": {"containers": [*many, last]}}
    assert place.user.refused("POST", place.path("pods"), body)


EVERY_WORKLOAD = [
    "cronjobs",
    "daemonsets",
    "deployments",
    "jobs",
    "podtemplates",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
]


@pytest.mark.parametrize("resource", EVERY_WORKLOAD)
def test_no_kind_of_workload_is_a_way_around(place: Guarded, resource: str) -> None:
    attack = workload(resource, pod(container=ALL_GPUS))
    assert "NVIDIA_*" in place.user.refused("POST", place.path(resource), attack)
    labelled = workload(resource, pod(metadata={"labels": dict(OURS)}))
    assert "gpucommons.io" in place.user.refused("POST", place.path(resource), labelled)


@pytest.mark.parametrize("resource", EVERY_WORKLOAD)
def test_a_harmless_workload_may_be_made_and_not_turned_into_an_attack(
    place: Guarded, resource: str
) -> None:
    made = place.user.ask("POST", place.path(resource), workload(resource, pod()))
    name = made["metadata"]["name"]
    try:
        path = place.path(resource, name)
        marked = {"metadata": {"annotations": {"gpucommons.io/devices": "GPU-1"}}}
        assert "gpucommons.io" in place.user.refused("PATCH", path, marked)
        plain = {"metadata": {"annotations": {"mine.example.org/a": "b"}}}
        place.user.ask("PATCH", path, plain)
        if resource == "jobs":
            # Its template never changes.
            return
        attack = {"containers": [{"name": "one", "image": "x", **ALL_GPUS}]}
        template: dict[str, Any] = {"template": {"spec": attack}}
        if resource == "cronjobs":
            template = {"jobTemplate": {"spec": template}}
        body = template if resource == "podtemplates" else {"spec": template}
        assert "NVIDIA_*" in place.user.refused("PATCH", path, body)
    finally:
        place.user.ask("DELETE", f"{place.path(resource, name)}?propagationPolicy=Background")


def test_a_suspended_job_cannot_be_pointed_at_a_gpu(place: Guarded) -> None:
    body = workload("jobs", pod())
    body["spec"]["suspend"] = True
    name = place.user.ask("POST", place.path("jobs"), body)["metadata"]["name"]
    try:
        template = {"spec": {"tolerations": [TOLERATION]}}
        patch = {"spec": {"template": template}}
        assert "do not tolerate" in place.user.refused("PATCH", place.path("jobs", name), patch)
        marked = {"spec": {"template": {"metadata": {"labels": {"gpucommons.io/slice": "x"}}}}}
        assert "gpucommons.io" in place.user.refused("PATCH", place.path("jobs", name), marked)
    finally:
        place.user.ask("DELETE", f"{place.path('jobs', name)}?propagationPolicy=Background")


def test_a_variable_cannot_come_out_of_a_config_map_or_a_secret(place: Guarded) -> None:
    for resource in ("configmaps", "secrets"):
        for field in ("data", "stringData") if resource == "secrets" else ("data",):
            value = "YWxs" if resource == "secrets" and field == "data" else "all"
            body = {"metadata": {"name": "mine"}, field: {"NVIDIA_VISIBLE_DEVICES": value}}
            assert "envFrom" in place.user.refused("POST", place.path(resource), body)
        harmless = {"metadata": {"name": "mine"}, "data": {"colour": "Ymx1ZQ=="}}
        place.user.ask("POST", place.path(resource), harmless)
        worse = {"data": {"LD_PRELOAD": "Ymx1ZQ=="}}
        assert "envFrom" in place.user.refused("PATCH", place.path(resource, "mine"), worse)
        place.user.ask("PATCH", place.path(resource, "mine"), {"data": {"shape": "Ymx1ZQ=="}})


def test_a_token_of_an_account_that_hands_out_gpus_is_not_given(place: Guarded) -> None:
    path = place.path("serviceaccounts", "careless-hub", "token")
    assert "service account" in place.user.refused("POST", path, {"spec": {}})
    secret = {
        "metadata": {
            "name": "long-lived",
            "annotations": {"kubernetes.io/service-account.name": "careless-hub"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    assert "service account" in place.user.refused("POST", place.path("secrets"), secret)
    own = place.path("serviceaccounts", "notebook-user", "token")
    assert place.user.ask("POST", own, {"spec": {}})["status"]["token"]


def test_a_users_pod_cannot_outrank_what_holds_the_gpus(
    place: Guarded, api: client.ApiClient
) -> None:
    classes = client.SchedulingV1Api(api)
    names = [f"gpucommons-test-{place.namespace}", f"highest-{place.namespace}"]
    high = f"high-{place.namespace}"
    for name, value in ((names[0], 5), (names[1], 2_000_000), (high, 900_000)):
        classes.create_priority_class({"metadata": {"name": name}, "value": value})
    try:
        for name in names:
            sentence = place.user.refused("POST", place.path("pods"), pod(priorityClassName=name))
            assert "priority" in sentence
        body = pod(priorityClassName=high)
        name = place.user.ask("POST", place.path("pods"), body)["metadata"]["name"]
        place.user.ask("DELETE", place.path("pods", name))
        system = pod(priorityClassName="system-node-critical")
        assert "priority" in place.user.refused("POST", place.path("pods"), system)
    finally:
        for name in (*names, high):
            classes.delete_priority_class(name)


def test_a_notebooks_pod_is_changed_by_nobody_else(
    place: Guarded, notebook: dict[str, Any]
) -> None:
    path = place.path("pods", notebook["metadata"]["name"])
    devices = {"metadata": {"annotations": {"gpucommons.io/devices": "GPU-2"}}}
    assert "gpucommons.io" in place.user.refused("PATCH", path, devices)
    gone = {"metadata": {"labels": {"gpucommons.io/slice": None}}}
    assert "gpucommons.io" in place.user.refused("PATCH", path, gone)
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "nvidia/cuda"}]
    assert "belongs" in place.user.refused("PATCH", path, image, patch="json-patch")
    gate = [{"op": "remove", "path": "/spec/schedulingGates"}]
    assert "belongs" in place.user.refused("PATCH", path, gate, patch="json-patch")
    node = [{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}]
    assert "belongs" in place.user.refused("PATCH", path, node, patch="json-patch")
    resize = {
        "spec": {
            "containers": [
                {"name": "one", "resources": {"requests": {"cpu": "64"}, "limits": {"cpu": "64"}}}
            ]
        }
    }
    assert "belongs" in place.user.refused(
        "PATCH", f"{path}/resize", resize, patch="strategic-merge-patch"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        *({"labels": {name: value}} for name in FOUND_BY for value in (None, "other")),
        {"finalizers": ["example.org/stays"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]},
    ],
    ids=str,
)
def test_a_pod_of_ours_cannot_be_hidden_from_who_looks_after_it(
    place: Guarded, notebook: dict[str, Any], metadata: dict[str, Any]
) -> None:
    path = place.path("pods", notebook["metadata"]["name"])
    assert "kept" in place.user.refused("PATCH", path, {"metadata": metadata})
    # What nobody looks for may be noted on it, and who looks after it goes on.
    for note in "one", "two", "three":
        place.user.ask("PATCH", path, {"metadata": {"annotations": {"example.org/note": note}}})
    place.hub.ask("PATCH", path, {"metadata": {"labels": {"example.org/note": "ours"}}})


def test_no_ephemeral_container_gets_into_a_notebooks_pod(
    place: Guarded, notebook: dict[str, Any]
) -> None:
    path = place.path("pods", notebook["metadata"]["name"], "ephemeralcontainers")
    added = {"name": "debug", "image": "nvidia/cuda"}
    patch = {"spec": {"ephemeralContainers": [added]}}
    kind = "strategic-merge-patch"
    assert "belongs" in place.user.refused("PATCH", path, patch, patch=kind)
    # Nor one with the variable into a pod of their own.
    name = place.user.ask("POST", place.path("pods"), pod())["metadata"]["name"]
    own = place.path("pods", name, "ephemeralcontainers")
    hostile = {"spec": {"ephemeralContainers": [{**added, **ALL_GPUS}]}}
    assert "NVIDIA_*" in place.user.refused("PATCH", own, hostile, patch=kind)
    place.user.ask("PATCH", own, patch, patch=kind)
    place.user.ask("DELETE", place.path("pods", name))


def test_a_job_of_ours_is_changed_by_nobody_else(place: Guarded) -> None:
    body = workload("jobs", pod(metadata={"labels": dict(OURS)}))
    body["metadata"]["labels"] = dict(OURS)
    body["spec"] |= {"suspend": True}
    name = place.hub.ask("POST", place.path("jobs"), body)["metadata"]["name"]
    try:
        path = place.path("jobs", name)
        assert "belongs" in place.user.refused("PATCH", path, {"spec": {"suspend": False}})
        assert "belongs" in place.user.refused("PATCH", path, {"spec": {"parallelism": 8}})
        gone = {"metadata": {"labels": {"gpucommons.io/slice": None}}}
        assert "gpucommons.io" in place.user.refused("PATCH", path, gone)
    finally:
        place.hub.ask("DELETE", f"{place.path('jobs', name)}?propagationPolicy=Background")


def test_the_job_controller_makes_the_pods_of_our_jobs_and_of_harmless_ones(
    place: Guarded,
) -> None:
    ours = workload("jobs", pod(container=ALL_GPUS, tolerations=[TOLERATION]))
    ours["spec"]["template"]["metadata"]["labels"] |= {"gpucommons.io/workload": "w", **OURS}
    made = place.hub.ask("POST", place.path("jobs"), ours)["metadata"]["name"]
    harmless = place.user.ask("POST", place.path("jobs"), workload("jobs", pod()))
    names = (made, harmless["metadata"]["name"])
    try:
        for name in names:
            wait_for(lambda name=name: pods_of(place.admin, place, name), f"a pod of {name}")
        # It also takes its finalizer off, which is an update.
        for name in names:
            options = "?propagationPolicy=Background"
            place.hub.ask("DELETE", place.path("jobs", name) + options)
            wait_for(lambda name=name: not pods_of(place.admin, place, name), f"{name}'s pods gone")
    finally:
        for one in place.admin.ask("GET", place.path("pods"))["items"]:
            place.admin.ask("DELETE", place.path("pods", one["metadata"]["name"]))


def pods_of(person: Person, place: Guarded, job: str) -> list[Any]:
    query = f"?labelSelector=batch.kubernetes.io/job-name={job}"
    found: list[Any] = person.ask("GET", place.path("pods") + query)["items"]
    return found


def test_controllers_do_not_launder_what_stood_there_before_the_guard(place: Guarded) -> None:
    """A Deployment of an administrator is not refused, but its controller gets no GPU for it."""
    body = workload("deployments", pod(container=ALL_GPUS))
    name = place.admin.ask("POST", place.path("deployments"), body)["metadata"]["name"]
    try:

        def refused() -> str | None:
            found = place.admin.ask("GET", place.path("deployments", name))
            for one in found.get("status", {}).get("conditions", ()):
                if (
                    one["type"] in {"ReplicaFailure", "Progressing"}
                    and "NVIDIA_*" in one["message"]
                ):
                    return str(one["message"])
            return None

        assert "GPU Commons alone" in wait_for(refused, "the refusal in the status")
    finally:
        place.admin.ask("DELETE", place.path("deployments", name))


def test_hub_and_scheduler_may_live_in_a_guarded_namespace(place: Guarded) -> None:
    """Their Deployments are made by administrators, their pods by controllers."""
    body = workload("deployments", pod(serviceAccountName="careless-hub", container=HUBS_OWN))
    path = place.path("deployments")
    name = place.admin.ask("POST", path, body)["metadata"]["name"]
    path = place.path("deployments", name)
    try:

        def pods() -> list[Any]:
            query = "?labelSelector=app%3Dmine"
            items = place.admin.ask("GET", place.path("pods") + query)["items"]
            return [one for one in items if one["metadata"]["generateName"].startswith(name)]

        wait_for(pods, "the hub's pod")
        place.admin.ask("PATCH", path, {"spec": {"replicas": 2}})
        wait_for(lambda: len(pods()) == 2, "the second pod")
        # What a user puts in there would run with the hub's rights.
        mine = {"containers": [{"name": "one", "image": "mine:1"}]}
        patch = {"spec": {"template": {"spec": mine}}}
        assert "service account" in place.user.refused("PATCH", path, patch)
    finally:
        place.admin.ask("DELETE", path)


def test_harmless_pods_of_users_are_left_alone(place: Guarded) -> None:
    body = pod(
        container={
            "env": [
                {"name": "COLOUR", "value": "blue"},
                {"name": "LD_LIBRARY_PATH", "value": "/x"},
            ],
            "envFrom": [{"configMapRef": {"name": "c", "optional": True}, "prefix": "MY_"}],
            "resources": {"limits": {"cpu": "1", "example.org/widget": "1"}},
        },
        tolerations=[
            {"key": "example.org/x", "operator": "Exists"},
            {"operator": "Exists", "effect": "NoExecute"},
        ],
        metadata={"labels": {"app": "mine"}, "annotations": {"example.org/a": "b"}},
        volumes=[{"name": "v", "emptyDir": {}}],
        nodeSelector={"disk": "ssd"},
    )
    name = place.user.ask("POST", place.path("pods"), body)["metadata"]["name"]
    path = place.path("pods", name)
    place.user.ask("PATCH", path, {"metadata": {"labels": {"app": "yours"}}})
    more = {"spec": {"tolerations": [*body["spec"]["tolerations"], {"operator": "Exists"}]}}
    assert "everything" in place.user.refused("PATCH", path, more)
    place.user.ask("DELETE", path)


def test_the_hub_may_do_all_of_it(place: Guarded) -> None:
    for name, attack in ATTACKS.items():
        if name in {"the account of the hub", "a class of devices as a resource"}:
            continue
        body = copy.deepcopy(attack)
        body["spec"]["containers"][0].pop("volumeMounts", None)
        place.hub.ask("POST", place.path("pods") + "?dryRun=All", body)


def test_the_namespace_of_a_team_is_guarded_by_that_label_alone(api: client.ApiClient) -> None:
    with guarded(api, by={"team": "vision"}) as place:
        attack = ATTACKS["a GPU as a limit"]
        assert "handed out" in place.user.refused("POST", place.path("pods"), attack)
        name = place.user.ask("POST", place.path("pods"), pod())["metadata"]["name"]
        place.user.ask("DELETE", place.path("pods", name))

"""What Kubernetes says comes out as a sentence that says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucommons.spawner.pods.pod_words import api_refusal, event_sentence, stuck


@pytest.mark.parametrize(
    ("reason", "message", "words"),
    [
        ("Scheduled", "Successfully assigned a/b to n", "A machine is found"),
        ("Pulling", 'Pulling image "lab:1"', "Loading the image lab:1; the first time"),
        ("Pulled", 'Successfully pulled image "lab:1" in 2s', "The image lab:1 is there"),
        ("Failed", 'Failed to pull image "lab:1": not found', "The image lab:1 cannot be loaded"),
        ("Failed", "Error: ImagePullBackOff", "cannot be loaded"),
        ("BackOff", 'Back-off pulling image "lab:1"', "The image lab:1 cannot be loaded"),
        ("BackOff", "Back-off restarting failed container notebook", "ended at once"),
        (
            "BackOff",
            "Back-off restarting failed container image-tools in pod jupyter-pullman_default(1)",
            "The server ended at once and is started again",
        ),
        (
            "Failed",
            'Error: container "puller" of image team has runAsNonRoot and image will run as root',
            "The server cannot be started yet",
        ),
        (
            "ErrImageNeverPull",
            'Container image "lab:1" is not present with pull policy of Never',
            "The image lab:1 cannot be loaded",
        ),
        (
            "FailedScheduling",
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node"
            " affinity/selector. preemption: 0/3 nodes are available",
            "The server waits: its machine has no CPU left",
        ),
        (
            "FailedScheduling",
            "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 1 node(s) had untolerated"
            " taint {c: d}, 2 Insufficient cpu, 1 Insufficient memory. preemption: 0/4 nodes are"
            " available: 4 Preemption is not helpful for scheduling.",
            "of 4 machines 2 have no CPU left, 1 has no memory left, 2 accept no pods at the moment",
        ),
        (
            "FailedScheduling",
            "0/5 nodes are available: 1 Too many pods, 2 node(s) were unschedulable, 2 node(s) didn't"
            " match Pod's node affinity/selector.",
            "of 3 machines with the labels that are asked 2 are closed for new pods, 1 runs as many pods",
        ),
        (
            "FailedScheduling",
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            "The server waits: its machine has no CPU left and has no memory left",
        ),
        (
            "FailedScheduling",
            "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector.",
            "The server waits: its machine is not there or does not carry the labels that are asked",
        ),
        (
            "FailedScheduling",
            '0/1 nodes are available: persistentvolumeclaim "x" not found.',
            "Your volume is not there yet",
        ),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "gpucommons-slice" : kubernetes.io/csi:'
            " mounter.SetUpAt failed to get CSI client: driver name slices.gpucommons.io not found"
            " in the list of registered CSI drivers",
            "node agent does not run yet",
        ),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "gpucommons-slice" : rpc error',
            "The slice is not ready on its machine yet",
        ),
        (
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) x',
            "in use on another machine: stop the server that uses it",
        ),
        (
            "Failed",
            "Error: failed to create containerd task: failed to set MOUNT_ATTR_IDMAP on /x: invalid"
            " argument (maybe the filesystem used doesn't support idmap mounts on this kernel?)",
            "one of its volumes knows no users of a pod's own (hostUsers: false)",
        ),
        (
            "Failed",
            "Error: failed to inject CDI devices: unresolvable CDI devices gpucommons.io/hibernate=proc",
            "lacks the device by which its kernels are saved",
        ),
        (
            "FailedScheduling",
            "0/2 nodes are available: 1 Insufficient gpucommons.io/hibernate, 1 node(s) didn't match Pod's"
            " node affinity/selector.",
            "its machine no longer offers to save kernels",
        ),
        ("SomethingNew", "the words of Kubernetes.", "the words of Kubernetes"),
        ("SomethingNew", "", "SomethingNew"),
    ],
)
def test_events_become_sentences(reason: str, message: str, words: str) -> None:
    sentence = event_sentence({"reason": reason, "message": message})
    assert words in sentence
    assert not sentence.endswith(".")


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "status": {
            "phase": "Pending",
            "containerStatuses": [{"name": "notebook", "image": "lab:1", "state": state}],
        }
    }


def test_an_image_that_fails_to_load_may_mend_and_a_wrong_name_never() -> None:
    found = stuck(waiting("ImagePullBackOff", "Back-off pulling image"))
    assert found is not None
    assert found[0].startswith("The image lab:1 cannot be loaded (Back-off pulling image)")
    assert not found[1]
    wrong = stuck(waiting("InvalidImageName", "couldn't parse"))
    assert wrong is not None
    assert wrong[1]


def test_a_pod_that_the_machine_refused_is_stuck() -> None:
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"}
    assert stuck({"status": status}) == (
        "The machine refused the server: no devices. Try again, or tell your admin.",
        True,
    )


def test_a_filter_that_the_machine_lacks_may_come_and_is_said() -> None:
    message = 'cannot load seccomp profile "/var/lib/kubelet/seccomp/x.json": no such file'
    found = stuck(waiting("CreateContainerError", message))
    assert found is not None
    assert "its machine lacks the filter of system calls" in found[0]
    assert not found[1]
    assert stuck(waiting("CreateContainerError", "something else")) is None


def test_a_device_that_is_not_ours_is_told_in_the_runtimes_words() -> None:
    lacking = "unresolvable CDI devices nvidia.com/gpu=0"
    assert stuck(waiting("CreateContainerError", lacking)) is None
    said = event_sentence({"reason": "Failed", "message": f"Error: {lacking}"})
    assert said == f"The server cannot be started yet: Error: {lacking}"


@pytest.mark.parametrize("which", ["state", "lastState"])
def test_a_volume_without_users_of_a_pods_own_is_said_while_it_is_tried_again(which: str) -> None:
    message = "runc create failed: failed to set MOUNT_ATTR_IDMAP on /home: invalid argument"
    ended = {"terminated": {"reason": "StartError", "message": message}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "notebook", which: ended}]}
    found = stuck({"status": status})
    assert found is not None
    assert "knows no users of a pod's own" in found[0]


@pytest.mark.parametrize("pod", [{}, waiting("ContainerCreating"), waiting("PodInitializing")])
def test_a_pod_that_is_on_its_way_is_not_given_up(pod: dict[str, Any]) -> None:
    assert stuck(pod) is None


@pytest.mark.parametrize(
    ("message", "words", "reason"),
    [
        (
            'pods "jupyter-a" is forbidden: exceeded quota: small, requested: requests.cpu=4,'
            " used: requests.cpu=1, limited: requests.cpu=2",
            "The quota small of the namespace is used up: the notebook asks for requests.cpu=4,"
            " requests.cpu=1 is in use, requests.cpu=2 is the limit.",
            "kubernetes_quota",
        ),
        (
            'admission webhook "guard.example.org" denied the request: no notebooks on Sunday',
            "guard.example.org refuses the notebook: no notebooks on Sunday. Tell your admin.",
            "kubernetes_webhook",
        ),
        (
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
            "takes only pods that are restricted, and this one is not (runAsNonRoot != true)",
            "kubernetes_security",
        ),
        (
            'pods "x" is forbidden: no PriorityClass with name gone was found',
            "The cluster has no PriorityClass gone.",
            "kubernetes_priority",
        ),
        ("etcdserver: no leader", "etcdserver: no leader", "kubernetes"),
    ],
)
def test_refusals_of_the_api_become_sentences(message: str, words: str, reason: str) -> None:
    for body in (json.dumps({"message": message}), json.dumps({"message": message}).encode()):
        found = api_refusal(body)
        assert words in found.sentence
        assert found.reason == reason


@pytest.mark.parametrize("body", [None, "", b"", "<html>", "[1]", b"\xff"])
def test_an_answer_without_words_is_a_refusal_too(body: Any) -> None:
    assert api_refusal(body).sentence.startswith("Kubernetes takes no pod")

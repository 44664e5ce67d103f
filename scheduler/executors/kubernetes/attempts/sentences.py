"""The cluster's reasons as sentences for people who never saw a cluster.

Each says what happened, and what to do where something can be done. The cluster's own words follow
where they carry what nobody else knows: the name of a quota, of a webhook, of an image.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence

from gpucommons.gpu.hibernation.containers import DEVICE_LACKING, PROFILE_LACKING
from gpucommons.scheduler.executors.kubernetes.objects.names import PYTHON
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import JobSeen, PodSeen, Why
from gpucommons.scheduler.failures import Failure, headline
from gpucommons.scheduler.in_pod.worker import NOT_BEGUN

#: A container that waits for one of these does not get over it by itself.
HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "ErrImageNeverPull",
        "InitFailed",
        "InvalidImageName",
        "RunContainerError",
        "CreateContainerError",
    }
)
#: …and for one of these it may.
UNCERTAIN = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
#: The container ended without ever having been the job's command.
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})

#: As Python writes a command.
_NAMED = r"(?:'[^\r\n]{1,400}'|\"[^\r\n]{1,400}\")"
#: A command or a path. A program can write such a message, so it has room for no sentence of its own.
_PLAIN = re.compile(r"'[\w./@+:=~,%-]{1,200}'")
_NOT_BEGUN = re.compile(
    rf"{NOT_BEGUN}(?:there is no (?P<missing>{_NAMED}) in this environment"
    rf"|(?P<barred>{_NAMED}) cannot be run: (?P<why>.{{1,100}}))"
)
#: The system's own words for what stands in the way of a command.
_REASONS = frozenset(map(os.strerror, errno.errorcode))
_EXECUTABLE = re.compile(r'exec: \\?"(?P<command>[^"\\]+)\\?"')
_QUOTA = re.compile(r"exceeded quota: (?P<name>[^,]+), (?P<rest>.*)", re.DOTALL)
_WEBHOOK = re.compile(
    r'admission webhook "(?P<name>[^"]+)" denied the request:? ?(?P<rest>.*)', re.DOTALL
)
_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<rest>.*)', re.DOTALL)
_POLICY = re.compile(
    r"ValidatingAdmissionPolicy '(?P<name>[^']+)'.*?denied request: (?P<rest>.*)", re.DOTALL
)
_LONGEST = 400

_PULL = "Its image cannot be fetched: {said}"
_MAKE = "Its container cannot be made: {said}"
_WAITS_FOR = {
    "ErrImagePull": _PULL,
    "ImagePullBackOff": _PULL,
    "RegistryUnavailable": _PULL,
    "InvalidImageName": "Its image is no name of an image: choose another environment ({said})",
    "ErrImageNeverPull": "Its image is not on the node, which may not fetch it: {said}",
    "CreateContainerConfigError": "Its container lacks something that it refers to: {said}",
    "InitFailed": "Its files could not be prepared: {said}",
    "RunContainerError": _MAKE,
    "CreateContainerError": _MAKE,
}
#: What a node's agent prepares, and brings back where somebody removed it.
_UNPREPARED = ((PROFILE_LACKING, "the filter of system calls"), (DEVICE_LACKING, "the device"))
_TAKEN_AWAY = {
    "PreemptionByScheduler": (
        "The cluster gave the place of {name} to other work of higher priority that is not ours"
    ),
    "DeletionByTaintManager": "The node {node} was closed to work, and {name} had to leave it",
    "EvictionByEvictionAPI": "{name} had to leave {node}, which is being emptied",
    "TerminationByKubelet": "The node {node} ended {name}: {said}",
    "DeletionByPodGC": "{name} was removed with its node {node}",
}


def waits_for(why: Why) -> str:
    """What a pod that was let go still waits for; empty where that is nothing worth a word."""
    return _WAITS_FOR.get(why.reason, "").format(said=_short(why.message))


def unprepared(why: Why) -> str:
    """What its node lacks for pods whose memory is saved; empty where nothing of that is missing."""
    lacking = next((lacks for said, lacks in _UNPREPARED if said.search(why.message)), "")
    return lacking and (
        f"Its node lacks {lacking} by which its memory is saved, which the node's agent brings back:"
        f" {_short(why.message)}"
    )


def refused(message: str) -> str:
    """Why the cluster creates no pod or object for the job."""
    if found := _QUOTA.search(message):
        return (
            f"The cluster's quota {found['name']} refuses this"
            f" ({_short(found['rest'])}): ask whoever runs the cluster to raise it"
        )
    if found := _SECURITY.search(message):
        return (
            f"The cluster's security level {found['level']} refuses this: {_short(found['rest'])}"
        )
    if found := _WEBHOOK.search(message):
        return f"The cluster's check {found['name']} refuses this: {_short(found['rest'])}"
    if found := _POLICY.search(message):
        return f"The cluster's rule {found['name']} refuses this: {_short(found['rest'])}"
    return f"The cluster refuses it: {_short(message)}"


def not_held(slot: str, message: str) -> str:
    """What it comes to that the cluster makes no pod which would hold a slot's card."""
    return (
        f"Nothing of ours can hold {slot}: {refused(message)}. Whoever runs the cluster must allow it; until"
        " then parts of that GPU cannot be used."
    )


def not_run(slot: str, why: Why) -> str:
    """The same where its node does not run that pod."""
    said = ": ".join(filter(None, (why.reason, _short(why.message)))) or "it gives no reason"
    return (
        f"Nothing of ours can hold {slot}: its node does not run what would ({said}). Look at the"
        " device plugin there; it is tried again at least every minute, and until then parts of that"
        " GPU cannot be used."
    )


_NO_PYTHON = (
    f"Its image has no {PYTHON}, which every job needs beside its own command: it hands signals on, hears"
    " of stops and keeps files. Choose an image with Python 3.8 or newer"
)
_CANNOT = {
    "suspend": "It cannot be ended, and holds what it has",
    "hurry": "Its workers cannot be ended, and hold what they have",
    "lift": "Its workers cannot be sent to their nodes",
}
#: Due until it is done; the others are asked once.
_ASKED_AGAIN = frozenset({"suspend", "hurry"})


def cannot(order: str, message: str) -> str:
    """What the cluster's refusal of an order comes to, and who can do something about it."""
    again = "; until then it is tried again every minute" if order in _ASKED_AGAIN else ""
    return f"{_CANNOT[order]}: {refused(message)}. Whoever runs the cluster must allow it{again}."


def not_begun(message: str, command: Sequence[str] = ()) -> str:
    """Why what stands above a command could not begin it, by what a pod left; empty where that says no such thing.

    A program can leave the same word. So it is understood, and nothing of it is repeated but the name of a
    command: any name of those in ``command``, which the pod was to run, else one that has no room for a sentence.
    """
    found = _NOT_BEGUN.fullmatch(message.strip())
    named = "" if found is None else found["missing"] or found["barred"]
    if found is None or (_PLAIN.fullmatch(named) is None and named not in map(repr, command)):
        return ""
    if found["missing"]:
        return f"There is no {found['missing']} in this environment"
    return f"{found['barred']} cannot be run: {found['why']}" if found["why"] in _REASONS else ""


def could_not_run(why: Why, command: Sequence[str] = ()) -> str:
    """Why a container ended that never became the job's command."""
    if reason := not_begun(why.message, command):
        return reason
    found = _EXECUTABLE.search(why.message)
    if (found and "not found" in why.message) or (found and "no such file" in why.message):
        if found["command"] == PYTHON:
            return _NO_PYTHON
        return f"There is no command {found['command']!r} in this environment"
    if found and "permission denied" in why.message:
        return f"{found['command']!r} cannot be run: permission denied"
    return f"Its container could not be started: {_short(why.message)}"


def taken_away(pod: PodSeen) -> str:
    """Why the cluster took a pod away that should have run."""
    if pod.end.reason == "Evicted" and not pod.disrupted.reason:
        return f"The node {pod.node} ended {pod.name}: {_short(pod.end.message)}"
    said = _short(pod.disrupted.message)
    sentence = _TAKEN_AWAY.get(pod.disrupted.reason, "Somebody removed {name} in the cluster")
    return sentence.format(name=pod.name, node=pod.node, said=said)


def ended_by_itself(pod: PodSeen, *, workers: int) -> str:
    """What a worker said of its end, as far as the kubelet kept it with the pod's status."""
    if not pod.exit_code:
        return ""
    return headline(
        Failure(
            tail=pod.end.message,
            exit_code=pod.exit_code,
            rank=pod.index,
            workers=workers,
            out_of_memory=pod.end.reason == "OOMKilled",
        )
    )


def job_edited(job: JobSeen, *, completions: int) -> str:
    """What somebody changed in a Job of ours; empty where nothing was."""
    if job.parallelism != completions:
        return (
            f"Somebody changed the number of workers of {job.name} in the cluster from {completions} to"
            f" {job.parallelism}: change it here instead"
        )
    return ""


def pod_changed(pod: PodSeen, *, gpus: int | None, last: str | None) -> str:
    """What a webhook changed in a pod so that it would not be what was decided; empty if nothing.

    ``last`` is the variable that must come last, which decides about GPUs.
    """
    who = f"Something in the cluster changed its worker {pod.name}"
    if not pod.gated:
        return f"{who}: it does not wait for its place"
    if gpus is not None and pod.gpus != gpus:
        return f"{who}: it asks for {pod.gpus} GPUs instead of {gpus}"
    if last is not None and last not in pod.variables:
        return f"{who}: the variable {last} is missing"
    if last is not None and pod.variables.count(last) > 1:
        return f"{who}: the variable {last} is set twice"
    return ""


def unschedulable(message: str) -> str:
    """Why kube-scheduler does not bind a pod that was let go."""
    return f"Its node does not take it: {_short(message)}" if message else ""


def node_trouble(why: Why) -> str:
    """Why a node does not get a pod to run, from its events; empty where that is no trouble."""
    match why.reason:
        case "FailedMount" | "FailedAttachVolume":
            return f"Its volumes cannot be mounted: {_short(why.message)}"
        case "FailedCreatePodSandBox":
            return f"Its node cannot set it up: {_short(why.message)}"
    return ""


def _short(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

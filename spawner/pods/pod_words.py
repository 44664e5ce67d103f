"""What Kubernetes says about a pod, in words for the person who waits for it.

A catalogue: each entry has the words by which it knows a message of Kubernetes, and one sentence
with what happens and, where it is up to somebody, what to do. Whatever is not in it is shown as
Kubernetes says it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER

_SHOWN_CHARACTERS = 400
_QUOTED = re.compile(r'image "([^"]+)"')
#: What a node lacks, in the scheduler's words and in ours.
_LACKS = {
    "Insufficient cpu": "has no CPU left",
    "Insufficient memory": "has no memory left",
    "Insufficient nvidia.com/gpu": "has no GPU left for the device plugin to give",
    "Insufficient gpucommons.io/hibernate": "no longer offers to save kernels: stop this start, and"
    " start again",
    "untolerated taint": "accepts no pods at the moment",
    "unschedulable": "is closed for new pods",
    "didn't match Pod's node affinity": "is not there or does not carry the labels that are asked",
    "Too many pods": "runs as many pods as it may",
    "volume node affinity conflict": "cannot reach your volume, which is tied to another one",
    "exceed max volume count": "has as many volumes as it can take",
}
#: Why a container cannot be made, which its runtime says in its own words.
_UNMADE = (
    (
        "MOUNT_ATTR_IDMAP",
        "The server cannot be started: the file system of one of its volumes knows no users of a pod's"
        " own (hostUsers: false). Tell your admin",
    ),
    (
        "cannot load seccomp profile",
        "The server cannot be started: its machine lacks the filter of system calls that it asks for."
        " Try again, or tell your admin",
    ),
    (
        "unresolvable CDI devices",
        "The server cannot be started: its machine lacks the device by which its kernels are saved. Try"
        " again, or tell your admin",
    ),
)
#: Reasons for which a container waits that no waiting mends.
_HOPELESS = {"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
_UNPULLED = {"ErrImagePull", "ImagePullBackOff"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Why the API took no pod."""

    sentence: str
    #: Label in the hub's metrics.
    reason: str
    status: int


def event_sentence(event: Mapping[str, Any]) -> str:
    """One event of a pod in a sentence."""
    reason = str(event.get("reason") or "")
    message = str(event.get("message") or "")
    image = _image(message)
    simple = {
        "Scheduled": "A machine is found, preparing the server",
        "Pulling": f"Loading the image{image}; the first time on a machine takes minutes",
        "Pulled": f"The image{image} is there",
        "Created": "Container created",
        "Started": "Container started, the server comes up",
        "Killing": "The server is being stopped",
        "TriggeredScaleUp": "The cluster is adding a machine; this takes minutes",
        "NotTriggerScaleUp": "No machine that the cluster could add would fit",
        "Preempted": "Kubernetes stopped the server for one of higher priority",
        "TaintManagerEviction": "The machine is in trouble, Kubernetes moves the server away",
        "Evicted": "The machine ran out of a resource, Kubernetes stopped the server",
        "NodeNotReady": "The machine does not answer",
        "SuccessfulAttachVolume": "Your volume is attached",
        "FailedCreatePodSandBox": "The machine cannot set the server's network up yet, it tries on",
        "FailedKillPod": "The machine cannot end the old server yet, it tries on",
        "Unhealthy": "The server does not answer yet",
    }
    if reason in simple:
        return simple[reason]
    if reason == "FailedScheduling":
        return _unscheduled(message)
    if reason in {"FailedMount", "FailedAttachVolume"}:
        return _unmounted(message)
    if reason in {"Failed", "BackOff", "InspectFailed", "ErrImageNeverPull"}:
        return _failed(message, image)
    return _shown(message) or reason


def hopeless(pod: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Why a pod will not start, and whether for good (else it may mend within minutes)."""
    status = pod.get("status") or {}
    both = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    unmade = next(filter(None, map(_unmade_container, both)), None)
    if unmade is not None:
        return f"{unmade}.", False
    if status.get("phase") == "Failed":
        why = _shown(str(status.get("message") or status.get("reason") or "no reason is given"))
        return f"The machine refused the server: {why}. Try again, or tell your admin.", True
    for container in both:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
        image = f" {container.get('image', '')}".rstrip()
        if reason in _UNPULLED:
            return _unpulled(image, message), False
        if reason in _HOPELESS:
            words = "cannot be used" if "Image" in reason else "cannot be started"
            return f"The image{image} {words}: {_shown(message)}. Tell your admin.", True
    return None


#: What the API server says, label and status of the refusal, and our words.
_REFUSALS = (
    (
        r"exceeded quota: (?P<name>[^,]+), requested: (?P<requested>.+?),"
        r" used: (?P<used>.+?), limited: (?P<limit>.+)",
        ("kubernetes_quota", 409),
        "The quota {name} of the namespace is used up: the notebook asks for {requested}, {used} is"
        " in use, {limit} is the limit. Stop another server, or ask your admin.",
    ),
    (
        r"failed quota: (?P<name>[^:]+): must specify (?P<what>.+)",
        ("kubernetes_quota", 409),
        "The quota {name} of the namespace wants every pod to say its {what}, and notebooks of this"
        " hub do not. Tell your admin.",
    ),
    (
        r"ValidatingAdmissionPolicy '[^']+' .*?denied request: (?P<why>.+)",
        ("kubernetes_policy", 403),
        "A policy of the cluster refuses the notebook: {why}",
    ),
    (
        r'admission webhook "(?P<name>[^"]+)" denied the request:? ?(?P<why>.*)',
        ("kubernetes_webhook", 403),
        "The cluster's admission webhook {name} refuses the notebook: {why}. Tell your admin.",
    ),
    (
        r'violates PodSecurity "(?P<level>[^":]+)[^"]*": (?P<why>.+)',
        ("kubernetes_security", 403),
        "The namespace takes only pods that are {level}, and this one is not ({why}). Tell your"
        " admin.",
    ),
    (
        r"no PriorityClass with name (?P<name>\S+) was found",
        ("kubernetes_priority", 503),
        "The cluster has no PriorityClass {name}. Tell your admin.",
    ),
    (
        r"(?P<why>.*)",
        ("kubernetes", 503),
        "Kubernetes takes no pod for the notebook: {why}. Tell your admin.",
    ),
)


def api_refusal(body: str | bytes | None) -> Refusal:
    """Why the API server takes no pod, from its answer."""
    message = _message(body)
    found, (reason, status), words = next(
        (match, label, words)
        for pattern, label, words in _REFUSALS
        if (match := re.search(pattern, message, re.DOTALL))
    )
    said = {name: _shown(value) for name, value in found.groupdict().items()}
    return Refusal(sentence=words.format_map(said), reason=reason, status=status)


def _unscheduled(message: str) -> str:
    lacks = [words for key, words in _LACKS.items() if key in message]
    if "persistentvolumeclaim" in message:
        return "Your volume is not there yet; the server waits for it"
    if not lacks:
        return f"No machine takes the server yet: {_shown(message)}"
    return f"The server waits: the machine {' and '.join(lacks)}"


def _unmounted(message: str) -> str:
    if CSI_DRIVER in message or "gpucommons-slice" in message:
        if "not found in the list of registered" in message:
            return "The slice is not ready: the machine's node agent does not run yet"
        return "The slice is not ready on its machine yet"
    if "Multi-Attach" in message:
        return "Your volume is still in use on another machine: stop the server that uses it"
    return f"A volume cannot be mounted yet: {_shown(message)}"


def _unmade_container(container: Mapping[str, Any]) -> str | None:
    """Why the runtime could not make it, now or at its last try."""
    now, before = container.get("state") or {}, container.get("lastState") or {}
    tries = (now.get("waiting"), now.get("terminated"), before.get("terminated"))
    messages = (
        str(one.get("message") or "")
        for one in tries
        if one and one.get("reason") in ("CreateContainerError", "StartError")
    )
    return next(filter(None, map(_unmade, messages)), None)


def _unmade(message: str) -> str | None:
    return next((sentence for words, sentence in _UNMADE if words in message), None)


def _failed(message: str, image: str) -> str:
    unmade = _unmade(message)
    if unmade is not None:
        return unmade
    if "pull" in message or "image" in message.lower():
        return f"The image{image} cannot be loaded, Kubernetes tries again: {_shown(message)}"
    if "restarting failed container" in message:
        return "The server ended at once and is started again; its log says why"
    return f"The server cannot be started yet: {_shown(message)}"


def _unpulled(image: str, message: str) -> str:
    why = f" ({_shown(message)})" if message else ""
    return f"The image{image} cannot be loaded{why}. Choose another, or tell your admin."


def _image(message: str) -> str:
    found = _QUOTED.search(message)
    return f" {found[1]}" if found else ""


def _message(body: str | bytes | None) -> str:
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        found = json.loads(text)
    except ValueError:
        return text or "no reason is given"
    return str(found.get("message") or text) if isinstance(found, dict) else text


def _shown(message: str) -> str:
    text = " ".join(message.split()).rstrip(".")
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

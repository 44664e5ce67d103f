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
from typing import Any, NamedTuple

from gpucommons.gpu.hibernation.containers import DEVICE_LACKING
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER

_SHOWN_CHARACTERS = 400
_QUOTED = re.compile(r'image "([^"]+)"')
#: Why nodes take no pod, in the scheduler's words, and in ours: of one machine, of several.
_LACKS = {
    "Insufficient cpu": ("has no CPU left", "have no CPU left"),
    "Insufficient memory": ("has no memory left", "have no memory left"),
    "Insufficient nvidia.com/gpu": (
        "has no GPU left for the device plugin to give",
        "have no GPU left for the device plugin to give",
    ),
    "Insufficient gpucommons.io/hibernate": (
        "no longer offers to save kernels: stop this start, and start again",
        "do not offer to save kernels",
    ),
    "untolerated taint": ("accepts no pods at the moment", "accept no pods at the moment"),
    "unschedulable": ("is closed for new pods", "are closed for new pods"),
    "Too many pods": ("runs as many pods as it may", "run as many pods as they may"),
    "volume node affinity conflict": (
        "cannot reach your volume, which is tied to another one",
        "cannot reach your volume, which is tied to another one",
    ),
    "exceed max volume count": (
        "has as many volumes as it can take",
        "have as many volumes as they can take",
    ),
}
_OTHER_MACHINE = "didn't match Pod's node affinity"
_OF_NODES = re.compile(r"\b0/(\d+) nodes are available")
#: How events begin that are about the image and nothing else.
_OF_IMAGE = re.compile(
    r"(?:Failed to (?:pull|inspect) image|Failed to apply default image tag|Back-off pulling image)\b"
    r"|Error: (?:ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|ImageInspectError"
    r"|RegistryUnavailable|SignatureValidationFailed)\b"
)
_OF_RESTART = "Back-off restarting failed container"
#: Why a container cannot be made, which its runtime says in its own words.
_UNMADE = (
    (
        re.compile("MOUNT_ATTR_IDMAP"),
        "The server cannot be started: the file system of one of its volumes knows no users of a pod's"
        " own (hostUsers: false). Tell your admin",
    ),
    (
        re.compile("cannot load seccomp profile"),
        "The server cannot be started: its machine lacks the filter of system calls that it asks for."
        " Try again, or tell your admin",
    ),
    (
        DEVICE_LACKING,
        "The server cannot be started: its machine lacks the device by which its kernels are saved. Try"
        " again, or tell your admin",
    ),
)
#: Reasons for which a container waits that no waiting mends.
_FOR_GOOD = {"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
_UNPULLED = {"ErrImagePull", "ImagePullBackOff"}


class Stuck(NamedTuple):
    """Why a pod does not start."""

    sentence: str
    #: No waiting mends it; else it may mend within minutes.
    for_good: bool


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
        return _failed(reason, message, image)
    return _shown(message) or reason


def stuck(pod: Mapping[str, Any]) -> Stuck | None:
    """Why a pod does not start; None while it is on its way."""
    status = pod.get("status") or {}
    both = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    unmade = next(filter(None, map(_unmade_container, both)), None)
    if unmade is not None:
        return Stuck(f"{unmade}.", for_good=False)
    if status.get("phase") == "Failed":
        why = _shown(str(status.get("message") or status.get("reason") or "no reason is given"))
        refused = f"The machine refused the server: {why}. Try again, or tell your admin."
        return Stuck(refused, for_good=True)
    for container in both:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
        image = f" {container.get('image', '')}".rstrip()
        if reason in _UNPULLED:
            return Stuck(_unpulled(image, message), for_good=False)
        if reason in _FOR_GOOD:
            words = "cannot be used" if "Image" in reason else "cannot be started"
            unusable = f"The image{image} {words}: {_shown(message)}. Tell your admin."
            return Stuck(unusable, for_good=True)
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
    if "persistentvolumeclaim" in message:
        return "Your volume is not there yet; the server waits for it"
    found = _OF_NODES.search(message)
    machines = int(found[1]) if found else 1
    counts = {key: _counted(key, message) for key in _LACKS if key in message}
    others = _counted(_OTHER_MACHINE, message)
    if not counts and not others:
        return f"No machine takes the server yet: {_shown(message)}"
    if not counts:
        return (
            "The server waits: its machine is not there or does not carry the labels that are asked"
        )
    if machines - others <= 1:
        return f"The server waits: its machine {' and '.join(_LACKS[key][0] for key in counts)}"
    # A machine may lack several things, and is counted for each.
    lacks = [f"{count} {_LACKS[key][count != 1]}" for key, count in counts.items()]
    of = f"{machines - others} machines" + (" with the labels that are asked" if others else "")
    return f"The server waits: of {of} {', '.join(lacks)}"


def _counted(key: str, message: str) -> int:
    """Of how many nodes the scheduler says this."""
    told = message.split(" preemption:", maxsplit=1)[0]
    return sum(map(int, re.findall(rf"(\d+) [^,:]*?{re.escape(key)}", told)))


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
    return next((sentence for words, sentence in _UNMADE if words.search(message)), None)


def _failed(reason: str, message: str, image: str) -> str:
    if reason in {"InspectFailed", "ErrImageNeverPull"} or _OF_IMAGE.match(message):
        return f"The image{image} cannot be loaded, Kubernetes tries again: {_shown(message)}"
    if reason == "BackOff" and message.startswith(_OF_RESTART):
        return "The server ended at once and is started again; its log says why"
    return _unmade(message) or f"The server cannot be started yet: {_shown(message)}"


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

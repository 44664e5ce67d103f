"""A notebook's pod that can save its kernels before it ends, whoever ends it. Pure.

Its node gives it a ``/proc`` without covers, through which root could change the node. So only a pod
that is root nowhere asks for it; any other keeps variables, as on a node that offers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucommons.gpu.hibernation.containers import PROFILE, RESOURCE

#: A slow disk writes so much in a second.
_BYTES_PER_S = 200 << 20
#: Besides: the server's own end, variables of what could not be saved, the word to the scheduler.
_REST_S = 20
#: For a pod whose memory nobody limits.
_UNLIMITED_S = 120


def grace_seconds(memory_bytes: int | None, most_seconds: int) -> int:
    """From the word to end until the pod is killed: so that all of its memory can be written."""
    wanted = -(-memory_bytes // _BYTES_PER_S) + _REST_S if memory_bytes else _UNLIMITED_S
    return max(_REST_S, min(wanted, most_seconds))


def obstacle(spec: Mapping[str, Any], notebook: Mapping[str, Any]) -> str | None:
    """Why this pod may not ask for it, in a sentence for the admin."""
    if spec.get("hostPID") or spec.get("shareProcessNamespace"):
        return "its containers see each other's processes (hostPID, shareProcessNamespace)"
    own = notebook.get("securityContext") or {}
    capabilities = own.get("capabilities") or {}
    of_pod = spec.get("securityContext") or {}
    if own.get("privileged") or not own.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
        return "its container may be root (runAsNonRoot is not set)"
    if own.get("allowPrivilegeEscalation") is not False:
        return "its container may become root (allowPrivilegeEscalation is not false)"
    if "ALL" not in (capabilities.get("drop") or ()) or capabilities.get("add"):
        return "its container has capabilities (drop ALL, add none)"
    return None


def allow(spec: dict[str, Any], notebook: dict[str, Any], within_s: int) -> dict[str, str]:
    """Let the pod save its kernels within this time; the variables that tell its server."""
    resources = notebook.setdefault("resources", {})
    resources["limits"] = {**(resources.get("limits") or {}), RESOURCE: "1"}
    profile = {"type": "Localhost", "localhostProfile": PROFILE}
    own = notebook.get("securityContext") or {}
    notebook["securityContext"] = {**own, "seccompProfile": profile}
    spec["terminationGracePeriodSeconds"] = within_s
    return {"GPUCOMMONS_STOP_SECONDS": str(within_s), "GPUCOMMONS_STOP_ENDS_KERNELS": "1"}


def saves_within_s(pod: Mapping[str, Any] | None) -> int:
    """How long a pod that runs may take to save its kernels; 0 = it cannot."""
    spec = (pod or {}).get("spec") or {}
    asks = any(
        RESOURCE in ((one.get("resources") or {}).get("limits") or {})
        for one in spec.get("containers") or ()
    )
    return int(spec.get("terminationGracePeriodSeconds") or 0) if asks else 0

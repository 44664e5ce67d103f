"""What every pod of ours may not: become root, speak to the API, or ask more than PodSecurity `restricted` allows."""

from __future__ import annotations

from typing import Any


def restricted_pod(*, user: int, group: int) -> dict[str, Any]:
    """Fields of a pod's spec; each call makes its own, which others may add to."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": group,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def restricted_container() -> dict[str, Any]:
    """The security context of each of its containers."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

"""GPUs that a pod asks for, whatever they are called. Pure.

Whoever may edit a TrainJob, its runtime or its pods says what they ask for. So that is looked at twice:
when it is handed in, and in each pod before it goes on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.kubernetes.objects.quantities import asked_of

Document = Mapping[str, Any]

#: Names of GPUs and of parts of them, whoever makes them; pools may name others.
_GPU = re.compile(r"^nvidia\.com/mig-|/.*gpu|gpu.*/")
_CLAIMS = "resourceClaims"


def devices_of(pod: Document, resources: Collection[str]) -> dict[str, int]:
    """GPUs that a pod asks for, by resource: of these names, and of all that are known to be GPUs."""
    found = {
        name: -(-amount // 1)
        for name, amount in asked_of(pod).items()
        if amount and (name in resources or _GPU.search(name))
    }
    claims = len(pod.get(_CLAIMS) or ())
    return {name: int(amount) for name, amount in found.items()} | (
        {_CLAIMS: claims} if claims else {}
    )


def check_devices(
    pod: str, devices: Mapping[str, int], resources: Collection[str], most: int
) -> None:
    """Refuse to send a pod on its way that asks for more GPUs than are its worker's.

    Raises
    ------
    BadRequest
        With what it asks for. Whoever may edit its TrainJob, its runtime or pods can bring that about.
    """
    if set(devices) <= set(resources) and sum(devices.values()) <= most:
        return
    told = ", ".join(f"{count} {name}" for name, count in sorted(devices.items()))
    message = (
        f"The pod {pod} asks for {told}, and {most} GPUs were admitted for it: it is not started."
    )
    raise BadRequest(message)

"""What a pod refers to and what goes with it, for example the claim on its device.

It is made after the pod, which waits for it, because only then has it an owner to go with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubespawner.clients import shared_client

from gpucommons.spawner.pods.pod import Pod


async def create_objects(
    namespace: str, objects: Sequence[Mapping[str, Any]], *, owner: Pod
) -> None:
    """Create each of them; Kubernetes deletes them with the pod."""
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    for manifest in objects:
        group, version = manifest["apiVersion"].split("/")
        metadata = {**manifest["metadata"], "ownerReferences": [reference]}
        await shared_client("CustomObjectsApi").create_namespaced_custom_object(
            group,
            version,
            namespace,
            f"{manifest['kind'].lower()}s",
            {**manifest, "metadata": metadata},
        )

"""Which image a notebook runs from, by its digest: what its node reported, and nobody chose.

Asked when a job is submitted from a notebook, of whichever replica is asked: the watches are open on
the leader alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.environments.images import ImageNotKnown, pinned
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import NOTEBOOK
from gpucommons.scheduler.executors.kubernetes.objects import names

_LOG = logging.getLogger(__name__)

Document = Mapping[str, Any]

#: Of one user; a hub allows far fewer servers.
_MOST = 100


class NotebookImages:
    """Images of notebooks in the hub's namespace: elsewhere labels prove nothing."""

    def __init__(self, connection: Connection, hub_namespace: str | None) -> None:
        self._connection = connection
        self._namespace = hub_namespace

    def __call__(self, user: str, server: str) -> str:
        """See :data:`gpucommons.scheduler.environments.images.ImageOfNotebook`."""
        try:
            return image_of(self._pods(user), user, server)
        except ImageNotKnown as error:
            _LOG.info("the image of notebook %r of %s is not known: %s", server, user, error)
            raise

    def _pods(self, user: str) -> list[Document]:
        if self._namespace is None:
            raise ImageNotKnown("hub_namespace is not set")
        try:
            found = self._connection.get(
                f"/api/v1/namespaces/{self._namespace}/pods",
                labelSelector=f"{names.KIND}={NOTEBOOK},{names.USER}={_label_of(user)}",
                limit=_MOST,
            )
        except ApiError as error:
            raise ImageNotKnown(str(error)) from None
        pods: list[Document] = found["items"]
        return pods


def _label_of(user: str) -> str:
    """A user's name as the hub's spawner writes it into a label."""
    return names.slug(user) if "--" in user else names.label_value(user)


def image_of(pods: list[Document], user: str, server: str) -> str:
    """The image of one server's pod, as its status names it.

    Raises
    ------
    ImageNotKnown
        When none runs, or its image came from no registry.
    """
    for pod in pods:
        meta = pod["metadata"]
        notes = meta.get("annotations") or {}
        who = (notes.get(names.USER_NAME), notes.get(names.SERVER_NAME))
        if who == (user, server) and "deletionTimestamp" not in meta:
            image_id = _image_id(pod)
            if found := pinned(image_id):
                return found
            raise ImageNotKnown(f"its pod's imageID is {image_id!r}, no digest of a registry")
    raise ImageNotKnown("no pod of it runs")


def _image_id(pod: Document) -> str:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    # As its spawner finds it, where an admin named it otherwise.
    first = pod["spec"]["containers"][0]["name"]
    by_name = {one["name"]: str(one.get("imageID") or "") for one in containers}
    return by_name.get(NOTEBOOK, by_name.get(first, ""))

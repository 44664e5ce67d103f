"""Where the API server is and who we are: in a pod its service account, else a kubeconfig.

The client library is imported here alone, and only when a cluster is used: it takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.executors.kubernetes.api_server.forwarding import ForwardingConnection

_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


class LibraryCredentials:
    """The credentials that the client library found; it renews tokens from their files."""

    def __init__(self, configuration: Any) -> None:
        self._configuration = configuration

    def headers(self) -> Mapping[str, str]:
        """See :class:`.connection.Credentials`."""
        # The library's own name for it changed; the old one is its alias.
        token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"Authorization": token} if token else {}


def connect(*, kubeconfig: str | None = None, connections: int = 32) -> ForwardingConnection:
    """Connect to the cluster we run in, or to the one of a kubeconfig.

    Raises
    ------
    Unavailable
        When neither is there.
    """
    from kubernetes import client, config  # noqa: PLC0415 - takes seconds, and only clusters need it

    configuration = client.Configuration()
    try:
        if kubeconfig is None and os.environ.get(_IN_CLUSTER):
            config.load_incluster_config(  # type: ignore[no-untyped-call] # the library's
                client_configuration=configuration
            )
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call] # the library's
                config_file=kubeconfig, client_configuration=configuration, persist_config=False
            )
    except config.ConfigException as error:
        message = f"No cluster: {error} Run in a pod, or set KUBECONFIG."
        raise Unavailable(message) from error
    configuration.connection_pool_maxsize = connections
    pool = client.rest.RESTClientObject(configuration).pool_manager
    return ForwardingConnection(configuration, pool, LibraryCredentials(configuration))

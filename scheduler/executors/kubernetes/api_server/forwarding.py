"""One HTTP request to a pod through the API server, as ``kubectl port-forward`` reaches it.

The proxy of Services and pods drops the ``Authorization`` header, which is meant for the API server there.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

import urllib3

from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    ApiError,
    Connection,
    Credentials,
    Document,
)

_OK = 200
_ANSWERS_S = 10.0


class ForwardingConnection(Connection):
    """A connection that also reaches what listens in a pod."""

    def __init__(self, configuration: Any, pool: urllib3.PoolManager, who: Credentials) -> None:
        super().__init__(configuration.host, pool, who)
        self._configuration = configuration

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, headers: Mapping[str, str]
    ) -> Document:
        """Read one JSON document.

        Raises
        ------
        ApiError
            With the API server's reason where it refuses; without one where the pod does. Status 0 when
            nothing answers there.
        """
        forward = self._forward(namespace, pod, port)
        connection = http.client.HTTPConnection(pod, port, timeout=_ANSWERS_S)
        connection.sock = forward.socket(port)
        try:
            connection.sock.settimeout(_ANSWERS_S)
            connection.request("GET", path, headers=dict(headers))
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            message = f"nothing answers at port {port} of the pod {pod}: {error}"
            raise ApiError(0, "Unreachable", message) from error
        finally:
            connection.close()
            forward.close()
        if status != _OK:
            raise ApiError(status, "", f"the pod {pod} answered {status}")
        return _document(pod, data)

    def _forward(self, namespace: str, pod: str, port: int) -> Any:
        from kubernetes import client  # noqa: PLC0415 - takes seconds, and only clusters need it
        from kubernetes.stream import portforward  # noqa: PLC0415 - see above

        api = client.CoreV1Api(client.ApiClient(self._configuration))
        way = api.connect_get_namespaced_pod_portforward
        try:
            return portforward(way, pod, namespace, ports=str(port))
        except client.ApiException as error:
            # The library keeps the status of a refused WebSocket in its cause alone.
            status = getattr(error.__context__, "status_code", 0)
            message = f"port {port} of the pod {pod} cannot be reached: {error.reason}"
            raise ApiError(status, "NotForwarded", message) from error


def _document(pod: str, data: bytes) -> Document:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    message = f"what answers in the pod {pod} is no hub"
    raise ApiError(0, "NoHub", message)

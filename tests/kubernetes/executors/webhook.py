"""A mutating admission webhook that a test gives its own idea of how pods should be."""

import base64
import json
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import client

from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.certificates import Authority

#: From a pod as it is asked for to a JSON patch.
Change = Callable[[dict[str, Any]], list[dict[str, Any]]]
_HERE = "127.0.0.1"


@contextmanager
def changes_pods(
    api: client.ApiClient, namespace: str, folder: Path, change: Change
) -> Iterator[None]:
    """Every pod that is made in the namespace while the block runs is changed first.

    The webhook is served on this machine, where the API server of a cluster of ours runs as well.
    """
    authority = Authority(folder)
    identity = authority.issue("webhook", addresses=[_HERE])
    server = ThreadingHTTPServer((_HERE, 0), _handler(change))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    rules = client.AdmissionregistrationV1Api(api)
    name = f"changes-pods-{uuid.uuid4().hex[:8]}"
    rules.create_mutating_webhook_configuration(
        _configuration(name, namespace, server.server_port, authority.certificate)
    )
    try:
        wait_for(lambda: _is_in_force(client.CoreV1Api(api), namespace), "the webhook in force")
        yield
    finally:
        rules.delete_mutating_webhook_configuration(name)
        server.shutdown()
        server.server_close()
        serving.join()


def _handler(change: Change) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            pod = asked["object"]
            marks = {**(pod["metadata"].get("annotations") or {}), "tests/changed": "yes"}
            mark = {"op": "add", "path": "/metadata/annotations", "value": marks}
            patch = base64.b64encode(json.dumps([mark, *change(pod)]).encode()).decode()
            answer = {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch"}
            review = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {**answer, "patch": patch},
            }
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: what the cluster says is enough."""

    return Handler


def _configuration(name: str, namespace: str, port: int, authority: Path) -> dict[str, Any]:
    own = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    trusted = base64.b64encode(authority.read_bytes()).decode()
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "pods.tests.gpucommons.io",
                "clientConfig": {"url": f"https://{_HERE}:{port}/", "caBundle": trusted},
                "rules": [{**pods, "resources": ["pods"]}],
                "namespaceSelector": own,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 30,
            }
        ],
    }


def _is_in_force(core: client.CoreV1Api, namespace: str) -> bool:
    """API servers hear of a new webhook a moment later."""
    container = {"name": "worker", "image": "gpucommons.test/tools:1"}
    pod = {"metadata": {"generateName": "probe-"}, "spec": {"containers": [container]}}
    made = core.create_namespaced_pod(namespace, pod, dry_run="All")
    return "tests/changed" in (made.metadata.annotations or {})

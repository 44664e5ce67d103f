"""A pod in place of the hub's, for tests of the chart: it answers whose a token is, and what that may."""

import json

from gpucommons.scheduler.models.hub_scopes import SCOPES_OF_SERVICES
from tests.kubernetes.chart.chart_release import HUB, Release
from tests.kubernetes.kubectl import Kubectl

#: Tokens by file; whose each is, and what it may.
PLAYED_HUB = """
import http.server, json, os, pathlib
services, answers = json.loads(os.environ["SERVICES"]), {}
for file, model in services.items():
    answers["token " + pathlib.Path("/tokens", file).read_text()] = model

class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        model = answers.get(self.headers.get("Authorization"))
        if model and not self.path.endswith("/user"):
            model = {"name": self.path.rpartition("/")[2], "groups": []}
        body = json.dumps(model or {}).encode()
        self.send_response(200 if model else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("", 8081), Hub).serve_forever()
"""
FILES = ("scheduler", "culler", "spawner", "operator")


def play_hub(found: Release, node: str, image: str) -> None:
    """A pod that is found as Zero to JupyterHub's, with the tokens that the chart made for it."""
    labels = {"app": "jupyterhub", "component": "hub"}
    services = {
        file: {"kind": "service", "name": name, "scopes": scopes}
        for file, (name, scopes) in zip(FILES, SCOPES_OF_SERVICES.items(), strict=True)
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hub", "labels": labels},
        "spec": {
            "nodeName": node,
            # A first process that handles no SIGTERM does not get it: it would stay for all of its 30 s.
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "hub",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": ["python", "-u", "-c", PLAYED_HUB],
                    "env": [{"name": "SERVICES", "value": json.dumps(services)}],
                    "volumeMounts": [{"name": "tokens", "mountPath": "/tokens"}],
                }
            ],
            "volumes": [{"name": "tokens", "secret": {"secretName": "gpucommons-hub-tokens"}}],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hub"},
        "spec": {"selector": labels, "ports": [{"port": 8081}]},
    }
    there = Kubectl(found.kubeconfig, HUB)
    there.apply(pod, service)
    there("wait", "--for=condition=Ready", "pod/hub", "--timeout=180s")

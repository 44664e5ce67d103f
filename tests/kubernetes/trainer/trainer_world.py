"""A real scheduler and a real intake between a real API server and a played Trainer."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import yaml

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.models import JobView
from tests.harness.free_ports import free_port
from tests.kubernetes.kubectl import Kubectl
from tests.scheduler.adapters.trainer.fake_trainer import FakeTrainer

TOKEN = "intake-token"
PEOPLE = {
    TOKEN: {
        "kind": "service",
        "name": "gpucommons-operator",
        "scopes": ["custom:gpucommons:admin"],
    },
}


class Hub(BaseHTTPRequestHandler):
    """JupyterHub's API as far as tokens go."""

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("token ")
        model = PEOPLE.get(token) if self.path.endswith("/user") else None
        body = json.dumps(model or {"name": self.path.rpartition("/")[2], "groups": []}).encode()
        self.send_response(200 if model or not self.path.endswith("/user") else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        """Nobody reads it."""


class TrainerWorld:
    """One pool of simulated nodes, two teams with half of it each, one namespace for both."""

    def __init__(self, kubeconfig: Path, namespace: str, pool: str, folder: Path) -> None:
        self.kubectl = Kubectl(kubeconfig, namespace)
        self.namespace, self.pool, self.folder = namespace, pool, folder
        self._kubeconfig = kubeconfig
        self._port = free_port()
        self._hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=self._hub.serve_forever, daemon=True).start()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.played = [
            FakeTrainer(connect(kubeconfig=str(kubeconfig)), one)
            for one in (namespace, f"{namespace}-sent")
        ]
        self.state = folder / "state"
        self.state.mkdir()
        self._settings = self._write(
            "trainjob.yaml",
            {
                "namespaces": {namespace: {"teams": ["vision", "nlp"], "user": "ann"}},
                "pools": {pool: {}},
                "sent": {"namespace": f"{namespace}-sent", "any_image": True},
            },
        )
        quota = {pool: {"guaranteed_milli_gpu": 4000}}
        self._config = self._write(
            "config.yaml",
            {
                "pools": [
                    {
                        "name": pool,
                        "executor": "trainjob",
                        "notice_s": 0,
                        "grace_s": 1,
                        "min_run_s": 0,
                        "lend_after_s": 0,
                        "notebook_sizes": [],
                    }
                ],
                "teams": [
                    {"name": one, "members": ["ann", "root"], "quotas": quota}
                    for one in ("vision", "nlp")
                ],
            },
        )
        self.client = SchedulerClient(f"unix:{self.state / 'api.sock'}")

    def _write(self, name: str, document: object) -> Path:
        place = self.folder / name
        place.write_text(yaml.safe_dump(document))
        return place

    # --- processes ---------------------------------------------------------------------------

    def start_scheduler(self) -> None:
        """Run one, and wait until it has the nodes."""
        words = ["--state", self.state, "--api-port", self._port, "--config", self._config]
        words += ["--shared-account", "--home-template", self.folder / "homes/{username}"]
        self._run(
            "scheduler", "gpucommons.scheduler", *words, f"--executor=trainjob={self._settings}"
        )
        self.until(self._is_up, "the scheduler has nodes")

    def _is_up(self) -> bool:
        # One that is not there yet would leave a socket half made.
        with suppress(httpx.HTTPError):
            url = f"http://127.0.0.1:{self._port}/healthz"
            httpx.get(url, trust_env=False, verify=trusted_at(url))
            return self._has_nodes()
        return False

    def _has_nodes(self) -> bool:
        try:
            nodes = self.client.send(calls.nodes()).nodes
        except (SchedulerError, OSError):
            return False
        return len([one for one in nodes if one.pool == self.pool]) == 2

    def start_intake(self) -> None:
        """Run one."""
        url = f"http://127.0.0.1:{self._port}"
        module = "gpucommons.scheduler.adapters.trainer"
        self._run("intake", module, "--settings", self._settings, "--scheduler-url", url)

    def _run(self, name: str, module: str, *words: object) -> None:
        environ = {
            **os.environ,
            "KUBECONFIG": str(self._kubeconfig),
            "JUPYTERHUB_API_URL": f"http://127.0.0.1:{self._hub.server_port}/hub/api",
            "JUPYTERHUB_API_TOKEN": TOKEN,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, words)],
                env=environ,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """With SIGKILL."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait(30)

    def log(self, name: str) -> str:
        """What it said."""
        return (self.folder / f"{name}.log").read_text()[-6000:]

    def close(self) -> None:
        """End all."""
        for one in self.processes.values():
            one.terminate()
        for one in self.processes.values():
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
        for played in self.played:
            played.close()
        self._hub.shutdown()
        self._hub.server_close()
        self.client.close()

    # --- what people do and see ----------------------------------------------------------------

    def make(self, name: str, *, nodes: int = 1, gpus: int = 1, **more: Any) -> None:
        """Make a TrainJob as its users do: it says nothing of us."""
        self.kubectl(
            "create", "-f", "-", stdin=yaml.safe_dump(a_trainjob(name, nodes, gpus, **more))
        )

    def trainjob(self, name: str) -> dict[str, Any]:
        return self.kubectl.get("trainjob", name)

    def note(self, name: str, key: str) -> str:
        """One of our annotations."""
        notes = self.trainjob(name)["metadata"].get("annotations") or {}
        return str(notes.get(f"gpucommons.io/{key}", ""))

    def job(self, name: str) -> JobView:
        """The job that stands for a TrainJob now."""
        job_id = self.until(lambda: self.note(name, "job"), f"{name} is handed in")
        return self.client.send(calls.job(job_id))

    def pods(self, name: str, namespace: str = "") -> list[dict[str, Any]]:
        """Pods of a TrainJob that are not on their way out."""
        where = Kubectl(self._kubeconfig, namespace) if namespace else self.kubectl
        found = where.get("pods", "-l", f"jobset.sigs.k8s.io/jobset-name={name}")["items"]
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def is_running(self, name: str, workers: int) -> bool:
        """All of its pods run, and its job does."""
        phases = [one.get("status", {}).get("phase") for one in self.pods(name)]
        return phases == ["Running"] * workers and self.job(name).state == "running"

    def end_pods(self, name: str, how: str = "Succeeded", namespace: str = "") -> None:
        """Let its pods end by themselves."""
        where = Kubectl(self._kubeconfig, namespace) if namespace else self.kubectl
        for one in self.pods(name, namespace):
            where("annotate", "pod", one["metadata"]["name"], f"tests.gpucommons.io/ends={how}")

    def until(self, question: Callable[[], Any], what: str, seconds: float = 90.0) -> Any:
        """Ask until the answer is true; what was said meanwhile goes with the failure."""
        deadline = time.monotonic() + seconds
        while not (answer := question()):
            if time.monotonic() > deadline:
                said = "\n".join(self.log(name) for name in self.processes)
                message = f"{what}: not within {seconds:g} s\n{said}"
                raise TimeoutError(message)
            time.sleep(0.3)
        return answer


def a_trainjob(name: str, nodes: int, gpus: int, **more: Any) -> dict[str, Any]:
    """A TrainJob of the runtime that Trainer ships."""
    labels = more.pop("labels", {})
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    trainer = {
        "numNodes": nodes,
        "command": ["torchrun", "train.py"],
        "resourcesPerNode": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "labels": labels},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **more},
    }

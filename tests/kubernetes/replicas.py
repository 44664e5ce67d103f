"""Several real schedulers on one PostgreSQL and one Lease, as a Deployment would run them."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import SchedulerError
from tests.harness.free_ports import free_port

#: Makes a process's wall clock wrong by SKEW_S seconds.
SKEW = """
import os, time
_by = float(os.environ.get("SKEW_S", "0"))
if _by:
    _time, _time_ns = time.time, time.time_ns
    time.time = lambda: _time() + _by
    time.time_ns = lambda: _time_ns() + int(_by * 1e9)
"""
_COMMAND = "import sys; from gpucommons.scheduler.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass
class Replica:
    """One scheduler process."""

    name: str
    process: subprocess.Popen[bytes]
    state: Path
    port: int
    client: SchedulerClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = SchedulerClient(f"unix:{self.state / 'api.sock'}")

    def log(self) -> str:
        return (self.state / "log").read_text()

    def answers(self) -> bool:
        with suppress(httpx.HTTPError):
            url = f"http://127.0.0.1:{self.port}/healthz"
            return httpx.get(url, trust_env=False, verify=trusted_at(url)).status_code == 200
        return False

    def job(self, ref: str) -> models.JobView:
        return self.client.send(calls.job(ref))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@dataclass
class Replicas:
    """What they share."""

    database: str
    lease: str
    kubeconfig: Path
    namespace: str
    pool: str
    node_labels: dict[str, str]
    folder: Path
    all: list[Replica] = field(default_factory=list)

    def start(
        self, name: str, *, skew_s: float = 0.0, code: Path | None = None, answers: bool = True
    ) -> Replica:
        """Start one, of the packages in another folder where that is named, and wait for its answer."""
        state = self.folder / name
        state.mkdir()
        port = free_port()
        words = ["--state", state, "--api-port", port, "--store-url", self.database]
        words += ["--kubernetes", self._settings(), "--config", self._config()]
        words += ["--leader-election", self.lease, "--replica", name]
        words += ["--replica-url", f"http://127.0.0.1:{port}"]
        words += ["--attempt-key-file", self._key(), "--storage", "s3://jobs/test"]
        (self.folder / "skew").mkdir(exist_ok=True)
        (self.folder / "skew" / "sitecustomize.py").write_text(SKEW)
        environ = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "PYTHONPATH": os.pathsep.join(map(str, filter(None, (self.folder / "skew", code)))),
            "SKEW_S": str(skew_s),
            # Links are made of them; no pod of these tests follows one.
            "AWS_ACCESS_KEY_ID": "replicas",
            "AWS_SECRET_ACCESS_KEY": "replicas",
            "AWS_REGION": "none",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        }
        with (state / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gpucommons.scheduler", *map(str, words)],
                env=environ,
                stdout=log,
                stderr=log,
            )
        replica = Replica(name, process, state, port)
        self.all.append(replica)
        if answers:
            wait_for(replica.answers, f"{name} answers", replica, seconds=240)
        return replica

    def gpucommons(self, *words: object, code: Path) -> None:
        """The command line of the packages in another folder."""
        subprocess.run(
            [sys.executable, "-c", _COMMAND, *map(str, words)],
            env={**os.environ, "PYTHONPATH": str(code)},
            check=True,
        )

    def _key(self) -> Path:
        place = self.folder / "attempt-key"
        if not place.exists():
            place.write_bytes(secrets.token_bytes(32))
        return place

    def _settings(self) -> Path:
        pool = {"selector": self.node_labels}
        return self._yaml(
            "kubernetes.yaml",
            {
                "instance": self.namespace,
                "namespace": self.namespace,
                "system_namespace": self.namespace,
                "environments": {"": "gpucommons.test/tools:1"},
                "pools": {self.pool: pool},
            },
        )

    def _config(self) -> Path:
        team = {
            "name": "vision",
            "members": ["root"],
            "quotas": {self.pool: {"guaranteed_milli_gpu": 3000, "fixed_milli_gpu": 1000}},
        }
        pool = {"name": self.pool, "executor": "kubernetes", "notice_s": 0, "grace_s": 1}
        return self._yaml("config.yaml", {"pools": [pool], "teams": [team]})

    def _yaml(self, name: str, document: Any) -> Path:
        place = self.folder / name
        place.write_text(yaml.safe_dump(document))
        return place

    def leader(self) -> Replica | None:
        """Who says so itself, and not too many of them."""
        leads = [one for one in self.all if _leads(one)]
        return leads[0] if len(leads) == 1 else None

    def stop(self) -> None:
        for one in self.all:
            one.client.close()
            if one.process.poll() is None:
                one.signal(signal.SIGCONT)
                one.process.kill()
            one.process.wait()


def _leads(replica: Replica) -> bool:
    """By its log: elected last, and not stepped down since."""
    text = replica.log()
    return replica.process.poll() is None and text.rfind("leads from epoch") > max(
        text.rfind("follows from now on"), text.rfind("stops writing"), text.rfind("does not lead")
    )


@contextmanager
def replicas_of(
    *, database: str, kubeconfig: Path, namespace: str, node_labels: dict[str, str]
) -> Iterator[Replicas]:
    """No replica yet; all are ended at the end."""
    # A short path: unix sockets lie below it.
    with tempfile.TemporaryDirectory(prefix="gc") as folder:
        shared = Replicas(
            database=database,
            lease=f"{namespace}/gpucommons-scheduler",
            kubeconfig=kubeconfig,
            namespace=namespace,
            pool="train",
            node_labels=node_labels,
            folder=Path(folder),
        )
        try:
            yield shared
        finally:
            shared.stop()


def submit(through: Replica, name: str = "digits", *, gpus: int = 1) -> str:
    """A job that asks for so many GPUs; its name. Tried again as a client would."""
    role = models.RoleRequest(
        command=["sleep", "600"], milli_gpu=gpus * 1000, cpu_milli=10, memory_mib=16
    )
    request = models.JobRequest(name=name, roles=[role], max_restarts=0)
    key = secrets.token_hex(8)
    found: list[str] = []

    def tried() -> bool:
        with suppress(SchedulerError):
            found.append(through.client.send(calls.submit(request, key=key)).name)
        return bool(found)

    wait_for(tried, "a submit was taken", through)
    return found[0]


def wait_for(
    condition: Callable[[], bool], what: str, *witnesses: Replica, seconds: float = 120
) -> float:
    """Until it is so; returns after how many seconds."""
    began_s = time.monotonic()
    while not condition():
        if time.monotonic() > began_s + seconds:
            logs = "\n".join(f"--- {one.name}\n{one.log()[-3000:]}" for one in witnesses)
            raise AssertionError(f"not within {seconds} s: {what}\n{logs}")
        time.sleep(0.05)  # other processes
    return time.monotonic() - began_s

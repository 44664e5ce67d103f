"""A scheduler at a real address and the pods of one job, as plain processes."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from service_world import ServiceWorld, a_request, an_app, attempt_token

from gpucommons.scheduler import models
from gpucommons.scheduler.file_storage.bucket import BucketStorage
from gpucommons.scheduler.in_pod.worker import Api
from gpucommons.scheduler.service.jobs import jobs


@dataclass
class Cluster:
    """One scheduler at a real address, a bucket at another, and a job's attempt."""

    world: ServiceWorld
    storage: BucketStorage
    url: str
    attempt_id: str = ""

    def submit(self, **changes: object) -> models.JobView:
        ann = self.world.principal("ann")
        submitted = jobs.submit(self.world.service, ann, a_request(**changes), key=None)
        self.world.pass_time(1000)
        view = jobs.job(self.world.service, ann, submitted.name)
        self.attempt_id = view.attempts[-1].id
        return view

    def environ(self, root: Path) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "GPUCOMMONS_URL": self.url,
            "GPUCOMMONS_TOKEN": attempt_token(self.attempt_id),
            "GPUCOMMONS_ATTEMPT_DIR": str(root / "attempt"),
            "GPUCOMMONS_WORK_DIR": str(root / "work"),
            "GPUCOMMONS_NOTICE_FILE": str(root / "notice" / "notice.json"),
            "GPUCOMMONS_STORAGE": "links",
        }

    def api(self) -> Api:
        return Api(self.url, attempt_token(self.attempt_id), patience_s=20)

    def run(self, root: Path, code: str) -> subprocess.Popen[str]:
        """A pod's main container."""
        worker = root / "bin" / "worker"
        words = [sys.executable, "-I", str(worker), "--working-dir", "src", "--"]
        return subprocess.Popen(
            [*words, sys.executable, "-c", code],
            env=self.environ(root),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def served(world: ServiceWorld, port: int = 0) -> Iterator[int]:
    """The API over a world, at a real port."""
    # What a pod that is gone still waits for is not waited for: a long poll takes 25 s.
    config = uvicorn.Config(
        an_app(world),
        port=port,
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=0,
    )
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", port))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def a_tar(*members: tarfile.TarInfo, content: bytes = b"42") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return stream.getvalue()


def uploaded(cluster: Cluster, content: bytes) -> str:
    return cluster.world.bring(content)


def results_of(cluster: Cluster, name: str) -> dict[str, bytes]:
    response = httpx.get(
        f"{cluster.url}/v1/jobs/{name}/results",
        headers={"Authorization": "token ann-token"},
        trust_env=False,
    )
    assert response.status_code == 200, response.text
    with tarfile.open(fileobj=io.BytesIO(response.content)) as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in found.items() if file is not None}

"""A job's files in real pods, on a volume that scheduler and pods mount: prepared, kept, resumed."""

from __future__ import annotations

import io
import os
import shutil
import socket
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from kubernetes import client
from service_world import ServiceWorld, a_request, an_app, attempt_token, done

from gpucommons.scheduler.core.model.types import Attempt, Workload, WorkloadId
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace, plan_pod
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from gpucommons.scheduler.service.jobs import jobs
from tests.kubernetes.attempts_api import gateway
from tests.kubernetes.pods import RESTRICTED, Pods, make_volume

USER = 1000
SAVE = """
import pathlib
from gpucommons.scheduler import training
run = training.current()
assert run.resume_step() == 0
print("data", pathlib.Path("data.txt").read_text())
with run.checkpoint(step=7) as folder:
    (folder / "model").write_text("weights")
"""
RESUME = """
import os, pathlib
from gpucommons.scheduler import training
run = training.current()
print("from", run.resume_step(), (run.resume_dir / "model").read_text())
try:
    (run.resume_dir / "model").write_text("altered")
except OSError as error:
    print("read-only:", error.strerror)
seen = sorted(str(p) for p in pathlib.Path("/gpucommons/attempt/..").rglob("theirs"))
print("others' files:", seen)
(run.results_dir / "model").write_text("better weights")
(run.results_dir / "passwd").symlink_to("/etc/passwd")
(run.results_dir / "others").symlink_to("/gpucommons/attempt/../../..")
os.mkfifo(run.results_dir / "pipe")
"""


@dataclass
class Site:
    """A scheduler at an address that pods reach, a volume, and a namespace for the pods."""

    world: ServiceWorld
    root: Path
    url: str
    api: client.ApiClient
    namespace: str
    image: str
    node: str

    def launch(self) -> Launch:
        """The job's current attempt."""
        view = jobs.job(self.world.service, self.world.principal("ann"), "digits-1")
        workload: Workload = self.world.cluster.workloads[WorkloadId(view.id)]
        attempt = workload.current
        assert attempt is not None
        self._ready(workload, attempt)
        return Launch(workload=workload, attempt=attempt, token_of=attempt_token, api_url=self.url)

    def _ready(self, workload: Workload, attempt: Attempt) -> None:
        self.world.service.files["fake"].ready(workload, attempt)

    def run(self, code: str) -> str:
        """A pod of the attempt, as the executor would make it; what it printed."""
        launch = self.launch()
        env = [
            {"name": "GPUCOMMONS_URL", "value": launch.api_url},
            {"name": "GPUCOMMONS_TOKEN", "value": launch.token},
        ]
        place = PodPlace(
            image=self.image, image_pull_policy="Never", storage="volume", claim="jobs"
        )
        plan = plan_pod(launch, place, env=env)
        prepare: dict[str, Any] = {**plan.init_container}
        prepare["securityContext"] = {**RESTRICTED, **prepare["securityContext"]}
        pods = Pods(client.CoreV1Api(self.api), self.namespace)
        name = f"worker-{launch.attempt.number}"
        pods.create(
            name,
            plan.command(["python3", "-c", code]),
            image=self.image,
            node=self.node,
            mounts=plan.volume_mounts,
            env=[*env, *({"name": key, "value": value} for key, value in plan.env.items())],
            initContainers=[prepare],
            volumes=plan.volumes,
            securityContext={"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER},
        )
        return pods.output(name)


@pytest.fixture
def root() -> Iterator[Path]:
    """Like a volume whose group is the scheduler's: what is made in it belongs to that group."""
    folder = Path(tempfile.mkdtemp(prefix="gc-volume"))
    os.chown(folder, 0, USER)
    folder.chmod(0o2775)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def site(  # noqa: PLR0917 - pytest passes them by name
    api: client.ApiClient,
    restricted_namespace: str,
    real_node: str,
    python_image: str,
    root: Path,
    tmp_path: Path,
) -> Iterator[Site]:
    world = ServiceWorld(tmp_path, files=VolumeFiles(root=root))
    here = gateway(api, real_node)
    listening = socket.create_server((here, 0))
    url = f"http://{here}:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(an_app(world), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    volume = make_volume(api, restricted_namespace, "jobs", root)
    try:
        yield Site(world, root, url, api, restricted_namespace, python_image, real_node)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        client.CoreV1Api(api).delete_persistent_volume(volume)


def a_snapshot(world: ServiceWorld) -> str:

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("data.txt")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"42"))
    return world.bring(stream.getvalue())


def test_a_job_is_resumed_from_the_shared_volume_and_sees_nobody_elses_files(site: Site) -> None:
    world, ann = site.world, site.world.principal("ann")
    theirs = site.root / "attempts" / "somebody-else"
    theirs.mkdir(parents=True)
    (theirs / "theirs").write_text("secret")
    world.script = Script(run_ms=None)
    request = a_request(snapshot=a_snapshot(world))
    jobs.submit(world.service, ann, request, key=None)
    world.pass_time(1000)
    assert "data 42" in site.run(SAVE)
    checkpoint = jobs.job(world.service, ann, "digits-1").checkpoint
    assert checkpoint is not None
    assert checkpoint.step == 7

    done(jobs.pause(world.service, ann, "digits-1"))
    world.pass_time(60_000)
    world.script = Script(run_ms=1000)
    done(jobs.resume(world.service, ann, "digits-1"))
    world.pass_time(100)
    said = site.run(RESUME)
    assert "from 7 weights" in said
    assert "read-only: Read-only file system" in said
    assert "others' files: []" in said
    world.pass_time(5000)
    answer = httpx.get(
        f"{site.url}/v1/jobs/digits-1/results",
        headers={"Authorization": "token ann-token"},
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert {member.name: member.isreg() for member in archive} == {"model": True}

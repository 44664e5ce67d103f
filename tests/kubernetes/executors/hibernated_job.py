"""A plain job on real nodes whose attempts lie on a volume, and an executor that is driven by hand."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cluster_objects import a_launch, an_attempt
from kubernetes import client

from gpucommons.scheduler.core.model.going_on import ProcessImage
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.state import AttemptEnded, AttemptStarted
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Millis,
    NodeId,
    PoolName,
    Stop,
)
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import PlannedFiles
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace
from gpucommons.scheduler.file_storage.volume_files import VolumeFiles
from tests.kubernetes.api import wait_for
from tests.kubernetes.attempts_api import AttemptsApi
from tests.kubernetes.node.real_node import REAL
from tests.kubernetes.pods import make_volume

Seen = TypeVar("Seen", AttemptStarted, AttemptEnded)

_USER, _GRACE_MS = 1000, 30_000
#: No line of ours, and nothing of its state on the volume.
_STEPS = """
import time
total = 0
for step in range(1, 100_000):
    total += step
    print("step", step, total, flush=True)
    time.sleep(0.05)
"""


class HibernatedJob:
    """One job, from attempt to attempt."""

    def __init__(
        self,
        api: client.ApiClient,
        kubeconfig: Path,
        namespace: str,
        image: str,
        attempts: AttemptsApi,
    ) -> None:
        self.core, self.attempts = client.CoreV1Api(api), attempts
        self._root = Path(tempfile.mkdtemp(prefix="gc-volume", dir="/tmp"))
        os.chown(self._root, 0, _USER)
        self._root.chmod(0o2775)
        self._namespace = namespace
        self._volume = make_volume(api, namespace, "jobs", self._root)
        self._pool = Pool(name=PoolName("cpu"), executor="kubernetes", grace_ms=_GRACE_MS)
        settings = KubernetesSettings(
            instance=f"tree-{uuid.uuid4().hex[:6]}",
            namespace=namespace,
            environments={"": image},
            own_image=image,
            image_pull_policy="Never",
            hibernation=True,
            vanished_hold_s=1,
            pools={"cpu": PoolPlace(selector={REAL: "true"})},
        )
        files = VolumeFiles(root=self._root)
        place = PodPlace(
            image=image,
            image_pull_policy="Never",
            storage="volume",
            claim="jobs",
            python="python3",
        )
        around = Around(
            pools=lambda: (self._pool,),
            pool_of_node=lambda _node: self._pool,
            files=PlannedFiles(
                place=place, make_ready=lambda one: files.ready(one.workload, one.attempt)
            ),
            logs=self._root / "logs",
        )
        connection = connect(kubeconfig=str(kubeconfig))
        self.executor = KubernetesExecutor(connection, settings, around)

    def close(self) -> None:
        """Nothing of it is left."""
        self.executor.adopt(())
        self.executor.close()
        self.core.delete_namespaced_persistent_volume_claim("jobs", self._namespace)
        self.core.delete_persistent_volume(self._volume)
        shutil.rmtree(self._root, ignore_errors=True)

    def start(self, node: str, before: tuple[Attempt, ...] = ()) -> Launch:
        """The next attempt, on this node; once it runs."""
        made = an_attempt(milli_gpu=0, attempt_id=str(uuid.uuid4()))
        placements = tuple(
            replace(one, node_id=NodeId(node), cpu_milli=100, memory_mib=512)
            for one in made.placements
        )
        attempt = replace(made, number=len(before) + 1, placements=placements)
        [role] = a_launch(attempt).workload.spec.roles
        command = ("python3", "-u", "-c", _STEPS)
        found = a_launch(attempt, roles=(replace(role, command=command),), pools=(PoolName("cpu"),))
        launch = replace(
            found,
            workload=replace(found.workload, attempts=(*before, attempt)),
            api_url=self.attempts.url,
            token_of=token_of,
        )
        wait_for(lambda: self._runs(launch), "the start of its pod", seconds=180)
        return launch

    def _runs(self, launch: Launch) -> bool:
        # Each cycle says again what is to be there.
        self.executor.start(launch)
        ended = self._seen(launch, AttemptEnded)
        assert ended is None, ended
        return self._seen(launch, AttemptStarted) is not None

    def _seen(self, launch: Launch, kind: type[Seen]) -> Seen | None:
        for one in self.executor.observe():
            if isinstance(one, kind) and one.attempt_id == launch.attempt.attempt_id:
                return one
        return None

    def pause(self, launch: Launch) -> None:
        """As its owner does it."""
        now = Millis(time.time_ns() // 1_000_000)
        stop = Stop(
            why="pause",
            text="Paused by ann",
            announced_ms=now,
            term_ms=now,
            kill_ms=Millis(now + _GRACE_MS),
            signalled=True,
            hibernates=True,
        )
        self.executor.signal(replace(launch.attempt, stop=stop), now_ms=now)

    def image(self, launch: Launch) -> ProcessImage:
        """What its end has left."""
        ended = wait_for(lambda: self._seen(launch, AttemptEnded), "its end", seconds=60)
        assert ended.image is not None, ended
        return ended.image

    def steps(self, launch: Launch, more_than: int = 0) -> list[int]:
        """What it has printed, once that is more than so many; each line adds up all steps before it."""

        def look() -> list[int] | None:
            chunk = self.executor.log(launch.attempt, rank=0, offset=0, limit_bytes=1 << 20)
            lines = [line.split() for line in chunk.lines if line.startswith("step ")]
            found = [(int(words[1]), int(words[2])) for words in lines]
            assert all(total == step * (step + 1) // 2 for step, total in found), found
            return [step for step, _ in found] if len(found) > more_than else None

        found: list[int] = wait_for(look, f"more than {more_than} steps", seconds=60)
        return found


def over(launch: Launch, image: ProcessImage) -> Attempt:
    """An attempt as the next one's launch has it."""
    return replace(
        launch.attempt,
        state=AttemptState.ENDED,
        started_ms=Millis(1),
        ended_ms=Millis(2),
        image=image,
    )


def token_of(attempt_id: str) -> str:
    """A token for tests."""
    return f"gct-{attempt_id}"

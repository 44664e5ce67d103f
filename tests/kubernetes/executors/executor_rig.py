"""The executor's contract on a real node: its pods are real processes there.

They are those of an installation without a storage; the rig stands for the rest of the scheduler.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from executor_rigs import Behaviour, before_it_runs
from kubernetes import client

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import Attempt, Millis, PoolName, Stop
from gpucommons.scheduler.executors.base import Executor, Launch
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import PlannedFiles
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PodAdditions
from tests.kubernetes.attempts_api import AttemptsApi

_PATIENCE_S = 120
#: A grace that a test can wait for: a kubelet does not shorten one that it has begun to give.
_POOL = Pool(name=PoolName("cpu"), executor="kubernetes", grace_ms=8_000)


class Announcing(KubernetesExecutor):
    """What it is told to announce stands in the scheduler's books by then, which its API reads."""

    api: AttemptsApi

    def announce(self, attempt: Attempt) -> None:
        """See the protocol."""
        self._say(attempt, attempt.stop)
        super().announce(attempt)

    def spare(self, attempt: Attempt) -> None:
        """See the protocol."""
        self._say(attempt, None)
        super().spare(attempt)

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol."""
        self._say(attempt, attempt.stop)
        super().signal(attempt, now_ms=now_ms)

    def _say(self, attempt: Attempt, stop: Stop | None) -> None:
        self.api.say(token_of(attempt.attempt_id), stop)


def token_of(attempt_id: str) -> str:
    """A token for tests."""
    return f"gca-{attempt_id}"


class KubernetesRig:
    """One real node, and the executor that works on it now."""

    def __init__(
        self,
        api: client.ApiClient,
        kubeconfig: Path,
        namespace: str,
        image: str,
        attempts: AttemptsApi,
        *,
        node: str,
    ) -> None:
        self.node = node
        self.api_url = attempts.url
        self._attempts = attempts
        self._api = api
        self._namespace = namespace
        # Shared with the node, whose own folders begin at /var.
        self._folder = Path(tempfile.mkdtemp(prefix="gc-contract", dir="/tmp"))
        self._folder.chmod(0o777)
        self._connection = connect(kubeconfig=str(kubeconfig))
        volume = {"name": "starts", "hostPath": {"path": str(self._folder)}}
        self._settings = KubernetesSettings(
            instance=f"contract-{uuid.uuid4().hex[:8]}",
            namespace=namespace,
            environments={"": image},
            own_image=image,
            vanished_hold_s=1,
            pod=PodAdditions(
                volumes=[volume],
                volume_mounts=[{"name": "starts", "mountPath": str(self._folder)}],
            ),
        )
        self.executor: Executor = self._boot()

    def _boot(self) -> KubernetesExecutor:
        around = Around(
            logs=self._folder / "logs",
            pool_of_node=lambda _node: _POOL,
            files=PlannedFiles(place=PodPlace(image=self._settings.own_image)),
        )
        made = Announcing(self._connection, self._settings, around)
        made.api = self._attempts
        return made

    def restart(self) -> None:
        """The scheduler dies and comes back."""
        self.executor.close()
        self.executor = self._boot()

    def python(self, before: str, lines: Sequence[str], exit_code: int | None) -> list[str]:
        """A command that does something first, counts its start, prints, and ends, or waits."""
        script = (
            f"import os, signal, sys, time; {before}"
            "d = os.environ['GPUCOMMONS_RANK'] + ' ' + os.environ['GPUCOMMONS_ATTEMPT_ID'];"
            f"f = os.open({str(self._folder / 'starts')!r},"
            " os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666);"
            "os.write(f, (d + chr(10)).encode());"
            f"[print(line, flush=True) for line in {tuple(lines)!r}];"
        )
        last = "time.sleep(600)" if exit_code is None else f"sys.exit({exit_code})"
        return ["python3", "-c", script + last]

    def now(self) -> Millis:
        """Real time."""
        return Millis(time.time_ns() // 1_000_000)

    def wait(self, ms: int) -> None:
        """Real processes need real time."""
        time.sleep(ms / 1000)

    def starts(self, launch: Launch) -> int:
        """How often its first worker began to run."""
        file = self._folder / "starts"
        found = file.read_text().splitlines() if file.exists() else []
        return found.count(f"0 {launch.attempt.attempt_id}")

    def clear(self) -> None:
        """Nobody knows anything: whatever still runs is ended."""
        self.restart()
        self.executor.adopt(())
        give_up_s = time.monotonic() + _PATIENCE_S
        while self._alive():
            assert time.monotonic() < give_up_s, "a pod that nobody knows still runs"
            time.sleep(0.1)
        self.executor.close()
        self._attempts.forget()
        shutil.rmtree(self._folder)

    def _alive(self) -> list[str]:
        pods = client.CoreV1Api(self._api).list_namespaced_pod(self._namespace).items
        return [p.metadata.name for p in pods if p.status.phase not in ("Succeeded", "Failed")]


class ContractRig(KubernetesRig):
    """What its workers do is what the executors' contract says."""

    def command(self, behaviour: Behaviour) -> tuple[str, ...]:
        if behaviour.no_such_command:
            return ("/nowhere/no-such-command",)
        does = self.python(before_it_runs(behaviour), behaviour.lines, behaviour.exit_code)
        return tuple(does)


def cluster_rig(request: pytest.FixtureRequest) -> ContractRig:
    """The tests' cluster with its one real node."""
    return ContractRig(
        request.getfixturevalue("api"),
        request.getfixturevalue("kubeconfig"),
        request.getfixturevalue("namespace"),
        request.getfixturevalue("python_image"),
        request.getfixturevalue("attempts_api"),
        node=request.getfixturevalue("real_node"),
    )

"""The pieces of a job's pod that bring its files and keep what it makes: pure.

Three ways: with object storage a pod has one folder of its own and gets links; with a shared volume
it mounts its own attempt's folder and, to resume, the earlier attempt's, read-only; with neither,
what it makes ends with it. No piece holds a credential.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpucommons.scheduler.curves.event_watch import TOKEN_FILE
from gpucommons.scheduler.curves.trainer_status import TRAINER_STATUS_PATH
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.objects.names import PYTHON
from gpucommons.scheduler.executors.kubernetes.objects.restricted import restricted_container
from gpucommons.scheduler.file_storage.job_files import attempt_folder
from gpucommons.scheduler.training.checkpoints import folder_name

ROOT = "/gpucommons"
_OWN_WORK, _KEPT_WORK = "work", "attempt/work"
WORK = f"{ROOT}/{_OWN_WORK}"
ATTEMPT = f"{ROOT}/attempt"
PREVIOUS = f"{ROOT}/previous"
NOTICE_FILE = f"{ROOT}/notice/notice.json"
_OWN, _SHARED = "gpucommons", "gpucommons-jobs"


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPlace:
    """How this installation keeps jobs' files."""

    #: Of the init container: the scheduler's own.
    image: str
    #: ``links`` with object storage, ``volume`` with a claim, ``none`` without either.
    storage: str = "none"
    #: The claim that pods mount, with ``volume``.
    claim: str | None = None
    image_pull_policy: str = "IfNotPresent"
    #: What the scheduler's image calls Python.
    python: str = "python3"
    size_limit: str | None = None
    resources: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        }
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPlan:
    """Pieces in the API's JSON form, for the executor to put into its pod template."""

    init_container: dict[str, Any]
    volumes: list[dict[str, Any]]
    volume_mounts: list[dict[str, Any]]
    env: dict[str, str]
    working_dir: str

    def command(self, words: Sequence[str]) -> list[str]:
        """The container's command for a worker's."""
        worker = [PYTHON, "-I", f"{ROOT}/bin/worker", "--working-dir", self.working_dir]
        return [*worker, "--", *words]


def plan_pod(launch: Launch, place: PodPlace, *, env: Sequence[Mapping[str, Any]] = ()) -> PodPlan:
    """The pieces for every pod of an attempt.

    ``env`` is what the init container is told besides: the executor's entries for
    ``GPUCOMMONS_URL`` and, from a Secret, ``GPUCOMMONS_TOKEN``.
    """
    own: dict[str, Any] = {"emptyDir": {}}
    if place.size_limit is not None:
        own["emptyDir"]["sizeLimit"] = place.size_limit
    volumes = [{"name": _OWN, **own}]
    mounts: list[dict[str, Any]] = [{"name": _OWN, "mountPath": ROOT}]
    if place.storage == "volume":
        volumes.append(
            {"name": _SHARED, "persistentVolumeClaim": {"claimName": place.claim or _SHARED}}
        )
        mounts += _volume_mounts(launch)
    return PodPlan(
        init_container=_init_container(place, mounts, env),
        volumes=volumes,
        volume_mounts=mounts,
        env=_environment(launch, place),
        working_dir=launch.workload.spec.working_dir,
    )


def _volume_mounts(launch: Launch) -> list[dict[str, Any]]:
    own = attempt_folder(launch.attempt.attempt_id)
    mounts: list[dict[str, Any]] = [{"name": _SHARED, "mountPath": ATTEMPT, "subPath": own}]
    resumed = launch.attempt.resumed_from
    if resumed is not None:
        # The whole attempt's folder, which no job can replace: a sub-path below it could be a link
        # that its job laid, and the kubelet follows links inside a volume.
        earlier = attempt_folder(resumed.attempt_id)
        mounts.append(
            {"name": _SHARED, "mountPath": PREVIOUS, "subPath": earlier, "readOnly": True}
        )
    return mounts


def _init_container(
    place: PodPlace, mounts: Sequence[dict[str, Any]], env: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "name": "gpucommons-prepare",
        "image": place.image,
        "imagePullPolicy": place.image_pull_policy,
        "command": [
            place.python,
            "-I",
            "-m",
            "gpucommons.scheduler.file_storage.prepare",
            "--root",
            ROOT,
            "--work",
            _work(place),
        ],
        # Never a GPU, whatever the image says.
        "env": [
            *(dict(entry) for entry in env),
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        ],
        "volumeMounts": [dict(mount) for mount in mounts],
        "resources": {name: dict(amounts) for name, amounts in place.resources.items()},
        "securityContext": {**restricted_container(), "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _work(place: PodPlace) -> str:
    """Where commands run, below the root: on a shared volume in the attempt's own folder."""
    return _KEPT_WORK if place.storage == "volume" else _OWN_WORK


def _environment(launch: Launch, place: PodPlace) -> dict[str, str]:
    env = {
        "KUBEFLOW_TRAINER_SERVER_URL": f"{launch.api_url}{TRAINER_STATUS_PATH}",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": f"{ROOT}/{TOKEN_FILE}",
        "GPUCOMMONS_ATTEMPT_DIR": ATTEMPT,
        "GPUCOMMONS_WORK_DIR": f"{ROOT}/{_work(place)}",
        "GPUCOMMONS_NOTICE_FILE": NOTICE_FILE,
        "GPUCOMMONS_STORAGE": place.storage,
        "GPUCOMMONS_CHECKPOINTS_KEPT": str(launch.workload.spec.checkpoints_kept),
        "GPUCOMMONS_EXIT_AFTER_SIGNAL": launch.workload.spec.exit_after_signal,
    }
    resumed = launch.attempt.resumed_from
    if resumed is not None and place.storage == "links":
        env["GPUCOMMONS_RESUME_DIR"] = f"{ROOT}/resume/{folder_name(resumed.path)}"
    elif resumed is not None and place.storage == "volume":
        env["GPUCOMMONS_RESUME_DIR"] = f"{PREVIOUS}/{resumed.path}"
    return env

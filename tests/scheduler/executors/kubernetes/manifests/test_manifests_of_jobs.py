"""What a launch becomes in the cluster: one Job, a Secret, and for several workers a Service."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from cluster_objects import ATTEMPT_ID, FILES, JOB, a_launch, an_attempt
from kubespawner.slugs import safe_slug
from published_schemas import validate

from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.manifests.homes import WithHome
from gpucommons.scheduler.executors.kubernetes.manifests.job_files import (
    JobFiles,
    PlannedFiles,
)
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import (
    LayOut,
    expected_of,
    lay_out,
)
from gpucommons.scheduler.executors.kubernetes.manifests.pod_files import PodPlace
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import (
    HomeVolume,
    KubernetesSettings,
    PodAdditions,
    PoolPlace,
)
from gpucommons.scheduler.in_pod import starting
from gpucommons.scheduler.launchers.worker_addresses import FIRST_PORT, LAST_PORT, ports_from

SETTINGS = KubernetesSettings(environments={"": "python:3", "torch": "torch:2"})
POOL = Pool(name=PoolName("train"), executor="kubernetes", gpu_kind="A100-40", grace_ms=12_300)
OWNER = {"metadata": {"name": JOB, "uid": "job-uid"}}
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount, not a file


def laid_out(
    launch: Launch, settings: KubernetesSettings = SETTINGS, files: JobFiles | None = None
) -> LayOut:
    return lay_out(launch, settings, POOL, files or FILES)


def the_job(launch: Launch, settings: KubernetesSettings = SETTINGS) -> dict[str, Any]:
    (job,) = laid_out(launch, settings).jobs
    return dict(job)


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def env_of(pod: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one for one in pod["containers"][0]["env"]}


def told_by(secret: Mapping[str, Any]) -> dict[str, str]:
    """What its workers find in their environment."""
    return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}


@pytest.mark.parametrize(
    "files",
    [FILES, PlannedFiles(place=PodPlace(image="ours", storage="volume", claim="jobs"))],
    ids=["no storage", "volume"],
)
@pytest.mark.parametrize("roles", [("worker",), ("worker", "worker"), ("chief", "worker")])
def test_everything_meets_the_published_schemas(files: JobFiles, roles: tuple[str, ...]) -> None:
    plan = laid_out(a_launch(an_attempt(*roles)), files=files)
    documents = [*plan.jobs, *(body for _, body in plan.owned(OWNER))]
    for document in documents:
        validate(document, "1.35", strict=True)
    assert len(documents) == len(set(roles)) + 1 + (len(roles) > 1)


def test_a_gang_is_one_indexed_job_that_never_replaces_a_pod() -> None:
    job = the_job(a_launch(an_attempt("worker", "worker", "worker")))
    spec = job["spec"]
    assert job["metadata"]["name"] == JOB
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (3, 3, "Indexed")
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_pods_wait_behind_the_gate_with_no_device_yet() -> None:
    template = the_job(a_launch())["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": "gpucommons.io/placement"}]
    assert template["metadata"]["annotations"] == {"gpucommons.io/devices": "void"}


def test_the_pools_grace_is_rounded_up_to_whole_seconds() -> None:
    assert pod_of(the_job(a_launch()))["terminationGracePeriodSeconds"] == 13


def test_above_every_command_stands_ours_with_or_without_a_storage() -> None:
    pod = pod_of(the_job(a_launch()))
    command = pod["containers"][0]["command"]
    assert command[:3] == ["python3", "-I", "/gpucommons/bin/worker"]
    assert command[command.index("--") :] == ["--", "python", "worker.py"]
    assert env_of(pod)["GPUCOMMONS_STORAGE"]["value"] == "none"


def test_it_fits_a_namespace_that_enforces_restricted() -> None:
    pod = pod_of(the_job(a_launch()))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_whole_gpus_come_from_the_device_plugin_which_alone_says_which() -> None:
    pod = pod_of(the_job(a_launch()))
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & env_of(pod).keys()


def test_a_fraction_reads_its_device_from_the_annotation_last_of_all() -> None:
    pod = pod_of(the_job(a_launch(an_attempt(milli_gpu=500))))
    assert "nvidia.com/gpu" not in pod["containers"][0]["resources"]["limits"]
    last = pod["containers"][0]["env"][-1]
    assert last["name"] == "NVIDIA_VISIBLE_DEVICES"
    path = last["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.annotations['gpucommons.io/devices']"


def test_in_a_pool_with_standing_reservations_whole_gpus_are_read_there_too() -> None:
    standing = KubernetesSettings(
        environments={"": "python:3"}, pools={"train": PoolPlace(reservations="standing")}
    )
    pod = pod_of(the_job(a_launch(), standing))
    assert "nvidia.com/gpu" not in pod["containers"][0]["resources"]["limits"]
    assert pod["containers"][0]["env"][-1]["name"] == "NVIDIA_VISIBLE_DEVICES"


def test_a_worker_without_a_gpu_sees_none() -> None:
    env = env_of(pod_of(the_job(a_launch(an_attempt(milli_gpu=0)))))
    assert env["NVIDIA_VISIBLE_DEVICES"] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    assert env["CUDA_VISIBLE_DEVICES"] == {"name": "CUDA_VISIBLE_DEVICES", "value": ""}


def test_a_spec_cannot_overrule_what_we_say() -> None:
    evil = {"NVIDIA_VISIBLE_DEVICES": "all", "GPUCOMMONS_RANK": "9", "MINE": "$(GPUCOMMONS_TOKEN)"}
    # These lie in the Secret, over which a variable of the container would win.
    evil |= {"GPUCOMMONS_URL": "http://evil", "MASTER_ADDR": "evil", "USER": "root"}
    env = env_of(pod_of(the_job(a_launch(an_attempt(milli_gpu=0), env=evil))))
    assert not {"GPUCOMMONS_URL", "MASTER_ADDR", "USER"} & env.keys()
    assert env["NVIDIA_VISIBLE_DEVICES"]["value"] == "void"
    assert "value" not in env["GPUCOMMONS_RANK"]
    assert env["MINE"]["value"] == "$$(GPUCOMMONS_TOKEN)"


@pytest.mark.parametrize("text", ["kill $$", "$(GPUCOMMONS_TOKEN)", "$$(X)", "$", "a$b$$$(C)"])
def test_words_and_values_reach_a_command_as_they_were_given(text: str) -> None:
    launch = a_launch(env={"MINE": text})
    roles = tuple(replace(role, command=("sh", "-c", text)) for role in launch.workload.spec.roles)
    spec = replace(launch.workload.spec, roles=roles)
    pod = pod_of(the_job(replace(launch, workload=replace(launch.workload, spec=spec))))
    assert expanded(pod["containers"][0]["command"][-1]) == text
    assert expanded(env_of(pod)["MINE"]["value"]) == text


def expanded(text: str) -> str:
    """What the kubelet makes of a text, with no variable that it knows."""
    found, at = "", 0
    while at < len(text):
        if text[at] == "$" and text[at + 1 : at + 2] == "$":
            found, at = found + "$", at + 2
        elif text[at] == "$" and (end := text.find(")", at)) > at and text[at + 1] == "(":
            message = f"{text[at : end + 1]} would be expanded"
            raise AssertionError(message)
        else:
            found, at = found + text[at], at + 1
    return found


def a_home(launch: Launch, *, read_only: bool = False) -> dict[str, Any]:
    """The pod of a job that sees its owner's home folder."""
    home = HomeVolume(read_only=read_only)
    no_api: Any = None
    files = WithHome(
        files_of_job=FILES,
        home=home,
        settings=SETTINGS,
        connection=no_api,
    )
    (job,) = laid_out(launch, files=files).jobs
    return pod_of(dict(job))


def test_what_prepares_a_pod_links_what_the_snapshot_left_out_and_only_reads_the_home() -> None:
    paths = ("data.bin", "-x", "$(GPUCOMMONS_TOKEN)")
    (prepare,) = a_home(a_launch(links=paths, links_from="project"))["initContainers"]
    words = [expanded(word) for word in prepare["command"]]
    assert words[-5:] == [
        "--home=/home/jovyan",
        "--below=project",
        *(f"--link={path}" for path in paths),
    ]
    (mount,) = [one for one in prepare["volumeMounts"] if one["mountPath"] == "/home/jovyan"]
    assert mount["readOnly"]


def test_what_prepares_a_pod_sees_no_home_where_nothing_is_linked() -> None:
    (prepare,) = a_home(a_launch())["initContainers"]
    assert not any("--link" in word for word in prepare["command"])
    assert "/home/jovyan" not in {one["mountPath"] for one in prepare["volumeMounts"]}


def test_init_containers_see_no_gpu_and_know_the_job() -> None:
    (job,) = laid_out(a_launch(an_attempt(milli_gpu=500))).jobs
    (first,) = job["spec"]["template"]["spec"]["initContainers"]
    env = {one["name"]: one for one in first["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"]["value"] == "void"
    assert first["envFrom"] == [{"secretRef": {"name": JOB}}]


def test_what_runs_before_a_job_is_told_nothing_by_the_jobs_user() -> None:
    settings = SETTINGS.model_copy(
        update={"pod": PodAdditions(env=({"name": "HTTPS_PROXY", "value": "http://proxy"},))}
    )
    launch = a_launch(
        env={
            "PYTHONPATH": "/gpucommons/evil",
            "LD_LIBRARY_PATH": "/x",
            "HTTPS_PROXY": "http://evil",
        },
        secrets={"PYTHONSTARTUP": "mine"},
    )
    (job,) = laid_out(launch, settings).jobs
    (first,) = pod_of(dict(job))["initContainers"]
    env = {one["name"]: one for one in first["env"]}
    assert not env.keys() & {"PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONSTARTUP", "OMP_NUM_THREADS"}
    assert env["HTTPS_PROXY"]["value"] == "http://proxy"
    assert env["GPUCOMMONS_ATTEMPT_DIR"]["value"]
    # Nor by the folder in which it happens to start.
    assert first["command"][1] == "-I"
    assert "PYTHONPATH" in env_of(pod_of(dict(job)))


def test_the_token_lies_in_a_secret_that_goes_with_the_job_and_nowhere_else() -> None:
    plan = laid_out(a_launch())
    assert "gca-token" not in json.dumps(plan.jobs)
    ((resource, secret),) = plan.owned(OWNER)
    assert resource == "secrets"
    assert told_by(secret)["GPUCOMMONS_TOKEN"] == "gca-token"
    pod = pod_of(dict(plan.jobs[0]))
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_secrets_of_the_user_are_named_and_never_read() -> None:
    env = env_of(pod_of(the_job(a_launch(secrets={"WANDB_KEY": "wandb"}))))
    ref = env["WANDB_KEY"]["valueFrom"]["secretKeyRef"]
    assert ref == {"name": "gpucommons-user-ada", "key": "wandb"}


def test_workers_meet_under_the_name_of_the_first() -> None:
    plan = laid_out(a_launch(an_attempt("worker", "worker")))
    pod = pod_of(dict(plan.jobs[0]))
    service = dict(plan.owned(OWNER))["services"]
    assert (
        told_by(dict(plan.owned(OWNER))["secrets"])["MASTER_ADDR"]
        == f"{JOB}-0.{JOB}.gpucommons-jobs.svc"
    )
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["clusterIP"] == "None"


def test_a_single_worker_needs_no_service() -> None:
    plan = laid_out(a_launch())
    ((resource, secret),) = plan.owned(OWNER)
    assert resource == "secrets"
    assert told_by(secret)["MASTER_ADDR"] == "127.0.0.1"


def test_torchrun_has_its_own_names_for_the_same() -> None:
    plan = laid_out(a_launch(an_attempt("worker", "worker"), launcher="torchrun"))
    told = told_by(dict(plan.owned(OWNER))["secrets"])
    environ = {starting.VARIABLE: told[starting.VARIABLE], "GPUCOMMONS_RANK": "1"}

    assert starting.read(environ, ["python", "worker.py"]) == ["python", "worker.py"]
    assert (environ["RANK"], environ["WORLD_SIZE"], environ["LOCAL_RANK"]) == ("1", "2", "0")
    assert starting.VARIABLE not in environ


def test_every_attempt_meets_at_ports_of_its_own() -> None:
    told = told_by(dict(laid_out(a_launch()).owned(OWNER))["secrets"])
    assert FIRST_PORT <= int(told["MASTER_PORT"]) < LAST_PORT
    assert list(ports_from("one"))[:3] != list(ports_from("another"))[:3]


def test_each_role_is_a_job_and_ranks_go_on_from_one_to_the_next() -> None:
    attempt = an_attempt("chief", "worker", "worker")
    chief, worker = laid_out(a_launch(attempt)).jobs
    assert [job["metadata"]["name"] for job in (chief, worker)] == [f"{JOB}-0", f"{JOB}-1"]
    assert (chief["spec"]["completions"], worker["spec"]["completions"]) == (1, 2)
    assert names.ranks_of(attempt, "worker") == (1, 2)
    assert chief["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "chief.py"


def test_an_unknown_environment_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadRequest, match=r"'jax'.*one of: torch"):
        laid_out(a_launch(environment="jax"))
    open_to_all = SETTINGS.model_copy(update={"any_image": True})
    assert laid_out(a_launch(environment="jax:1"), open_to_all).way.image == "jax:1"


def test_what_an_admin_adds_is_there_but_does_not_decide_about_gpus() -> None:
    more = PodAdditions(
        volumes=[{"name": "data", "emptyDir": {}}],
        volume_mounts=[{"name": "data", "mountPath": "/data"}],
        env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        spec={"dnsPolicy": "Default"},
    )
    settings = SETTINGS.model_copy(
        update={"pod": more, "priority_class": "gpucommons-training", "service_account": "jobs"}
    )
    pod = pod_of(the_job(a_launch(an_attempt(milli_gpu=0)), settings))
    assert {"name": "data", "emptyDir": {}} in pod["volumes"]
    assert env_of(pod)["NVIDIA_VISIBLE_DEVICES"]["value"] == "void"
    assert (pod["dnsPolicy"], pod["priorityClassName"]) == ("Default", "gpucommons-training")
    assert pod["serviceAccountName"] == "jobs"


def test_a_lost_node_evicts_nothing_by_itself() -> None:
    tolerations = pod_of(the_job(a_launch()))["tolerations"]
    forever = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert {one["key"] for one in tolerations if "tolerationSeconds" not in one} >= forever
    assert {"key": "gpucommons.io/pool", "operator": "Equal", "value": "train"}.items() <= (
        tolerations[0].items()
    )


def test_with_agents_a_worker_gets_the_folder_of_its_slice() -> None:
    settings = SETTINGS.model_copy(update={"agents": True})
    pod = pod_of(the_job(a_launch(), settings))
    driver = next(one["csi"] for one in pod["volumes"] if "csi" in one)
    assert driver["volumeAttributes"] == {"attempt": ATTEMPT_ID, "ranks": "0"}
    without = pod_of(the_job(a_launch(an_attempt(milli_gpu=0)), settings))
    assert not any("csi" in one for one in without["volumes"])


def test_each_roles_pods_name_the_slices_of_that_roles_workers() -> None:
    settings = SETTINGS.model_copy(update={"agents": True})
    roles = ("chief", "worker", "worker", "chief", "worker")
    shown = [
        next(one["csi"] for one in pod_of(dict(job))["volumes"] if "csi" in one)
        for job in laid_out(a_launch(an_attempt(*roles)), settings).jobs
    ]
    assert [one["volumeAttributes"]["ranks"] for one in shown] == ["0,3", "1-2,4"]


def test_labels_say_whose_it_is_in_letters_that_labels_allow() -> None:
    launch = a_launch()
    odd = replace(launch.workload, spec=replace(launch.workload.spec, owner="Ada Lovelace@x"))
    labels = the_job(replace(launch, workload=odd))["metadata"]["labels"]
    assert labels["gpucommons.io/attempt"] == ATTEMPT_ID
    assert labels["gpucommons.io/user"].startswith("ada-lovelace-x-")
    assert names.slug("ada.lovelace@x") != names.slug("Ada Lovelace@x")


@pytest.mark.parametrize(
    "name",
    [
        *("ada", "a-b", "Ann", "ann.lee@x.org", "ann-lee-x-org---da5e6ad4", "a--b", "7of9"),
        *("-", "é", "a\n", "a" * 48, "a" * 49, "9." * 40, "a-" * 19),
    ],
)
def test_a_user_has_one_name_here_and_at_the_hub_and_shares_it_with_nobody(name: str) -> None:
    slug = names.slug(name)
    assert slug == safe_slug(name, max_length=48)
    if slug != name:
        assert names.slug(slug) != slug, "somebody registered under it gets another"


def test_what_comes_back_is_compared_with_what_was_asked() -> None:
    whole = expected_of(laid_out(a_launch()))
    fraction = expected_of(laid_out(a_launch(an_attempt(milli_gpu=500))))
    assert (whole.gpus["worker"], whole.last["worker"]) == (1, None)
    assert (fraction.gpus["worker"], fraction.last["worker"]) == (0, "NVIDIA_VISIBLE_DEVICES")


def test_data_loaders_share_memory_up_to_the_pods_own_unless_the_admin_gives_other() -> None:
    def shared(settings: KubernetesSettings) -> list[dict[str, Any]]:
        pod = pod_of(the_job(a_launch(), settings))
        mounts = pod["containers"][0]["volumeMounts"]
        (name,) = [one["name"] for one in mounts if one["mountPath"] == SHARED_MEMORY]
        return [one for one in pod["volumes"] if one["name"] == name]

    (ours,) = shared(SETTINGS)
    assert ours["emptyDir"] == {"medium": "Memory"}
    own = {"name": "own", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    mount = {"name": "own", "mountPath": SHARED_MEMORY}
    given = PodAdditions(volumes=[own], volume_mounts=[mount])
    assert shared(SETTINGS.model_copy(update={"pod": given})) == [own]

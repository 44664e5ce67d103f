"""Requests for a slice's volume, honest and hostile: which are heard, and which slice they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucommons.gpu.agent.options import parse
from gpucommons.gpu.errors import BadAgentRequest
from gpucommons.gpu.kubelet.volumes import claim_of, target_of

KUBELET = Path("/var/lib/kubelet")
POD = "5f0c3b5e-9a1d-4c22-8b7e-0d7c4f6a1b2c"
OTHER = "11111111-9a1d-4c22-8b7e-0d7c4f6a1b2c"
ATTEMPT = "0193f0aa-1111-7222-8333-444455556666"
TARGET = f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/gpucommons-slice/mount"


def context(**attributes: str) -> dict[str, str]:
    return {
        "csi.storage.k8s.io/pod.name": "digits-7-1-3-x7k2p",
        "csi.storage.k8s.io/pod.namespace": "jobs",
        "csi.storage.k8s.io/pod.uid": POD,
        "csi.storage.k8s.io/serviceAccount.name": "default",
        "csi.storage.k8s.io/ephemeral": "true",
        **attributes,
    }


def test_a_notebook_names_its_slice() -> None:
    claim = claim_of(context(slice="444455556666-0"), TARGET, KUBELET)
    assert (claim.slice_id, claim.pod, claim.target) == ("444455556666-0", POD, Path(TARGET))


def test_a_worker_names_its_attempt_and_its_rank_is_in_the_name_that_its_job_gave_it() -> None:
    claim = claim_of(context(attempt=ATTEMPT), TARGET, KUBELET)
    assert claim.slice_id == "444455556666-3"


@pytest.mark.parametrize(
    ("ranks", "rank"), [("0-9", 3), ("1-9", 4), ("0,2,4,6", 6), ("0,5-7", 7), ("9-5,1-4", 4)]
)
def test_the_ranks_of_a_roles_job_say_which_worker_an_index_is(ranks: str, rank: int) -> None:
    claim = claim_of(context(attempt=ATTEMPT, ranks=ranks), TARGET, KUBELET)
    assert claim.slice_id == f"444455556666-{rank}"


@pytest.mark.parametrize(
    "ranks",
    [
        "",
        "0",
        "0-2",
        "0,1,2",
        "a",
        "-1",
        "0-",
        "0-9,",
        "0 -9",
        "0-9\n",
        "٠-٩",
        "0-1000000",
        "0-9" + ",0-9" * 2000,
    ],
)
def test_ranks_that_are_none_or_too_few_are_refused(ranks: str) -> None:
    with pytest.raises(BadAgentRequest, match="ranks"):
        claim_of(context(attempt=ATTEMPT, ranks=ranks), TARGET, KUBELET)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"slice": "a", "attempt": ATTEMPT},
        {"slice": ""},
        {"slice": ".."},
        {"slice": "../other"},
        {"slice": "a/b"},
        {"slice": "a\0b"},
        {"slice": "a\n"},
        {"slice": "x" * 4000},
        {"attempt": "0193f0aa"},
        {"attempt": ATTEMPT.upper()},
        {"attempt": ATTEMPT + "/.."},
        {f"a{n}": "b" for n in range(100)} | {"slice": "a"},
    ],
)
def test_a_volume_that_does_not_name_one_slice_is_refused(attributes: dict[str, str]) -> None:
    with pytest.raises(BadAgentRequest):
        claim_of(context(**attributes), TARGET, KUBELET)


@pytest.mark.parametrize(
    "name",
    ["digits", "digits-3", "digits-x-abcde", "digits-3-abcdef", "digits--3-ABCDE", "-3-abcde\n"],
)
def test_a_pod_without_a_rank_in_its_name_is_no_worker(name: str) -> None:
    asked = context(attempt=ATTEMPT) | {"csi.storage.k8s.io/pod.name": name}
    with pytest.raises(BadAgentRequest):
        claim_of(asked, TARGET, KUBELET)


def test_only_pods_of_the_namespaces_that_are_named_may_have_a_slice() -> None:
    for named in (None, frozenset({"hub", "jobs"})):
        assert claim_of(context(slice="a"), TARGET, KUBELET, named).namespace == "jobs"
    for other in ("anybodys", "", "JOBS"):
        asked = context(slice="a") | {"csi.storage.k8s.io/pod.namespace": other}
        with pytest.raises(BadAgentRequest, match="--pod-namespaces"):
            claim_of(asked, TARGET, KUBELET, frozenset({"hub", "jobs"}))


@pytest.mark.parametrize(
    ("arguments", "namespaces"),
    [
        ([], None),
        (["--pod-namespaces=hub,jobs"], {"hub", "jobs"}),
        (["--pod-namespaces=hub", "--pod-namespaces="], None),
    ],
)
def test_the_agent_is_told_which_namespaces(
    arguments: list[str], namespaces: set[str] | None
) -> None:
    assert parse(["--dir=/tmp", *arguments]).pod_namespaces == namespaces


def test_a_persistent_volume_is_no_slice() -> None:
    asked = context(slice="a") | {"csi.storage.k8s.io/ephemeral": "false"}
    with pytest.raises(BadAgentRequest, match="ephemeral"):
        claim_of(asked, TARGET, KUBELET)


def test_a_pod_may_not_have_its_volume_in_another_pods_folder() -> None:
    with pytest.raises(BadAgentRequest, match="pod that asks"):
        claim_of(context(slice="a"), TARGET.replace(POD, OTHER), KUBELET)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "/etc",
        f"/var/lib/kubelet-other/pods/{POD}/volumes/kubernetes.io~csi/v/mount",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/../mount",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/v/../mount",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/v/mount/..",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/v/mount/",
        f"{KUBELET}//pods/{POD}/volumes/kubernetes.io~csi/v/mount",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~empty-dir/v/mount",
        f"{KUBELET}/pods/../volumes/kubernetes.io~csi/v/mount",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/v\n/mount",
        f"{KUBELET}/pods/{POD}/volumes/kubernetes.io~csi/{'v' * 64}/mount",
        f"var/lib/kubelet/pods/{POD}/volumes/kubernetes.io~csi/v/mount",
    ],
)
def test_only_places_where_the_kubelet_puts_volumes_are_mounted_on(target: str) -> None:
    with pytest.raises(BadAgentRequest):
        target_of(target, KUBELET)

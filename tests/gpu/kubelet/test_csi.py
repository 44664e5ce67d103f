"""Slices as volumes of pods: shown, closed to writers, refused without a limit, taken back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpucommons.gpu.errors import BadAgentRequest, SliceInUse, UnknownSlice
from gpucommons.gpu.kubelet import messages
from gpucommons.gpu.kubelet.csi import PATIENCE_S
from gpucommons.gpu.linux import mounts
from gpucommons.gpu.slices.slices import SliceId

from .conftest import DRIVER, Node, gpu_slice, new_pod

# Slices that pods are shown stand in the machine's table of mounts, where the agents of tests that
# run beside these find them, too: nobody else may have the same.
_MINE = uuid.uuid4().hex[:12]
A, B = SliceId(f"a-{_MINE}"), SliceId(f"b-{_MINE}")
ATTEMPT = f"0193f0aa-1111-7222-8333-{_MINE}"
WORKER = f"{_MINE}-1"


def code_of(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    error: Any = refused.value
    return error.code(), error.details()


def test_the_driver_says_who_it_is_to_the_kubelet(node: Node) -> None:
    registry = node.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"
    info = node.ask(messages.REGISTRATION_SERVICE, "GetInfo", registry)
    assert (info.type, info.name, list(info.supported_versions)) == ("CSIPlugin", DRIVER, ["1.0.0"])
    assert info.endpoint == str(node.state / "csi.sock")
    node.ask(
        messages.REGISTRATION_SERVICE, "NotifyRegistrationStatus", registry, plugin_registered=True
    )
    assert node.ask(messages.IDENTITY_SERVICE, "GetPluginInfo").name == DRIVER
    assert node.ask(messages.IDENTITY_SERVICE, "Probe").ready.value is True
    assert node.ask(messages.NODE_SERVICE, "NodeGetInfo").node_id == "node-1"
    node.ask(messages.NODE_SERVICE, "NodeGetCapabilities")


def test_its_sockets_are_roots_alone(node: Node) -> None:
    for path in (
        node.state / "csi.sock",
        node.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock",
    ):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_pod_is_shown_the_socket_of_its_slice_and_can_write_nothing(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    target = node.publish(new_pod(), slice=A)

    assert [path.name for path in target.iterdir()] == ["usage.sock"]
    with pytest.raises(OSError, match="Read-only"):
        (target / "file").write_text("x")
    with pytest.raises(OSError, match="Read-only"):
        (target / "usage.sock").unlink()


def test_a_worker_is_shown_the_slice_of_its_rank(node: Node) -> None:
    node.agent.open(gpu_slice(WORKER))
    target = node.publish(new_pod(), attempt=ATTEMPT, name="digits-7-1-x7k2p")
    assert mounts.is_same_file(target, node.state / "slices" / WORKER)


def test_a_pod_of_a_namespace_that_is_not_named_is_shown_nothing(
    start_node: Callable[..., Node],
) -> None:
    node = start_node("--simulate", "1", "--ignore-real", "--pod-namespaces", "jobs,hub")
    node.agent.open(gpu_slice(A))
    code, text = code_of(partial(node.publish, new_pod(), slice=A))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "'users'" in text


def test_asked_again_nothing_changes(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    before = mounts.points(target)
    node.publish(pod, slice=A)
    assert mounts.points(target) == before


def test_a_half_made_mount_is_made_anew(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.target(pod)
    target.mkdir()
    # As an agent leaves it that is killed between two calls.
    mounts.bind(node.state / "slices" / A, target, writable=True)
    node.publish(pod, slice=A)
    assert mounts.is_read_only(target)
    assert len(mounts.points(target)) == 1


def test_taken_back_nothing_is_left_and_again_is_harmless(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    node.unpublish(pod)
    node.unpublish(pod)
    assert not target.exists()
    assert mounts.points(target) == []
    assert node.agent.tenants()[A] == frozenset()


def test_a_pod_waits_for_a_scheduler_that_is_about_to_open_its_slice(node: Node) -> None:
    late = threading.Timer(1.0, lambda: node.agent.open(gpu_slice(A)))
    late.start()
    try:
        assert node.publish(new_pod(), slice=A).is_dir()
    finally:
        late.join()


def test_a_slice_that_nobody_granted_starts_no_pod_and_says_why(node: Node) -> None:
    pod = new_pod()
    code, text = code_of(lambda: node.publish(pod, slice=A))
    assert code is grpc.StatusCode.NOT_FOUND
    assert f"has not opened slice {A} on this node" in text
    assert mounts.points(node.target(pod)) == []


def test_pods_that_wait_for_a_grant_keep_nobody_from_starting(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pods = [new_pod() for _ in range(40)]
    waiting = [
        threading.Thread(target=lambda pod=pod: code_of(lambda: node.publish(pod, slice="none")))
        for pod in pods
    ]
    for thread in waiting:
        thread.start()
    started_s = time.monotonic()
    assert node.publish(new_pod(), slice=A).is_dir()
    took_s = time.monotonic() - started_s
    for thread in waiting:
        thread.join()
    # They all together wait several times as long as one of them does.
    assert took_s < PATIENCE_S


def test_a_pod_that_names_another_pods_slice_is_refused(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    owner = new_pod()
    node.publish(owner, slice=A)
    thief = new_pod()
    code, text = code_of(lambda: node.publish(thief, slice=A))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "another pod's" in text
    assert not node.target(thief).exists()
    assert node.agent.tenants()[A] == {owner}
    node.unpublish(owner)
    assert node.publish(thief, slice=A).is_dir()


def test_a_pod_has_one_slice(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    node.agent.open(gpu_slice(B))
    pod = new_pod()
    node.publish(pod, slice=A)
    code, text = code_of(lambda: node.publish(pod, slice=B))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "another already" in text


def test_a_hostile_name_is_no_slice(node: Node) -> None:
    for name in ("..", "../../etc", "a/b", "", "x" * 5000, "a\0b", "x" * 3_000_000):
        code, _ = code_of(partial(node.publish, new_pod(), slice=name))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_link_in_the_place_of_the_volume_leads_nowhere(node: Node, tmp_path: Path) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    (tmp_path / "mount").mkdir()
    folder = node.target(pod).parent
    folder.rmdir()
    folder.symlink_to(tmp_path)
    code, _ = code_of(lambda: node.publish(pod, slice=A))
    assert code is grpc.StatusCode.INTERNAL
    assert mounts.points(tmp_path) == []
    assert (tmp_path / "mount").is_dir()
    folder.unlink()
    folder.mkdir()
    (folder / "mount").symlink_to(tmp_path / "mount")
    code, _ = code_of(lambda: node.publish(pod, slice=A))
    assert code is grpc.StatusCode.INTERNAL
    assert mounts.points(tmp_path) == []


def test_another_pods_folder_is_not_mounted_on(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    own, other = new_pod(), new_pod()
    code, _ = code_of(
        lambda: node.ask(
            messages.NODE_SERVICE,
            "NodePublishVolume",
            volume_id="csi-1",
            target_path=str(node.target(other)),
            volume_context={
                "csi.storage.k8s.io/ephemeral": "true",
                "csi.storage.k8s.io/pod.uid": own,
                "slice": A,
            },
        )
    )
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_an_agent_that_was_killed_finds_pods_and_mounts_as_they_were(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    node = node.restart()
    assert node.agent.tenants()[A] == {pod}
    # What the pod sees is the new agent's socket.
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(target / "usage.sock"))
    node.publish(pod, slice=A)
    node.unpublish(pod)
    assert mounts.points(target) == []


def test_a_pod_that_went_while_the_agent_was_away_is_forgotten(
    node: Node, eventually: Callable[..., object]
) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    node.process.kill()
    node.process.wait()
    mounts.unmount(target)
    for folder in [target, *target.parents]:
        if folder.name == "pods":
            break
        folder.rmdir()
    node = node.restart()
    assert eventually(lambda: not node.agent.tenants()[A])


def test_what_a_killed_agent_left_of_closed_slices_is_cleared_away(node: Node) -> None:
    leftover = node.state / "slices" / "left-over"
    leftover.mkdir()
    mounts.tmpfs(leftover, name="test", size_bytes=4096, files=8)
    (leftover / "file").touch()
    node.restart()
    assert not leftover.exists()


def test_a_closed_slice_leaves_no_mount_behind_and_its_pod_its_view(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    node.agent.close_slice(A)
    assert mounts.points(node.state / "slices") == []
    assert target.is_dir()
    node.unpublish(pod)
    assert not target.exists()


def test_only_a_pods_uid_is_one(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pods: tuple[Any, ...] = ("", "..", "../x", "5f0c3b5e", 7, None)
    for pod in pods:
        with pytest.raises(BadAgentRequest):
            node.agent.admit(A, pod)
        with pytest.raises(BadAgentRequest):
            node.agent.dismiss(pod)


def test_a_slice_must_be_open_and_free_to_be_a_pods(node: Node) -> None:
    with pytest.raises(UnknownSlice):
        node.agent.admit(A, new_pod())
    node.agent.open(gpu_slice(A))
    node.agent.admit(A, new_pod())
    with pytest.raises(SliceInUse):
        node.agent.admit(A, new_pod())


@pytest.fixture
def pod_group() -> Iterator[Callable[[str], Path]]:
    """Makes a control group as a kubelet does for a pod; both versions will do."""
    made: list[Path] = []

    def make(pod: str) -> Path:
        root = next(
            (
                Path("/sys/fs/cgroup", name)
                for name in ("pids", "freezer", "")
                if Path("/sys/fs/cgroup", name, "cgroup.procs").exists()
            ),
            None,
        )
        if root is None:
            pytest.skip("no control groups here")
        group = root / f"gpucommons-test-{pod[:8]}" / f"pod{pod}"
        try:
            group.mkdir(parents=True)
        except OSError as error:
            pytest.skip(f"no control groups here: {error}")
        made.append(group)
        return group

    yield make
    for group in made:
        with suppress(OSError):
            group.rmdir()
            group.parent.rmdir()


@pytest.fixture
def run_in(pod_group: Callable[[str], Path]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs Python as an ordinary account in a pod's control group."""
    started: list[subprocess.Popen[str]] = []
    groups: dict[str, Path] = {}

    def start(pod: str, code: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
        group = groups.get(pod) or groups.setdefault(pod, pod_group(pod))
        enter = f"import os, socket, sys; open({str(group / 'cgroup.procs')!r}, 'w').write('0')"
        drop = "os.setgroups([]); os.setgid(1234); os.setuid(1234)"
        process = subprocess.Popen(
            [sys.executable, "-c", f"{enter}\n{drop}\n{code}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | env,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


WAITS = "print('in', flush=True); input()"


def test_every_process_of_the_pod_is_the_slices_whoever_started_it(
    node: Node, run_in: Callable[..., subprocess.Popen[str]]
) -> None:
    node.agent.open(gpu_slice(A))
    node.agent.open(gpu_slice(B))
    mine, other = new_pod(), new_pod()
    node.publish(mine, slice=A)
    node.publish(other, slice=B)
    inside = run_in(mine, WAITS)
    # It claims to be somebody else's.
    liar = run_in(other, WAITS, GPUCOMMONS_SLICE_ID=A)
    for process in (inside, liar):
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
    assert node.agent.reading(A).pids == (inside.pid,)
    assert node.agent.reading(B).pids == (liar.pid,)
    inside.kill()
    inside.wait()
    assert node.agent.reading(A).pids == ()


CONNECTS = (
    "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
    "print(s.makefile().readline()[:10], flush=True)"
)


def test_a_pod_hears_of_its_own_slice_and_of_no_other(
    node: Node, run_in: Callable[..., subprocess.Popen[str]]
) -> None:
    node.kubelet.chmod(0o711)
    node.agent.open(gpu_slice(A))
    node.agent.open(gpu_slice(B))
    mine, other = new_pod(), new_pod()
    target = node.publish(mine, slice=A)
    node.publish(other, slice=B)
    for folder in target.parents:
        if folder == node.kubelet:
            break
        folder.chmod(0o755)
    heard, _ = run_in(mine, CONNECTS, str(target / "usage.sock")).communicate(timeout=60)
    assert heard.startswith('{"history"')
    heard, _ = run_in(other, CONNECTS, str(target / "usage.sock")).communicate(timeout=60)
    assert heard.strip() == ""


def test_state_files_of_the_agent_are_not_in_what_a_pod_sees(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    target = node.publish(new_pod(), slice=A)
    assert json.loads((node.state / "open-slices.json").read_text())["slices"]
    assert not list(target.glob("**/*.json"))
    assert (node.state / "slices").stat().st_mode & 0o777 == 0o700


# --- an agent that lost what it knew ----------------------------------------------------------


def lose_state(node: Node) -> Node:
    """The agent ends, its files are wiped as far as they can be, and another one starts."""
    node.process.kill()
    node.process.wait()
    for path in node.state.glob("*.json"):
        path.unlink()
    return node.restart()


def test_a_slice_that_the_agent_lost_is_not_empty_while_its_pod_runs(
    node: Node, run_in: Callable[..., subprocess.Popen[str]]
) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    inside = run_in(pod, WAITS)
    assert inside.stdout is not None
    assert inside.stdout.readline() == "in\n"
    node.agent.slices()
    before = node.agent.memory
    again = lose_state(node)
    again.agent.slices()
    assert again.agent.memory not in (None, before)

    # Before the scheduler opens it again: by what the kernel shows to whom.
    assert again.agent.slices() == ()
    assert again.agent.reading(A).pids == (inside.pid,)
    again.agent.open(gpu_slice(A))
    assert again.agent.tenants() == {A: {pod}}
    assert again.agent.reading(A).pids == (inside.pid,)
    # It is the file system that the pod sees, not another one in its place.
    assert mounts.is_same_file(target, again.state / "slices" / A)
    code, text = code_of(partial(again.publish, new_pod(), slice=A))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "another pod's" in text
    # The kubelet may ask again.
    again.publish(pod, slice=A)
    inside.kill()
    inside.wait()
    assert again.agent.reading(A).pids == ()


def test_a_slice_that_no_pod_is_shown_is_empty_whatever_the_agent_lost(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    node.publish(pod, slice=A)
    node.unpublish(pod)
    assert lose_state(node).agent.reading(A).pids == ()


def test_asked_again_for_a_pod_that_runs_a_refusal_takes_nothing_away(node: Node) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    before = mounts.points(target)
    again = lose_state(node)
    # Not opened again yet.
    code, _ = code_of(partial(again.publish, pod, slice=A))
    assert code is grpc.StatusCode.NOT_FOUND
    assert mounts.points(target) == before


def test_asked_again_for_a_pod_that_runs_its_mount_stays_although_the_folder_is_another(
    node: Node,
) -> None:
    node.agent.open(gpu_slice(A))
    pod = new_pod()
    target = node.publish(pod, slice=A)
    seen = target.stat()
    mounts.unmount(node.state / "slices" / A)
    again = lose_state(node)
    again.agent.open(gpu_slice(A))
    again.publish(pod, slice=A)
    # Its containers hold the old one, whatever would be mounted here.
    assert target.stat().st_dev == seen.st_dev
    assert again.agent.tenants() == {A: {pod}}

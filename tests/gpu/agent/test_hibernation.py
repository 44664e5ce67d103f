"""A node lets pods save their processes only where that was tried and works."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpucommons.gpu.agent.hibernation import (
    HibernationOffer,
    Preparation,
    prepare,
    try_as_nobody,
    why_not,
)
from gpucommons.gpu.hibernation import containers

PATIENCE_S = 60


class Plugin:
    """The kubelet's side: what it was offered, and whether it still is."""

    def __init__(self) -> None:
        self.ready: Callable[[], None] | None = None
        self.closed = False
        self.told = threading.Event()

    def offer(self, ready: Callable[[], None]) -> Plugin:
        self.ready = ready
        self.told.set()
        return self

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def node(tmp_path: Path) -> Preparation:
    program = tmp_path / "image" / "usr" / "sbin" / "criu"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"criu")
    program.chmod(0o777)
    folder = tmp_path / "agent"
    folder.mkdir()
    return Preparation(
        criu=tmp_path / "image",
        kubelet=tmp_path / "kubelet",
        devices=tmp_path / "cdi",
        folder=folder,
        apparmor=tmp_path / "apparmor",
    )


def device(node: Preparation) -> Path:
    return node.devices / containers.DEVICE_FILE


def test_what_works_is_prepared_and_then_offered_until_the_agent_ends(node: Preparation) -> None:
    plugin = Plugin()
    offer = HibernationOffer(node, offer=plugin.offer, try_out=lambda _criu: None)
    assert plugin.told.wait(PATIENCE_S)
    profile = node.kubelet / "seccomp" / containers.PROFILE
    assert json.loads(profile.read_bytes())["defaultAction"] == "SCMP_ACT_ERRNO"
    [row] = json.loads(device(node).read_bytes())["devices"]
    copied = Path(row["containerEdits"]["mounts"][1]["hostPath"])
    assert copied.parent == node.folder
    # Nobody but root changes what pods are given, whatever the modes in the image are.
    assert (copied / "usr/sbin/criu").stat().st_mode & 0o777 == 0o755
    offer.close()
    assert plugin.closed


def test_what_somebody_removed_is_there_again_before_the_next_pod_needs_it(
    node: Preparation,
) -> None:
    plugin = Plugin()
    offer = HibernationOffer(node, offer=plugin.offer, try_out=lambda _criu: None)
    assert plugin.told.wait(PATIENCE_S)
    profile = node.kubelet / "seccomp" / containers.PROFILE
    profile.unlink()
    assert plugin.ready is not None
    plugin.ready()
    assert profile.exists()
    offer.close()


def test_pods_that_come_at_once_find_a_whole_criu_whatever_was_removed(node: Preparation) -> None:
    prepare(node)
    [row] = json.loads(device(node).read_bytes())["devices"]
    program = Path(row["containerEdits"]["mounts"][1]["hostPath"]) / "usr/sbin/criu"
    for _ in range(10):
        program.unlink()
        with ThreadPoolExecutor(8) as pods:
            for ready in [pods.submit(prepare, node) for _ in range(8)]:
                ready.result(PATIENCE_S)
        assert program.read_bytes() == b"criu"
    assert [each.name for each in node.folder.iterdir()] == [program.parents[2].name]


def test_what_fails_its_test_is_not_offered_and_the_log_says_why(
    node: Preparation, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(node)  # an earlier agent, before a change of the node
    plugin, tried = Plugin(), threading.Event()

    def try_out(_criu: Path) -> str:
        tried.set()
        return "This system forbids users what saving a process needs."

    offer = HibernationOffer(node, offer=plugin.offer, try_out=try_out, again_s=())
    assert tried.wait(PATIENCE_S)
    offer._thread.join(PATIENCE_S)
    offer.close()
    assert not plugin.told.is_set()
    assert not device(node).exists()
    assert "cannot save their processes. This system forbids users" in caplog.text


def test_a_node_that_was_too_busy_is_tried_again(node: Preparation) -> None:
    plugin = Plugin()
    said = iter(["It took longer than 60 s.", None])
    offer = HibernationOffer(
        node, offer=plugin.offer, try_out=lambda _criu: next(said), again_s=(0,)
    )
    assert plugin.told.wait(PATIENCE_S)
    offer.close()


def test_apparmor_that_forbids_mounts_withdraws_the_offer_in_a_sentence(node: Preparation) -> None:
    assert why_not(node) is None
    node.apparmor.write_text("Y\n")
    assert "forbids them to mount" in (why_not(node) or "")
    allowed = Preparation(
        criu=node.criu, kubelet=node.kubelet, devices=node.devices, folder=node.folder,
        apparmor=node.apparmor, mounts_allowed=True,
    )  # fmt: skip
    assert why_not(allowed) is None


def test_without_criu_it_says_where_none_is(node: Preparation) -> None:
    (node.criu / "usr/sbin/criu").unlink()
    assert why_not(node) == f"There is no CRIU in {node.criu}."


def test_a_criu_that_is_none_fails_the_self_test_in_words(node: Preparation) -> None:
    assert "is no CRIU 4.2 or newer" in (try_as_nobody(node.criu) or "")

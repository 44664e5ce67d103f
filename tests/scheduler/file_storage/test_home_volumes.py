"""Homes that only one node or pod can mount are said so, with what to do."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.executors.kubernetes.manifests.home_volumes import Claim, home_trouble


def a_claim(*modes: str, **mounted: str) -> Claim:
    return Claim(name="claim-ann", access_modes=modes, mounted=mounted)


@pytest.mark.parametrize("mode", ["ReadWriteMany", "ReadOnlyMany"])
def test_a_home_that_every_node_can_mount_is_no_trouble(mode: str) -> None:
    claim = a_claim(mode, notebook="node-1")
    assert home_trouble(claim, owner="ann", nodes=["node-2", "node-3"]) is None


def test_a_home_of_one_node_is_no_trouble_on_that_node_or_unused() -> None:
    claim = a_claim("ReadWriteOnce", notebook="node-1")
    assert home_trouble(claim, owner="ann", nodes=["node-1", "node-1"]) is None
    assert home_trouble(a_claim("ReadWriteOnce"), owner="ann", nodes=["node-2"]) is None


def test_a_home_that_is_mounted_elsewhere_is_said_with_where_and_what_to_do() -> None:
    claim = a_claim("ReadWriteOnce", jupyter="node-1")
    said = home_trouble(claim, owner="ann", nodes=["node-2"])
    assert said is not None
    for word in ("ann", "claim-ann", "node-1", "jupyter", "node-2", "several machines", "results"):
        assert word in said


def test_workers_on_several_nodes_cannot_share_a_home_of_one() -> None:
    said = home_trouble(a_claim("ReadWriteOnce"), owner="ann", nodes=["node-1", "node-2", "node-1"])
    assert said is not None
    assert "node-1, node-2" in said


def test_a_home_of_one_pod_is_the_notebooks() -> None:
    said = home_trouble(
        a_claim("ReadWriteOncePod", jupyter="node-1"), owner="ann", nodes=["node-1"]
    )
    assert said is not None
    assert "jupyter has it" in said
    assert home_trouble(a_claim("ReadWriteOncePod"), owner="ann", nodes=["n"]) is None
    assert home_trouble(a_claim("ReadWriteOncePod"), owner="ann", nodes=["n", "n"]) is not None


def test_a_home_of_another_namespace_is_said() -> None:
    said = home_trouble(None, owner="ann", nodes=["node-1"])
    assert said is not None
    assert "cannot be reached from where jobs run" in said

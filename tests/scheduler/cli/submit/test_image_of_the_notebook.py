"""Submitting from a notebook's terminal on a cluster: the job gets the notebook's image, and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import service_world
from command_line import Cli, WatchedWorld

from gpucommons.scheduler.environments.images import ImageNotKnown, Images

OWN = f"registry.example/lab@sha256:{'0123456789ab' * 5}0123"
LAB = {
    "kind": "user",
    "name": "ann",
    "scopes": [*service_world.TOKENS["ann-token"]["scopes"], "access:servers!server=ann/"],
}


def image_of(user: str, server: str) -> str:
    if (user, server) != ("ann", ""):
        raise ImageNotKnown(server)
    return OWN


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedWorld:
    other = {**LAB, "scopes": [*LAB["scopes"][:-1], "access:servers!server=ann/other"]}
    monkeypatch.setitem(service_world.TOKENS, "lab-token", LAB)
    monkeypatch.setitem(service_world.TOKENS, "other-token", other)
    made = WatchedWorld(tmp_path)
    images = Images(images={"": "lab:1"}, of_notebook=image_of)
    made.service = replace(made.service, environments=images)
    return made


def test_the_image_that_nobody_named_is_said(cli: Cli, script: Path) -> None:
    done = cli("submit", str(script), by="lab")
    assert (
        "runs in: image registry.example/lab@sha256:0123456789ab…, the one of this notebook"
        in done.err
    )
    job = cli("show", "train-1", "--output", "json").json
    assert job["request"]["environment"] == OWN


def test_from_elsewhere_nothing_is_said_and_the_default_runs(cli: Cli, script: Path) -> None:
    done = cli("submit", str(script))
    assert "runs in" not in done.err
    assert "warning" not in done.err


def test_a_notebook_whose_image_is_not_known_is_told_what_runs(cli: Cli, script: Path) -> None:
    done = cli("submit", str(script), by="other")
    assert "warning: The image of this notebook could not be found out" in done.err
    assert "runs in: " not in done.err

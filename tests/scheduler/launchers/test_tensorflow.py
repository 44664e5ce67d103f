"""``TF_CONFIG`` names the whole cluster to each worker, and its own place in it."""

from __future__ import annotations

import json

from gangs import TRAIN, a_gang

from gpucommons.scheduler.launchers import starts
from gpucommons.scheduler.launchers.joined import MODULE


def config(*roles: str) -> list[dict[str, object]]:
    return [json.loads(one.env["TF_CONFIG"]) for one in starts("tensorflow", a_gang(*roles))]


def test_a_job_of_one_role_has_workers_whatever_it_is_called() -> None:
    first, second = config("trainer", "trainer")
    assert first["cluster"] == {"worker": ["host-0:7000", "host-1:7001"]} == second["cluster"]
    assert first["task"] == {"type": "worker", "index": 0}
    assert second["task"] == {"type": "worker", "index": 1}


def test_a_chief_comes_first_and_an_evaluator_stands_beside_the_cluster() -> None:
    chief, _, second, evaluator = config("chief", "worker", "worker", "evaluator")
    cluster = {"chief": ["host-0:7000"], "worker": ["host-1:7001", "host-2:7002"]}
    assert chief == {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    assert second["task"] == {"type": "worker", "index": 1}
    assert evaluator == {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}


def test_who_serves_the_chief_ends_with_it_wherever_it_stands() -> None:
    gang = a_gang("ps", "chief", "worker", "evaluator")
    found = [one.command for one in starts("tensorflow", gang)]
    meeting = ("--first", "host-1:9001", "--size", "4")
    follow = ("python", "-m", MODULE, "follow", *meeting)
    assert found == [
        (*follow, "--rank", "1", "--", *TRAIN),
        ("python", "-m", MODULE, "lead", *meeting, "--rank", "0", "--", *TRAIN),
        (*follow, "--rank", "2", "--", *TRAIN),
        (*follow, "--stays-s", "60", "--rank", "3", "--", *TRAIN),
    ]
    cluster = {"ps": ["host-0:7000"], "chief": ["host-1:7001"], "worker": ["host-2:7002"]}
    assert config("ps", "chief", "worker", "evaluator")[3]["cluster"] == cluster

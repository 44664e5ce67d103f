"""Plans for a model whose configuration lies below the server's folder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpucommons.scheduler.models import AdviceView

CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 100}
ASKED = {"batch": 8, "sequence": 128, "steps": 10}


async def test_a_file_is_read_here_and_only_its_numbers_are_sent(served: Any, api: Any) -> None:
    (served.root / "config.json").write_text(json.dumps({**CONFIG, "secret": "hunter2"}))

    answer = await served.http.post(
        "gpucommons/advise", json={"config": "config.json", "asked": ASKED}
    )

    assert answer.status_code == 200, answer.text
    assert answer.json()["declined"] == "Can't say yet."
    sent = api.body("/v1/advise")
    assert sent["network"]["layers"] == 2
    assert (sent["batch"], sent["steps"]) == (8, 10)
    assert "hunter2" not in json.dumps(sent)


async def test_jobs_that_trained_it_are_named_in_place_of_a_file(served: Any, api: Any) -> None:
    asked = {"like": ["my-job"], "asked": {**ASKED, "sequence": 1}}
    answer = await served.http.post("gpucommons/advise", json=asked)

    assert answer.status_code == 200, answer.text
    assert api.body("/v1/advise")["network"] == {"kind": "unknown", "like": ["my-job"]}

    for both in ({**asked, "config": "config.json"}, {"asked": ASKED}):
        answer = await served.http.post("gpucommons/advise", json=both)
        assert answer.status_code == 422
        assert "or jobs that trained it" in answer.json()["message"]


@pytest.mark.parametrize(
    ("accepted", "said"),
    [("de_DE", "Es gibt keine GPUs, für die sich planen ließe."), ("en", None), ("xx", None)],
)
async def test_why_there_is_no_plan_is_said_in_the_language_of_the_page(
    served: Any, api: Any, accepted: str, said: str | None
) -> None:
    (served.root / "config.json").write_text(json.dumps(CONFIG))
    english = "There are no GPUs to plan for."
    api.advice = AdviceView(declined=english, now_ms=0)
    answer = await served.http.post(
        "gpucommons/advise",
        json={"config": "config.json", "asked": ASKED},
        headers={"Accept-Language": accepted},
    )
    assert answer.json()["declined"] == (said or english)


async def test_no_other_file_and_no_other_field_gets_through(served: Any, api: Any) -> None:
    (served.root / "config.json").write_text(json.dumps(CONFIG))
    (served.root / "notes.txt").write_text("not JSON")
    (served.root / "link.json").symlink_to("/etc/hostname")
    refused = [
        ("../config.json", ASKED, "config.json"),
        ("missing.json", ASKED, "There is no file"),
        ("notes.txt", ASKED, "is no JSON"),
        ("link.json", ASKED, "leads out of this server's folder"),
        ("config.json", {**ASKED, "batch": 0}, "batch"),
        ("config.json", {**ASKED, "user": "bob"}, "user"),
    ]
    for config, asked, said in refused:
        answer = await served.http.post(
            "gpucommons/advise", json={"config": config, "asked": asked}
        )
        assert 400 <= answer.status_code < 500, (config, answer.text)
        assert said in answer.json()["message"]
    assert api.asked("POST") == []


async def test_somebody_else_on_this_server_gets_no_plans(serve: Any, api: Any) -> None:
    named = {"GPUCOMMONS_URL": "http://scheduler", "JUPYTERHUB_API_TOKEN": "secret-token"}
    async with serve(JUPYTERHUB_USER="alice", **named) as others:
        (others.root / "config.json").write_text(json.dumps(CONFIG))
        answer = await others.http.post(
            "gpucommons/advise", json={"config": "config.json", "asked": ASKED}
        )
    assert answer.status_code == 403
    assert api.asked("POST") == []


@pytest.mark.parametrize(
    ("script", "framework"),
    [
        ("pretrain.py", "megatron"),
        ("plain.py", "torch"),
        ("missing.py", "torch"),
        ("../outside.py", "torch"),
        ("", "torch"),
    ],
)
async def test_the_script_beside_it_says_whose_arguments_it_takes(
    served: Any, api: Any, script: str, framework: str
) -> None:
    (served.root / "config.json").write_text(json.dumps(CONFIG))
    (served.root / "pretrain.py").write_text("from megatron.training import pretrain\n")
    (served.root / "plain.py").write_text("import torch\n")
    asked = {"config": "config.json", "script": script, "asked": ASKED}
    answer = await served.http.post("gpucommons/advise", json=asked)
    assert answer.status_code == 200, answer.text
    assert api.body("/v1/advise").get("framework", "torch") == framework

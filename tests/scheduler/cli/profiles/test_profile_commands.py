"""Profiles from a terminal: published by leads, used by their team."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from command_line import Cli, Done, WatchedWorld

FORM = {
    "launcher": "torchrun",
    "workers": 2,
    "milli_gpu": 500,
    "memory_mib": 2048,
    "env": {"LR": "0.1", "EPOCHS": "3"},
    "max_run_s": 3600,
}


def a_file(folder: Path, **fields: object) -> str:
    path = folder / "profile.yaml"
    named = {"team": "vision", "name": "ddp", "description": "Two halves", "job": FORM}
    path.write_text(yaml.safe_dump({**named, **fields}))
    return str(path)


@pytest.fixture
def led(cli: Cli) -> Callable[..., Done]:
    """A terminal of somebody who leads the team."""
    return partial(cli, by="ada")


def test_a_lead_publishes_one_and_a_job_is_started_with_it(
    led: Callable[..., Done], world: WatchedWorld, tmp_path: Path
) -> None:
    made = led("profile", "publish", a_file(tmp_path, callback="keras"))
    assert (made.code, made.out) == (0, "ddp of vision published\n"), made.err
    header, row = led("profile", "list").out.splitlines()
    assert header.split() == ["NAME", "TEAM", "SIZE", "LAUNCHER", "DESCRIPTION"]
    assert row.split() == ["ddp", "vision", "2", "×", "½", "GPU", "torchrun", "Two", "halves"]
    shown = led("profile", "show", "vision/ddp").out
    assert "launcher: torchrun" in shown
    assert "callbacks=[Follow()]" in shown

    (tmp_path / "train.py").write_text("print('epoch 1')\n")
    script = ("submit", str(tmp_path / "train.py"), "--profile", "ddp", "--output", "json")
    started = led(*script, "--env", "LR=0.5", "--memory-mib", "4096")
    assert "profile: ddp of vision, published by ada\n  env: " in started.err
    assert "  env: EPOCHS=3\n" in started.err
    job = started.json["request"]
    assert (job["launcher"], job["max_run_s"]) == ("torchrun", 3600)
    assert job["env"] == {"LR": "0.5", "EPOCHS": "3"}
    assert job["labels"]["profile"] == "ddp"
    (role,) = job["roles"]
    assert (role["count"], role["milli_gpu"], role["memory_mib"]) == (2, 500, 4096)
    (role,) = led(*script, "--gpus", "0", "--workers", "1").json["request"]["roles"]
    assert (role["count"], role["milli_gpu"]) == (1, 0)

    assert led("profile", "remove", "ddp").out == "ddp of vision removed; its jobs stay\n"
    gone = led(*script)
    assert (gone.code, "Profiles: none" in gone.err) == (4, True)
    told = [event.event.text for event in world.service.store.events()]
    assert "profile ddp of vision was published" in told
    assert "profile ddp of vision was removed" in told


def test_one_with_a_command_needs_no_file_and_one_without_asks_for_it(
    led: Callable[..., Done], tmp_path: Path
) -> None:
    assert led("profile", "publish", a_file(tmp_path)).code == 0
    refused = led("submit", "--profile", "ddp")
    assert (refused.code, "says how, and not what" in refused.err) == (2, True)
    runs = {**FORM, "command": ["python", "-m", "team.train"]}
    assert led("profile", "publish", a_file(tmp_path, job=runs)).code == 0
    job = led("submit", "--profile", "ddp", "--output", "json").json
    assert job["name"] == "ddp-1"
    assert job["request"]["roles"][0]["command"] == ["python", "-m", "team.train"]


def test_apply_publishes_the_profiles_of_a_file_and_says_what_it_changes(
    led: Callable[..., Done], tmp_path: Path
) -> None:
    path = tmp_path / "team.yaml"
    one = {"team": "vision", "name": "ddp", "job": FORM}
    path.write_text(yaml.safe_dump({"profiles": [one]}))
    dry = led("apply", "-f", str(path), "--dry-run")
    assert dry.out == "Would be applied:\n  profile ddp of vision: published\n", dry.err
    assert led("profile", "list", "--output", "json").json["profiles"] == []
    assert led("apply", "-f", str(path)).out == "Applied:\n  profile ddp of vision: published\n"
    assert led("apply", "-f", str(path)).out == "Nothing changed.\n"
    path.write_text(yaml.safe_dump({"profiles": [{**one, "description": "new"}]}))
    assert "published anew" in led("apply", "-f", str(path)).out
    path.write_text(yaml.safe_dump({"profiles": [{**one, "job": {"workers": 0}}]}))
    wrong = led("apply", "-f", str(path))
    assert (wrong.code, "workers" in wrong.err) == (2, True)


def test_a_refused_profile_keeps_nothing_else_of_a_file_from_being_applied(
    led: Callable[..., Done], tmp_path: Path
) -> None:
    path = tmp_path / "all.yaml"
    bad = {"team": "vision", "name": "bad", "job": {"pools": ["none"]}}
    good = {"team": "vision", "name": "good", "job": FORM}
    path.write_text(yaml.safe_dump({"profiles": [bad, good]}))
    refused = led("apply", "-f", str(path))
    assert refused.code != 0
    assert "Profile bad of vision: " in refused.err
    assert "All else that the file says was applied." in refused.err
    found = led("profile", "list", "--output", "json").json["profiles"]
    assert [one["name"] for one in found] == ["good"]
    path.write_text(yaml.safe_dump({"profiles": [bad]}))
    assert "All else" not in led("apply", "-f", str(path)).err


def test_what_cannot_be_is_refused_with_a_sentence(
    led: Callable[..., Done], tmp_path: Path
) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"job": {"milli_gpu": 1500}}, "share of one GPU or whole GPUs"),
        ({"job": {"min_workers": 3, "max_workers": 2}}, "more than max_workers"),
        ({"job": {"pools": ["none"]}}, "none"),
        ({"job": {"env": {"LD_PRELOAD": "x"}}}, "LD_PRELOAD"),
        ({"team": "elsewhere"}, "no profile"),
        ({"job": {"speed": 1}}, "speed"),
        ({"description": "two\nlines"}, "description"),
    ]
    for fields, said in cases:
        refused = led("profile", "publish", a_file(tmp_path, **fields))
        assert refused.code in (1, 2, 4), fields
        assert said in refused.err, (fields, refused.err)
    assert led("profile", "list", "--output", "json").json["profiles"] == []


def test_who_leads_no_team_publishes_nothing(cli: Cli, tmp_path: Path) -> None:
    refused = cli("profile", "publish", a_file(tmp_path))
    assert (refused.code, "Only a lead of vision" in refused.err) == (5, True)

"""A bundle for support holds what helps, and nothing that opens the installation."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli, WatchedWorld, submitted
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.cli.operating.redaction import Redaction, secret_values

#: Planted, each where somebody might have written one.
PLANTED = {
    "proxy": "f00dfeedf00dfeedf00dfeedf00dfeed",
    "password": "correct-horse-battery",
    "variable": "wandb-0123456789",
    "database": "pg-password-77",
    "header": "gho_ABCDEFGHIJKLMNOPqrstuv",
    "argument": "hf_ABCDEFGHIJKLMNOPqrstuv",
    "query": "opensesame-9",
    "hub": "hub-token-of-this-service",
}


@pytest.fixture
def bundled(
    cli: Cli, world: WatchedWorld, home: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    submitted(
        world,
        role={"command": ["python", "t.py", "--key", PLANTED["argument"]]},
        env={"W": PLANTED["variable"]},
    )
    state = home / "state"
    (state / "tokens").mkdir(parents=True)
    (state / "tokens" / "proxy").write_text(PLANTED["proxy"] + "\n")
    (state / "password").write_text(PLANTED["password"])
    (state / "homes" / "zoe").mkdir(parents=True)
    (state / "logs").mkdir()
    (state / "logs" / "hub.log").write_text(
        f"user zoe logged in with {PLANTED['password']}\n"
        f"GET /hub/x?token={PLANTED['query']}&next=/lab\n"
        f"Authorization: token {PLANTED['header']}\n"
        f"proxy said {PLANTED['proxy']} to ann\n"
        f"opening postgresql://gc:{PLANTED['database']}@db:5432/gc\n"
        "job 0190aaaa-0000-7000-8000-000000000001 ended\n"
    )
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", PLANTED["hub"])
    (state / "logs" / "scheduler.log").write_text(f"the hub refuses {PLANTED['hub']}\n")
    monkeypatch.delenv("JUPYTERHUB_API_TOKEN")
    return {"state": str(state)}


def files(path: Path) -> dict[str, str]:
    found = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.removeprefix("gpucommons-support/")] = file.read().decode()
    return found


@pytest.fixture
def bundle(
    cli: Cli, bundled: dict[str, str], state: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    monkeypatch.setenv("SOME_HUB_TOKEN", PLANTED["hub"])
    # The scheduler listens elsewhere than this machine's state folder lies.
    done = cli(
        "support-bundle",
        "b.tgz",
        "--url",
        f"unix:{state / 'api.sock'}",
        "--state",
        bundled["state"],
        by="root",
    )
    assert done.code == 0, done.err
    assert "names of users replaced" in done.out
    assert (home / "b.tgz").stat().st_mode & 0o777 == 0o600
    return files(home / "b.tgz")


def test_no_secret_is_in_it_wherever_it_was_written(bundle: dict[str, str]) -> None:
    everything = "\n".join(bundle.values())
    for where, secret in PLANTED.items():
        assert secret not in everything, where


def test_what_helps_is_in_it(bundle: dict[str, str]) -> None:
    assert {
        *("versions.json", "settings.json", "events.json", "missing.txt", "queue/jobs.json"),
        *("queue/teams.json", "health/nodes.json", "logs/hub.log", "logs/scheduler.log"),
    } <= bundle.keys()
    assert "0190aaaa-0000-7000-8000-000000000001 ended" in bundle["logs/hub.log"]
    assert json.loads(bundle["versions.json"])["gpucommons"]
    (job,) = json.loads(bundle["queue/jobs.json"])["jobs"]
    assert job["team"] == "vision"
    assert job["owner"].startswith("user-")


def test_a_user_has_one_other_name_in_all_of_it(bundle: dict[str, str]) -> None:
    everything = "\n".join(bundle.values())
    assert '"ann"' not in everything
    (job,) = json.loads(bundle["queue/jobs.json"])["jobs"]
    assert f"to {job['owner']}" in bundle["logs/hub.log"]
    assert "zoe" not in everything


def test_a_scheduler_that_does_not_answer_is_named_and_the_logs_are_there(
    cli: Cli, bundled: dict[str, str], home: Path
) -> None:
    done = cli("support-bundle", "b.tgz", "--state", bundled["state"], by="root")
    assert done.code == 0
    found = files(home / "b.tgz")
    assert "No scheduler found" in found["missing.txt"]
    assert "logs/hub.log" in found


def test_it_can_go_to_standard_output_as_out_of_a_pod(
    cli: Cli, bundled: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written))
    done = cli("support-bundle", "-", "--state", bundled["state"], by="root")
    assert (done.code, "names of users replaced" in done.err) == (0, True)
    (home / "b.tgz").write_bytes(written.getvalue())
    assert "logs/hub.log" in files(home / "b.tgz")


def test_what_may_not_be_read_is_named_and_the_rest_is_there(
    cli: Cli, bundled: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    barred = {home / "state" / one for one in ("homes", "tokens", "logs/hub.log")}
    inner: dict[str, Any] = {"iterdir": Path.iterdir, "open": Path.open}

    def barring(name: str, path: Path, *arguments: Any, **named: Any) -> Any:
        if path in barred:
            raise PermissionError(13, "Permission denied", str(path))
        return inner[name](path, *arguments, **named)

    monkeypatch.setattr(Path, "iterdir", lambda path: barring("iterdir", path))
    monkeypatch.setattr(Path, "open", lambda path, *a, **n: barring("open", path, *a, **n))
    done = cli("support-bundle", "b.tgz", "--state", bundled["state"], by="root")
    monkeypatch.undo()
    assert done.code == 0, done.err
    found = files(home / "b.tgz")
    for path in barred:
        assert f"Permission denied: {path}" in found["missing.txt"]
    assert "logs/hub.log" not in found
    assert "logs/scheduler.log" in found


@pytest.mark.parametrize("word", ["x", "code", "://", "http://a:"])
def test_a_long_word_that_a_stranger_sent_does_not_hold_a_bundle_up(word: str) -> None:
    # As much as is taken of a log. Quadratic work would take an hour: the suite's limit ends it.
    text = word * ((256 << 10) // len(word))
    assert Redaction([]).text(text) == text


def test_names_stay_where_that_is_asked_for(
    cli: Cli, bundled: dict[str, str], state: Path, home: Path
) -> None:
    url = f"unix:{state / 'api.sock'}"
    assert cli("support-bundle", "b.tgz", "--with-names", "--url", url, by="root").code == 0
    (job,) = json.loads(files(home / "b.tgz")["queue/jobs.json"])["jobs"]
    assert job["owner"] == "ann"


@settings(max_examples=25)
@given(st.text(alphabet="abcdefghijk0123456789", min_size=6, max_size=40), st.text(max_size=30))
def test_a_known_secret_is_found_in_any_text(secret: str, around: str) -> None:
    hidden = Redaction([secret]).text(f"{around} {secret}{around}")
    assert secret not in hidden


def test_variables_are_secret_by_their_names_or_by_the_password_in_them() -> None:
    environ = {"A_TOKEN": "aaaaaaa", "PATH": "/bin", "STORE": "postgresql://u:hidden-1@h/n"}
    assert secret_values(environ) == ["aaaaaaa", "hidden-1"]


def test_every_event_since_a_day_is_exported_as_a_line(cli: Cli, world: WatchedWorld) -> None:
    submitted(world)
    lines = [json.loads(line) for line in cli("audit", "export", by="root").out.splitlines()]
    assert [one["number"] for one in lines] == list(range(1, len(lines) + 1))
    assert {"team-created", "submitted"} <= {one["kind"] for one in lines}
    assert cli("audit", "export", "--since", "2200-01-01", by="root").out == ""
    assert cli("audit", "export", "--since", "yesterday").code == 2

"""Which scheduler a command talks to, and as whom; what it says when there is none."""

from __future__ import annotations

import argparse
import gc
import re
import socket
from pathlib import Path

import pytest
from command_line import Cli

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.cli.connect import find
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.up.settings import SYSTEM_STATE

NOTEBOOK = {"GPUCOMMONS_URL": "http://127.0.0.1:1", "JUPYTERHUB_API_TOKEN": "t"}


def asked(url: str | None = None, state: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(url=url, state=state)


@pytest.fixture
def own_state(home: Path) -> Path:
    return home / ".local" / "state" / "gpucommons"


def test_in_a_notebook_url_and_token_come_from_the_environment() -> None:
    assert find(asked(), NOTEBOOK) == ("http://127.0.0.1:1", "t")
    assert find(asked(), NOTEBOOK | {"GPUCOMMONS_API_TOKEN": "mine"})[1] == "mine"


def test_what_is_named_wins(state: Path) -> None:
    assert find(asked(url="https://gpu.example"), NOTEBOOK) == ("https://gpu.example", "t")
    assert find(asked(state=str(state)), NOTEBOOK) == (f"unix:{state / 'api.sock'}", None)
    assert find(asked(), {"GPUCOMMONS_STATE": str(state)})[0] == f"unix:{state / 'api.sock'}"


def test_without_a_scheduler_it_says_what_was_looked_for_and_how_to_name_one(
    own_state: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(Unavailable) as refusal:
        find(asked(state=str(elsewhere)), {})
    assert str(refusal.value) == (
        f"No scheduler found: looked for {elsewhere / 'api.sock'}. If one runs with another state"
        " folder, name it with --state FOLDER; one elsewhere with --url URL. `gpucommons up` starts"
        " one."
    )
    if not SYSTEM_STATE.joinpath("api.sock").is_socket():
        both = f"looked for {own_state / 'api.sock'} and {SYSTEM_STATE / 'api.sock'}."
        with pytest.raises(Unavailable, match=re.escape(both)):
            find(asked(), {})


def test_a_scheduler_that_is_another_accounts_is_not_said_to_be_away(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may use every socket, and tests may be root's.
    monkeypatch.setattr("os.access", lambda path, mode: not str(path).endswith("api.sock"))
    with pytest.raises(Unavailable, match=r"another account's.*In a terminal of your notebook"):
        find(asked(state=str(state)), {})


def test_on_the_workstation_the_socket_says_who_calls(
    state: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GPUCOMMONS_API_TOKEN", raising=False)

    assert main(["teams", "--state", str(state), "--output", "json"]) == 0
    assert '"vision"' in capsys.readouterr().out


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://[", "http://x y", "unix:here"])
def test_what_is_no_url_is_refused(
    home: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["jobs", "--url", url])

    assert code in (2, 3)
    assert capsys.readouterr().err.startswith("gpucommons: ")


# httpcore leaves the socket of a failed connect to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nobody_listening_is_exit_3(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert main(["jobs", "--url", f"http://127.0.0.1:{port}"]) == 3
    assert main(["jobs", "--url", f"unix:{tmp_path / 'gone.sock'}"]) == 3
    assert main(["jobs", "--url", f"unix:/{'long/' * 40}gone.sock"]) == 3
    assert main(["jobs", "--state", str(tmp_path)]) == 3
    assert "gpucommons up" in capsys.readouterr().err
    gc.collect()


@pytest.mark.parametrize("arguments", [[], ["fly"], ["jobs", "--colour"], ["quota"], ["idle"]])
def test_a_command_line_that_is_none_is_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)

    assert leaving.value.code == 2
    assert "usage: gpucommons" in capsys.readouterr().err


def test_help_names_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    text = " ".join(capsys.readouterr().out.split())
    for command in [
        "submit",
        "jobs",
        "show",
        "why",
        "cancel",
        "pause",
        "resume",
        "again",
        "logs",
        "secret",
        "teams",
        "apply",
        "quota",
        "nodes",
        "idle",
        "reclaim",
        "report",
        "up",
    ]:
        assert f" {command} " in text, command
    assert "3 no scheduler" in text

"""A hub's own ``jupyterhub_config.py``: our lines below it, nothing of the admin's touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.cli import main
from gpucommons.scheduler.cli.install import python_config
from gpucommons.scheduler.errors import BadRequest

CONFIG = """\
# Our hub, do not touch
import os

c = get_config()  # noqa
c.JupyterHub.authenticator_class = "pam"
c.JupyterHub.services = [{"name": "ours", "api_token": os.environ["TOKEN"]}]
"""
STATE = Path("/var/lib/gpucommons")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(CONFIG)
    path.chmod(0o640)
    return path


def run(file: Path, *options: str) -> int:
    return main(["install", "--config", str(file), *options])


def test_what_would_change_is_shown_and_nothing_is_written(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file) == 0
    shown = capsys.readouterr().out
    assert "+configure_beside(c, '/var/lib/gpucommons')  # noqa: F821" in shown
    assert "\n-" not in shown.partition("+++")[2]
    assert "Nothing is written: do it with --apply." in shown
    assert "gpucommons up --beside-hub" in shown
    assert file.read_text() == CONFIG


def test_it_is_written_once_and_undone_to_the_letter(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--apply") == 0
    once = file.read_text()
    assert once.startswith(CONFIG)
    assert file.stat().st_mode & 0o777 == 0o640
    assert run(file, "--apply") == 0
    assert file.read_text() == once
    assert "The file has everything already." in capsys.readouterr().out

    assert run(file, "--apply", "--state", "/srv/gpus") == 0
    assert "configure_beside(c, '/srv/gpus')" in file.read_text()
    assert file.read_text().count("configure_beside(c") == 1

    assert run(file, "--undo") == 0
    assert file.read_text() == CONFIG
    assert run(file, "--undo") == 0
    assert "Nothing of GPU Commons is in this file." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("from tljh.configurer import load_config", "The Littlest JupyterHub"),
        ("c.JupyterHub.spawner_class = 'systemd'", "Line 7 sets another spawner ('systemd')"),
        ("c.JupyterHub.spawner_class = pick()", "sets another spawner (pick())"),
        (
            "c.JupyterHub.services.append({'command': ['python', '-m', 'jupyterhub_idle_culler']})",
            "Line 7 starts another idle culler",
        ),
        ("configure_beside(c, '/srv')", "outside our marks"),
        ("c.JupyterHub.port = = 1", "no Python (line 7)"),
        (python_config.BEGIN, "marks around our lines are not whole"),
    ],
)
def test_what_stands_against_it_is_refused_with_its_line(
    file: Path, more: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = CONFIG + more + "\n"
    file.write_text(theirs)
    assert run(file, "--apply") == 2
    assert says in capsys.readouterr().err
    assert file.read_text() == theirs


@pytest.mark.parametrize("said", ["'localprocess'", "LocalProcessSpawner"])
def test_a_spawner_of_this_kind_stands_not_against_it(file: Path, said: str) -> None:
    file.write_text(CONFIG + f"c.JupyterHub.spawner_class = {said}\n")
    assert run(file, "--apply") == 0


def test_what_was_not_looked_at_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CONFIG + "load_subconfig('more.py')\n")
    assert run(file) == 0
    assert "Line 7 reads another file, which was not looked at." in capsys.readouterr().out


@given(st.text(max_size=200).filter(lambda text: "\r" not in text), st.sampled_from(["", "\n"]))
def test_whatever_stands_there_comes_back(text: str, end: str) -> None:
    text += end
    try:
        after = python_config.applied(text, STATE)
    except BadRequest:
        return
    assert after.startswith(text)
    assert python_config.undone(after) == text
    assert python_config.applied(after, STATE) == after

"""The Littlest JupyterHub: two files of ours beside its own, shown, written and taken away."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from gpucommons.scheduler.cli import main

OWN = """\
# made by tljh-config
users:
  admin: [ada]
limits: {memory: 1G}
base_url: /jupyter
"""


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """Its folder, as its installer leaves it."""
    folder = tmp_path / "tljh"
    (folder / "config" / "jupyterhub_config.d").mkdir(parents=True)
    (folder / "config" / "config.yaml").write_text(OWN)
    return folder


def run(hub: Path, *options: str) -> int:
    units = hub.parent / "systemd"
    return main(["install", "--tljh", str(hub), "--units", str(units), *options])


def ours(hub: Path) -> tuple[Path, Path]:
    unit = hub.parent / "systemd" / "jupyterhub.service.d" / "50-gpucommons.conf"
    return hub / "config" / "jupyterhub_config.d" / "50-gpucommons.py", unit


def test_what_would_be_written_is_shown_with_what_changes_for_its_users(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(hub) == 0
    shown = capsys.readouterr().out
    assert "+configure_littlest(c, '/var/lib/gpucommons')  # noqa: F821" in shown
    assert "+PrivateDevices=no" in shown
    assert "Admins' sudo is refused in notebooks" in shown
    assert "limits.memory is 1G: it was held by those units, and holds no longer." in shown
    assert "tljh-config set services.cull.enabled false" in shown
    assert "--beside-hub http://127.0.0.1:15001/jupyter/hub/api" in shown
    assert "--account-template 'jupyter-{username}'" in shown
    # What a workstation has besides (a Node, JupyterLab) is for nothing in the hub's environment.
    assert "hub/bin/pip install 'WHEEL[hub,service]'" in shown
    assert "Nothing is written: do it with --apply." in shown
    assert not any(one.exists() for one in ours(hub))


def test_it_is_written_once_and_taken_away_with_nothing_of_its_own_touched(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(hub, "--apply") == 0
    config, unit = ours(hub)
    compile(config.read_text(), str(config), "exec")
    parsed = configparser.ConfigParser()
    parsed.read(unit)
    assert parsed["Service"]["KillMode"] == "process"
    assert unit.stat().st_mode & 0o444 == 0o444
    assert run(hub, "--apply") == 0
    assert "It has everything already." in capsys.readouterr().out
    assert run(hub, "--apply", "--state", "/srv/gpus") == 0
    assert "'/srv/gpus'" in config.read_text()

    assert run(hub, "--undo") == 0
    assert not any(one.exists() for one in ours(hub))
    assert config.parent.is_dir()
    assert not unit.parent.exists()
    assert (hub / "config" / "config.yaml").read_text() == OWN
    assert run(hub, "--undo") == 0
    assert "Nothing of GPU Commons is there." in capsys.readouterr().out


def test_a_file_of_the_admins_that_stands_against_it_is_refused_with_its_name(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = hub / "config" / "jupyterhub_config.d" / "spawner.py"
    theirs.write_text("c.JupyterHub.spawner_class = 'docker'\n")
    assert run(hub, "--apply") == 2
    said = capsys.readouterr().err
    assert "spawner.py: Line 1 sets another spawner ('docker')" in said
    assert not any(one.exists() for one in ours(hub))
    # What is in the way of ours is none of leaving.
    assert run(hub, "--undo") == 0


@pytest.mark.parametrize("what", ["--apply", "--undo"])
def test_what_stands_at_our_places_and_is_not_ours_stays(
    hub: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config, unit = ours(hub)
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nMemoryMax=8G\n")
    assert run(hub, what) == 2
    assert "50-gpucommons.conf was not written by this command" in capsys.readouterr().err
    assert unit.read_text() == "[Service]\nMemoryMax=8G\n"
    assert not config.exists()


def test_it_is_taken_away_whatever_stands_in_the_admins_own_files(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(hub, "--apply") == 0
    (hub / "config" / "config.yaml").write_text("a: [1")
    (hub / "config" / "jupyterhub_config.d" / "theirs.py").write_text("no Python")
    assert run(hub, "--undo") == 0
    assert not any(one.exists() for one in ours(hub))
    assert "Not undone by that: the idle culler" in capsys.readouterr().out


def test_what_was_changed_in_ours_is_kept_where_nothing_reads_it(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(hub, "--apply") == 0
    config, unit = ours(hub)
    config.write_text(config.read_text() + "c.Spawner.debug = True\n")
    assert run(hub, "--undo") == 0
    assert not any(one.exists() for one in (config, unit))
    kept = config.with_name(f"{config.name}.kept")
    assert "c.Spawner.debug = True" in kept.read_text()
    assert f"it is kept as {kept}" in capsys.readouterr().out
    assert not unit.with_name(f"{unit.name}.kept").exists()


def test_nothing_is_written_through_a_link(hub: Path, tmp_path: Path) -> None:
    config, _ = ours(hub)
    config.symlink_to(tmp_path / "elsewhere")
    assert run(hub, "--apply") == 0
    assert not (tmp_path / "elsewhere").exists()
    assert not config.is_symlink()


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (lambda hub: (hub / "config" / "config.yaml").write_text("a: [1"), "not YAML"),
        (lambda hub: (hub / "config").rename(hub / "elsewhere"), "There is no Littlest JupyterHub in"),
    ],
)  # fmt: skip
def test_what_is_no_such_hub_is_a_sentence(
    hub: Path, breaks: object, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(breaks)
    breaks(hub)
    assert run(hub, "--apply") == 2
    assert says in capsys.readouterr().err


def test_without_a_setting_of_its_own_the_culler_and_the_address_are_the_defaults(
    hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hub / "config" / "config.yaml").unlink()
    assert run(hub) == 0
    shown = capsys.readouterr().out
    assert "--beside-hub http://127.0.0.1:15001/hub/api" in shown
    (hub / "config" / "config.yaml").write_text("services: {cull: {enabled: false}}\n")
    assert run(hub) == 0
    assert "idle culler" not in capsys.readouterr().out

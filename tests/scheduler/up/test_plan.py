"""What ``up`` decides before it starts anything."""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu.agent import options
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler import up
from gpucommons.scheduler.models import ConfigModel
from gpucommons.scheduler.up.configuration import first_config, make_config, read_config
from gpucommons.scheduler.up.hub_files import admitted, teams_of, write_hub_files
from gpucommons.scheduler.up.parts import Machine, agent_part, clean_env, other_parts
from gpucommons.scheduler.up.screen import STARTS, Summary, goodbye_text, welcome_text
from gpucommons.scheduler.up.settings import Settings, read_settings
from gpucommons.scheduler.up.state_folder import StateFolder, prepare

DEVICES = tuple(
    Device(
        device_id=DeviceId(f"sim-{index}"),
        index=index,
        kind="A100-40",
        memory_mib=40960,
        simulated=True,
    )
    for index in range(4)
)


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    return parser.parse_args(arguments)


def settings(*arguments: str, **changes: Any) -> Settings:
    found = read_settings(parse(*arguments), {"GPUCOMMONS_STATE": "/nowhere/state"})
    return Settings(
        **{name: changes.get(name, getattr(found, name)) for name in Settings.__slots__}
    )


@pytest.fixture
def folder() -> Iterator[StateFolder]:
    with tempfile.TemporaryDirectory(prefix="gc") as root:
        yield prepare(Path(root) / "s", open_to_users=False)


def machine(folder: StateFolder, wanted: Settings) -> Machine:
    return Machine(
        settings=wanted,
        folder=folder,
        ports={"hub": 1, "proxy_api": 2, "api": 3, "pages": 4},
        proxy_command=("node", "proxy.js"),
        config=Path("gpucommons.yaml"),
        base_env=clean_env({"PATH": "/bin"}),
    )


# --- command line ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--simulate", "-1"],
        ["--simulate", "some"],
        ["--simulate", "65"],
        ["--port", "0"],
        ["--port", "65536"],
        ["--port", "http"],
        ["--idle-after-s", "0"],
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(*arguments)
    assert "write" in capsys.readouterr().err


@pytest.mark.parametrize("program", [lambda args: parse(*args), options.parse])
def test_what_simulated_gpus_may_say_of_their_links_is_named_as_one_writes_it(
    program: Callable[[list[str]], object], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program(["--simulated-topology", "ring"])
    assert "(choose from 'unknown', 'pairs', 'all')" in capsys.readouterr().err


def test_a_warning_must_come_before_the_end() -> None:
    with pytest.raises(ValueError, match="the warning comes first"):
        settings("--idle-after-s", "10", "--warn-after-s", "10")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"There is no file .*teams\.yaml"):
        settings("--config", str(tmp_path / "teams.yaml"))


def test_the_demo_has_a_file_an_admin_and_trusted_users() -> None:
    demo = settings("--demo")
    assert demo.admission == "trusted"
    assert demo.admins == ("admin",)
    assert demo.config is not None
    teams = read_config(demo.config).teams
    assert [team.name for team in teams] == ["vision", "nlp"]
    total = sum(
        team.quotas["gpu"].fixed_milli_gpu + team.quotas["gpu"].guaranteed_milli_gpu
        for team in teams
    )
    assert total == 4000


def test_root_admits_real_accounts_and_others_only_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert settings().admission == "accounts"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    alone = settings()
    assert alone.admission == "one"
    assert alone.admins == (alone.account,)
    assert settings("--trusted-users").admission == "trusted"


def test_up_refuses_with_a_sentence_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert up.main(["--config", "/nowhere/at/all.yaml"]) == 1
    assert "There is no file" in capsys.readouterr().err


# --- configuration ---------------------------------------------------------------------------


def test_the_first_configuration_gives_half_to_notebooks_and_half_to_training() -> None:
    config = first_config("alice", DEVICES)
    quota = config.teams[0].quotas["gpu"]
    assert (quota.fixed_milli_gpu, quota.guaranteed_milli_gpu) == (2000, 2000)
    assert config.pools[0].gpu_kind == "A100-40"
    one = first_config("alice", DEVICES[:1]).teams[0].quotas["gpu"]
    assert (one.fixed_milli_gpu, one.guaranteed_milli_gpu) == (500, 500)
    assert [pool.name for pool in first_config("alice", ()).pools] == ["cpu"]


def test_an_edited_configuration_is_left_as_it_is(folder: StateFolder) -> None:
    path = make_config(folder, "alice", DEVICES)
    assert read_config(path) == first_config("alice", DEVICES)
    path.write_text("teams: []\n")
    assert make_config(folder, "alice", DEVICES) == path
    assert read_config(path) == ConfigModel()


@pytest.mark.parametrize("text", ["teams: [", "teams: {}", "pools: [{name: UPPER}]", "- 1"])
def test_a_broken_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"YAML|line 1, |the file: "):
        read_config(path)


def test_groups_and_members_become_hub_groups() -> None:
    config = ConfigModel.model_validate(
        {
            "teams": [
                {"name": "vision", "groups": ["cv"], "members": ["bea"], "leads": ["ada"]},
                {"name": "empty"},
            ]
        }
    )
    assert teams_of(config) == {"vision": ["ada", "bea"], "cv": ["ada", "bea"]}


def test_only_one_user_is_admitted_where_all_would_share_an_account() -> None:
    teams = {"vision": ["ada", "bea"]}
    assert admitted(settings(admission="one", account="bea"), teams) == ["bea"]
    assert admitted(settings(admission="trusted", admins=("zoe",)), teams) == ["ada", "bea", "zoe"]


# --- parts -----------------------------------------------------------------------------------


def test_what_is_being_started_is_said_of_every_part(folder: StateFolder) -> None:
    wanted = settings("--demo")
    parts = [agent_part(wanted, folder, {}), *other_parts(machine(folder, wanted))]
    assert [part.name for part in parts if not STARTS[part.name].startswith("Starting: ")] == []


def test_nothing_secret_is_on_a_command_line(folder: StateFolder) -> None:
    parts = other_parts(machine(folder, settings("--demo")))
    secrets = [folder.token(name) for name in ("service", "culler", "spawner", "up", "proxy")]
    secrets.append(folder.password.read_text())
    for part in parts:
        assert not any(secret in word for secret in secrets for word in part.argv)
        assert not any(secret in repr(part) for secret in secrets)


def test_each_part_gets_only_its_own_token(folder: StateFolder) -> None:
    found = {part.name: part.env for part in other_parts(machine(folder, settings("--demo")))}
    assert found["scheduler"]["JUPYTERHUB_API_TOKEN"] == folder.token("service")
    assert found["culler"]["JUPYTERHUB_API_TOKEN"] == folder.token("culler")
    assert found["proxy"]["CONFIGPROXY_AUTH_TOKEN"] == folder.token("proxy")
    assert "JUPYTERHUB_API_TOKEN" not in found["hub"]


def test_secrets_of_the_caller_do_not_pass_to_the_parts() -> None:
    env = clean_env({"PATH": "/bin", "JUPYTERHUB_API_TOKEN": "x", "GPUCOMMONS_TOKEN": "y"})
    assert not {"JUPYTERHUB_API_TOKEN", "GPUCOMMONS_TOKEN"} & env.keys()


def test_the_criu_that_its_caller_names_passes_to_the_parts_but_not_that_of_a_job_or_notebook() -> (
    None
):
    named = {"PATH": "/bin", "GPUCOMMONS_CRIU": "/opt/criu", "GPUCOMMONS_TOKEN": "y"}
    assert clean_env(named)["GPUCOMMONS_CRIU"] == "/opt/criu"
    assert "GPUCOMMONS_TOKEN" not in clean_env(named)
    # Parts may start elsewhere.
    elsewhere = clean_env({**named, "GPUCOMMONS_CRIU": "criu"})["GPUCOMMONS_CRIU"]
    assert elsewhere == str(Path("criu").absolute())
    for theirs in ("GPUCOMMONS_ATTEMPT_ID", "GPUCOMMONS_LEASE_ID"):
        assert "GPUCOMMONS_CRIU" not in clean_env({**named, theirs: "x"})


def test_everything_listens_on_this_machine_only(folder: StateFolder) -> None:
    parts = {part.name: part for part in other_parts(machine(folder, settings("--demo")))}
    proxy = parts["proxy"].argv
    assert proxy[proxy.index("--ip") + 1] == "127.0.0.1"
    assert proxy[proxy.index("--api-ip") + 1] == "127.0.0.1"
    urls = [url for part in parts.values() for url in part.ready_urls]
    assert len(urls) >= 4
    assert all(url.startswith("http://127.0.0.1:") for url in urls)


def test_a_killed_up_leaves_notebooks_to_the_next_one(folder: StateFolder) -> None:
    parts = {part.name: part for part in other_parts(machine(folder, settings("--demo")))}
    assert parts["hub"].orphan_signal == signal.SIGKILL
    assert parts["proxy"].orphan_signal == signal.SIGTERM


def test_without_a_hub_only_agent_and_scheduler_run(folder: StateFolder) -> None:
    wanted = settings("--no-hub")
    parts = other_parts(machine(folder, wanted))
    assert [part.name for part in parts] == ["scheduler"]
    assert "JUPYTERHUB_API_TOKEN" not in parts[0].env
    assert agent_part(wanted, folder, {}).ready_socket == folder.agent / "control.sock"


def test_beside_a_hub_of_ones_own_runs_all_but_hub_and_proxy(folder: StateFolder) -> None:
    wanted = settings("--beside-hub", "http://127.0.0.1:8081/base/hub/api/")
    parts = other_parts(machine(folder, wanted))
    assert [part.name for part in parts] == ["scheduler", "culler"]
    assert {part.env["JUPYTERHUB_API_URL"] for part in parts} == {
        "http://127.0.0.1:8081/base/hub/api"
    }
    assert parts[0].env["JUPYTERHUB_BASE_URL"] == "/base/"
    assert parts[0].env["JUPYTERHUB_SERVICE_PREFIX"] == "/base/services/gpucommons/"
    with pytest.raises(ValueError, match="the address of the hub's API"):
        settings("--beside-hub", "127.0.0.1:8081")
    with pytest.raises(SystemExit):
        parse("--beside-hub", "http://127.0.0.1:8081/hub/api", "--no-hub")


def test_what_the_agent_is_to_do_is_said_to_up(folder: StateFolder) -> None:
    wanted = settings("--only-watch", "--agent-metrics-port", "9401")
    argv = agent_part(wanted, folder, {}).argv
    assert argv[-3:] == ("--only-watch", "--metrics-port", "9401")
    assert "--only-watch" not in agent_part(settings(), folder, {}).argv
    in_cloud = agent_part(settings("--cloud", "aws"), folder, {}).argv
    assert in_cloud[-4:] == ("--cloud", "aws", "--cloud-metadata", "http://169.254.169.254")
    assert "--cloud" not in argv
    with pytest.raises(ValueError, match="is no metadata service"):
        settings("--cloud", "aws", "--cloud-metadata", "http://example.org")


def test_browser_writes_by_admins_are_opened_only_where_users_are_not_apart(
    folder: StateFolder,
) -> None:
    apart = machine(folder, settings(admission="accounts"))
    shared = machine(folder, settings(admission="trusted"))
    assert "--allow-admin-writes" not in other_parts(apart)[0].argv
    assert "--shared-account" not in other_parts(apart)[0].argv
    assert {"--allow-admin-writes", "--shared-account"} <= set(other_parts(shared)[0].argv)


def test_the_hubs_files_are_private_and_hold_no_token(folder: StateFolder) -> None:
    write_hub_files(machine(folder, settings("--demo")), read_config(settings("--demo").config))
    facts = (folder.root / "hub.json").read_text()
    assert json.loads(facts)["teams"]["vision"] == ["ada", "alice"]
    assert folder.token("service") not in facts
    assert (folder.root / "hub.json").stat().st_mode & 0o077 == 0


# --- screen ----------------------------------------------------------------------------------


def screen(
    folder: StateFolder,
    wanted: Settings,
    devices: tuple[Device, ...] = DEVICES,
    *,
    lacks_criu: bool = False,
    named_criu: str = "",
    started_before: bool = False,
) -> str:
    teams = {"vision": ["ada", "alice"]}
    return welcome_text(
        Summary(
            settings=wanted,
            folder=folder,
            users=admitted(wanted, teams),
            teams=teams,
            devices=devices,
            config=Path("gpucommons.yaml"),
            password="correct horse",
            lacks_criu=lacks_criu,
            named_criu=named_criu,
            started_before=started_before,
        )
    )


def test_the_screen_says_where_to_go_who_may_log_in_and_what_is_simulated(
    folder: StateFolder,
) -> None:
    text = screen(folder, settings("--demo"))
    assert "http://127.0.0.1:8000" in text
    assert "ada (vision), admin (GPU admin), alice (vision)" in text
    assert "correct horse" in text
    assert "4 × A100-40, simulated (no real GPU stands behind them)" in text
    assert "nothing isolates their files and processes from each other" in text
    assert "Training jobs keep running" in text


def test_after_the_first_start_the_file_is_not_named_as_what_is_in_force(
    folder: StateFolder,
) -> None:
    first, later = (screen(folder, settings("--demo"), started_before=one) for one in (False, True))
    assert "Quotas    gpucommons.yaml" in first
    assert "Quotas    those of `gpucommons teams`" in later
    assert "gpucommons.yaml is read only while there are no teams" in later
    # Teams are those in force, at each start.
    assert "ada (vision), admin (GPU admin), alice (vision)" in first
    assert "ada (vision), admin (GPU admin), alice (vision)" in later


def test_the_screen_says_that_only_one_user_is_admitted(folder: StateFolder) -> None:
    text = screen(folder, settings(admission="one", account="zoe"), ())
    assert "Only 'zoe' may log in" in text
    assert "'zoe' is in no team" in text
    assert "none: notebooks and jobs run on the CPU" in text


def test_beside_another_hub_who_may_log_in_and_what_becomes_of_notebooks_is_that_hubs(
    folder: StateFolder,
) -> None:
    beside = ("--beside-hub", "http://127.0.0.1:8081/hub/api")
    text = screen(folder, settings(*beside, admission="one", account="zoe"), ())
    assert "may log in" not in text
    assert "Whom that hub admits shares the account 'zoe' with all others" in text
    assert "Training jobs keep running" in text
    assert "notebook servers are the hub's, and go on" in text
    ends = screen(folder, settings(*beside, "--stop-jobs", admission="one", account="zoe"), ())
    assert "Training jobs end with it; notebook servers are the hub's" in ends


def test_without_a_hub_nothing_is_said_of_notebooks_that_there_are_not(folder: StateFolder) -> None:
    text = screen(folder, settings("--no-hub", admission="one", account="zoe"), ())
    assert "Training jobs keep running" in text
    assert "Notebook servers end with it" not in text


@pytest.mark.parametrize("lacks_criu", [True, False])
def test_the_screen_says_what_would_keep_kernels_of_stopped_servers(
    folder: StateFolder, *, lacks_criu: bool
) -> None:
    text = screen(folder, settings("--demo"), lacks_criu=lacks_criu)
    assert ("`gpucommons hibernation setup` gets it" in text) == lacks_criu


def test_the_screen_says_that_a_criu_that_was_named_is_not_used(folder: StateFolder) -> None:
    text = screen(folder, settings("--demo"), lacks_criu=True, named_criu="/opt/criu")
    assert "/opt/criu (GPUCOMMONS_CRIU) is no CRIU 4.2 or newer" in text


def test_with_real_accounts_no_password_of_ours_is_shown(folder: StateFolder) -> None:
    assert "correct horse" not in screen(folder, settings(admission="accounts"))


def test_stopping_says_what_happens_to_jobs() -> None:
    assert "Training jobs keep running" in goodbye_text(settings())
    assert "training jobs end with it" in goodbye_text(settings("--stop-jobs"))


def test_no_part_imports_from_the_folder_in_which_this_was_started(folder: StateFolder) -> None:
    parts = (agent_part(settings(), folder, {}), *other_parts(machine(folder, settings())))
    modules = [part.argv for part in parts if "-m" in part.argv]
    assert len(modules) == 4
    assert {argv[1:3] for argv in modules} == {("-P", "-m")}

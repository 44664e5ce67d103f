"""The hub's configuration: least rights, no secrets where they are not needed, both JupyterHubs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.config.manager import ConfigManager
from traitlets.config import Config

from gpucommons.spawner import hub_config
from gpucommons.spawner.cluster import configure_cluster
from gpucommons.spawner.hub_config import HubSettings, configure
from gpucommons.spawner.hub_pages.addresses import Addresses
from gpucommons.spawner.workstation import configure_beside, configure_workstation

SETTINGS = HubSettings(
    scheduler_url="http://127.0.0.1:5000",
    pages_url="http://127.0.0.1:5001",
    service_token="service-secret",
    culler_token="culler-secret",
    spawner_token="spawner-secret",
    teams={"vision": ["bea", "ada"]},
    admins=["zoe"],
)


def configured() -> Config:
    config = Config()
    configure(config, SETTINGS)
    return config


class Hub5:
    """A JupyterHub that cannot add to the user role."""


class Hub6:
    extra_user_scopes = frozenset[str]()


def test_jupyterhub_6_adds_to_the_user_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_config, "JupyterHub", Hub6)
    config = configured()
    assert config.JupyterHub.extra_user_scopes == {
        "access:services!service=gpucommons",
        "custom:gpucommons:submit!user",
    }
    assert "user" not in [role["name"] for role in config.JupyterHub.load_roles]


def test_jupyterhub_5_gets_the_whole_user_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_config, "JupyterHub", Hub5)
    config = configured()
    [user] = [role for role in config.JupyterHub.load_roles if role["name"] == "user"]
    assert "self" in user["scopes"]
    assert "custom:gpucommons:submit!user" in user["scopes"]
    assert "extra_user_scopes" not in config.JupyterHub


def test_admins_hold_their_right_through_a_group_and_services_never_do() -> None:
    config = configured()
    roles: dict[str, dict[str, Any]] = {role["name"]: role for role in config.JupyterHub.load_roles}
    assert roles["gpucommons-admin"]["groups"] == ["gpucommons-admins"]
    assert config.JupyterHub.load_groups["gpucommons-admins"] == {"users": ["zoe"]}
    for role in roles.values():
        if "services" in role:
            assert "custom:gpucommons:admin" not in role["scopes"]


def test_a_notebooks_token_can_neither_administer_nor_lease() -> None:
    scopes = configured().Spawner.server_token_scopes
    assert not [scope for scope in scopes if "admin" in scope or "lease" in scope]
    assert all("!" in scope for scope in scopes)


def test_secrets_are_not_shown_with_the_settings() -> None:
    assert "secret" not in repr(SETTINGS)


def test_teams_are_hub_groups() -> None:
    assert configured().JupyterHub.load_groups["vision"] == {"users": ["ada", "bea"]}


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "tokens").mkdir()
    for name in ("service", "culler", "spawner", "up", "proxy"):
        (tmp_path / "tokens" / name).write_text(f"{name}-token\n")
    (tmp_path / "password").write_text("correct horse\n")
    return {
        "port": 8000,
        "ports": {"hub": 1, "proxy_api": 2, "api": 3, "pages": 4},
        "state": str(tmp_path),
        "api_url": "http://127.0.0.1:3",
        "pages_url": "http://127.0.0.1:4",
        "agent_dir": str(tmp_path / "agent"),
        "homes": "/homes/{username}",
        "admission": "trusted",
        "users": ["ada"],
        "teams": {"vision": ["ada"]},
        "admins": [],
    }


def workstation(tmp_path: Path, facts: dict[str, Any], **changes: Any) -> Config:
    (tmp_path / "hub.json").write_text(json.dumps({**facts, **changes}))
    config = Config()
    configure_workstation(config, str(tmp_path / "hub.json"))
    return config


def test_the_workstations_hub_listens_here_only_and_outlives_nothing_it_should_not(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    hub = workstation(tmp_path, facts)
    assert hub.JupyterHub.bind_url == "http://127.0.0.1:8000"
    assert hub.JupyterHub.hub_bind_url == "http://127.0.0.1:1"
    assert hub.JupyterHub.cleanup_servers is False
    assert hub.ConfigurableHTTPProxy.should_start is False
    assert hub.ConfigurableHTTPProxy.auth_token == "proxy-token"


def test_nobodys_first_screen_has_a_question_about_news(
    tmp_path: Path, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = workstation(tmp_path, facts).Spawner.environment
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", environment["JUPYTER_CONFIG_PATH"])
    # As JupyterLab reads defaults of its settings.
    defaults = ConfigManager(config_dir_name="labconfig").get("default_setting_overrides")
    assert defaults["@jupyterlab/apputils-extension:notification"] == {"fetchNews": "false"}


def test_only_the_supervisor_may_end_the_hub(tmp_path: Path, facts: dict[str, Any]) -> None:
    roles = workstation(tmp_path, facts).JupyterHub.load_roles
    holders = [role["name"] for role in roles if "shutdown" in role["scopes"]]
    assert holders == ["gpucommons-up"]


@pytest.mark.parametrize(
    "expected",
    [
        ("one", "shared-password", True),
        ("trusted", "shared-password", True),
        ("accounts", "pam", False),
    ],
)
def test_who_is_admitted_decides_how(
    tmp_path: Path, facts: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    admission, authenticator, shared = expected
    hub = workstation(tmp_path, facts, admission=admission)
    assert hub.JupyterHub.authenticator_class == authenticator
    assert hub.LeaseMixin.shared_account is shared
    assert hub.Authenticator.allowed_users == {"ada"}
    # The hub's database may know people who have left all teams since.
    assert hub.Authenticator.allow_existing_users is False
    # Quotas are the business of a group of ours; nobody needs to be an admin of the hub.
    assert "admin_users" not in hub.Authenticator


def cluster_config(tmp_path: Path, config: Config | None = None, **tokens: str) -> Config:
    for name in ("scheduler", "culler", "spawner"):
        (tmp_path / name).write_text(f"{name}-secret\n")
    for name, token in tokens.items():
        (tmp_path / name).write_text(token)
    config = config or Config()
    urls = {"scheduler_url": "http://scheduler:8000", "pages_url": "http://scheduler:8001"}
    configure_cluster(config, tokens_dir=str(tmp_path), **urls)
    return config


def test_beside_zero_to_jupyterhub_its_own_services_and_roles_stay(tmp_path: Path) -> None:
    config = Config()
    config.JupyterHub.services = [{"name": "theirs"}]
    config.JupyterHub.load_roles = [{"name": "their-role"}]
    config.JupyterHub.template_paths.append("/theirs")
    config.KubeSpawner.container_security_context = {"runAsUser": 5}
    found = cluster_config(tmp_path, config)
    services = [service["name"] for service in found.JupyterHub.services]
    assert services == ["theirs", "gpucommons", "gpucommons-culler", "gpucommons-spawner"]
    assert found.JupyterHub.load_roles[0] == {"name": "their-role"}
    assert found.KubeSpawner.container_security_context == {"runAsUser": 5}
    assert found.JupyterHub.spawner_class.endswith("GpuKubeSpawner")
    assert found.LeaseMixin.scheduler_token == "spawner-secret"


def test_the_groups_are_left_to_an_authenticator_that_keeps_them(tmp_path: Path) -> None:
    assert not cluster_config(tmp_path).JupyterHub.load_groups


def test_the_operator_is_an_admin_only_where_there_is_one(tmp_path: Path) -> None:
    def admins(config: Config) -> list[str]:
        return [
            service
            for role in config.JupyterHub.load_roles
            if "custom:gpucommons:admin" in role["scopes"]
            for service in role.get("services", ())
        ]

    assert admins(cluster_config(tmp_path)) == []
    assert admins(cluster_config(tmp_path, operator="secret")) == ["gpucommons-operator"]


def test_without_tokens_the_hub_starts_and_says_what_to_mount(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "scheduler").write_text("secret")
    config = Config()
    config.JupyterHub.services = [{"name": "theirs"}]
    configure_cluster(config, scheduler_url="x", pages_url="y", tokens_dir=str(tmp_path))
    assert "gpucommons-hub-tokens" in caplog.text
    assert f"{tmp_path}/culler, {tmp_path}/spawner" in caplog.text
    # A role of a service that is not there would end the hub.
    assert config.JupyterHub.services == [{"name": "theirs"}]
    assert "load_roles" not in config.JupyterHub
    # Tokens of notebooks that run carry them.
    assert "custom:gpucommons:submit" in config.JupyterHub.custom_scopes
    # Servers that run with a slice are this spawner's, and go on.
    assert config.JupyterHub.spawner_class.endswith("GpuKubeSpawner")
    assert "scheduler_url" not in config.LeaseMixin
    assert "only CPU can be started" in config.LeaseMixin.why_no_scheduler


def test_other_extensions_of_the_hubs_templates_stay() -> None:
    config = Config()
    config.JupyterHub.jinja_environment_options = {"extensions": ["jinja2.ext.do"], "x": 1}
    configure(config, SETTINGS)
    found = config.JupyterHub.jinja_environment_options
    assert found == {"extensions": ["jinja2.ext.do", Addresses], "x": 1}


def beside(tmp_path: Path, **theirs: Any) -> Config:
    config = Config(theirs)
    configure_beside(config, str(tmp_path))
    return config


def test_a_hub_of_ones_own_keeps_what_is_its_own(tmp_path: Path, facts: dict[str, Any]) -> None:
    (tmp_path / "hub.json").write_text(json.dumps(facts))
    there = {"services": [{"name": "theirs"}], "bind_url": "http://:9000"}
    hub = beside(tmp_path, JupyterHub=there)
    assert hub.JupyterHub.bind_url == "http://:9000"
    assert [one["name"] for one in hub.JupyterHub.services][:2] == ["theirs", "gpucommons"]
    assert hub.JupyterHub.load_groups["vision"] == {"users": ["ada"]}
    assert "authenticator_class" not in hub.JupyterHub
    assert "should_start" not in hub.ConfigurableHTTPProxy
    assert hub.LeaseMixin.shared_account is True


def test_groups_that_an_authenticator_keeps_are_not_set(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    (tmp_path / "hub.json").write_text(json.dumps(facts))
    hub = beside(tmp_path, GenericOAuthenticator={"manage_groups": True})
    assert hub.JupyterHub.load_groups == {}


def test_before_the_rest_was_started_the_hub_starts_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = beside(tmp_path)
    assert "services" not in hub.JupyterHub
    assert "not connected to its GPU scheduler" in hub.LeaseMixin.why_no_scheduler
    assert "gpucommons up --beside-hub URL" in caplog.text

"""The Littlest JupyterHub: our file among those that it merges, and the accounts that its users have."""

from __future__ import annotations

import hashlib
import json
import pwd
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from tornado.web import HTTPError
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from gpucommons.spawner.littlest import GpuLittlestSpawner

#: What counts of its ``tljh/jupyterhub_config.py`` (2.0): files of the folder are loaded into configurations
#: of their own, and merged.
OWN = """
c = get_config()
c.JupyterHub.spawner_class = "tljh.user_creating_spawner.UserCreatingSpawner"
c.UserCreatingSpawner.user_groups = {"gpu": ["ann"]}
c.JupyterHub.services = [{"name": "cull-idle", "admin": True, "command": ["python"]}]
for extra in EXTRAS:
    load_subconfig(extra)
"""
THEIRS = "c.JupyterHub.services.append({'name': 'grader', 'api_token': 'x'})\n"


def loaded(folder: Path, state: Path) -> Config:
    """The whole configuration as the hub has it then."""
    texts = {
        "40-theirs.py": THEIRS,
        "50-gpucommons.py": "from gpucommons.spawner.littlest import configure_littlest\n"
        f"configure_littlest(c, {str(state)!r})\n",
        "60-theirs.py": THEIRS.replace("grader", "later"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    own = folder / "jupyterhub_config.py"
    own.write_text(OWN.replace("EXTRAS", repr(sorted(texts))))
    return PyFileConfigLoader(own.name, path=str(folder)).load_config()


def connected(state: Path) -> Path:
    """What `gpucommons up --beside-hub` writes."""
    (state / "tokens").mkdir(parents=True)
    for name in ("service", "culler", "spawner"):
        (state / "tokens" / name).write_text(f"{name}-token")
    facts = {
        "api_url": "http://127.0.0.1:1", "pages_url": "http://127.0.0.1:2", "agent_dir": str(state),
        "teams": {"vision": ["ann"]}, "admins": ["ada"], "admission": "accounts",
        "homes": "/none/{username}", "accounts": "jupyter-{username}",
    }  # fmt: skip
    (state / "hub.json").write_text(json.dumps(facts))
    return state


def test_our_services_come_to_those_of_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLJH_INSTALL_PREFIX", "/srv/tljh")
    config = loaded(tmp_path, connected(tmp_path / "state"))
    hub = JupyterHub(
        config=Config({"JupyterHub": {**config.JupyterHub, "spawner_class": GpuLittlestSpawner}})
    )
    assert config.JupyterHub.spawner_class == "gpucommons.spawner.littlest.GpuLittlestSpawner"
    names = [one["name"] for one in hub.services]
    assert names[:2] == ["cull-idle", "grader"]
    assert names[-1] == "later"
    assert {"gpucommons", "gpucommons-culler", "gpucommons-spawner"} < set(names)
    assert {"gpucommons-scheduler", "gpucommons-admin"} < {one["name"] for one in hub.load_roles}
    assert "vision" in hub.load_groups
    one = spawner("ann", config)
    assert one.cmd == ["/srv/tljh/user/bin/python", "-m", "jupyterhub.singleuser"]
    assert one.account == "jupyter-ann"
    assert one.shared_account is False


def test_its_own_spawner_stays_while_ours_is_not_connected(tmp_path: Path) -> None:
    config = loaded(tmp_path, tmp_path / "nothing")
    assert config.JupyterHub.spawner_class == "tljh.user_creating_spawner.UserCreatingSpawner"
    hub = JupyterHub(config=Config({"JupyterHub": {"services": config.JupyterHub.services}}))
    assert [one["name"] for one in hub.services] == ["cull-idle", "grader", "later"]


@pytest.mark.parametrize(
    "change", [{"accounts": "{username}"}, {"admission": "trusted"}, {"admission": "one"}]
)
def test_no_user_gets_an_account_of_the_machine_that_is_called_like_them(
    tmp_path: Path, change: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Who signs up as `ubuntu` would be its admin; notebooks in one account would be the hub's own, root's."""
    state = connected(tmp_path / "state")
    facts = json.loads((state / "hub.json").read_text())
    (state / "hub.json").write_text(json.dumps(facts | change))
    config = loaded(tmp_path, state)
    assert config.JupyterHub.spawner_class == "tljh.user_creating_spawner.UserCreatingSpawner"
    hub = JupyterHub(config=Config({"JupyterHub": {"services": config.JupyterHub.services}}))
    assert [one["name"] for one in hub.services] == ["cull-idle", "grader", "later"]
    assert "--account-template jupyter-{username} and without --trusted-users" in caplog.text


def spawner(name: str, config: Config, *, admin: bool = False) -> GpuLittlestSpawner:
    return GpuLittlestSpawner(user=SimpleNamespace(name=name, admin=admin), config=config)


def cut(name: str) -> str:
    """As ``tljh/normalize.py`` 2.0."""
    return (
        name if len(name) < 26 else f"{name[:26]}-{hashlib.sha256(name.encode()).hexdigest()[:5]}"
    )


class FakeAccounts(ModuleType):
    """``tljh.user``, which would call useradd."""

    def __init__(self) -> None:
        super().__init__("tljh.user")
        self.calls: list[tuple[str, ...]] = []
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        def call(*words: str) -> None:
            self.calls.append((name, *words))
            if self.fails:
                message = "useradd"
                raise FileNotFoundError(message)

        return call


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> FakeAccounts:
    package, made = ModuleType("tljh"), FakeAccounts()
    package.user = made  # type: ignore[attr-defined]
    package.normalize = SimpleNamespace(generate_system_username=cut)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tljh", package)
    monkeypatch.setitem(sys.modules, "tljh.user", made)
    return made


@pytest.mark.parametrize(("admin", "change"), [(True, "ensure"), (False, "remove")])
async def test_who_comes_first_gets_the_account_and_groups_that_its_own_spawner_would_make(
    tmp_path: Path, accounts: FakeAccounts, *, admin: bool, change: str
) -> None:
    config = loaded(tmp_path, connected(tmp_path / "state"))
    one = spawner("ann", config, admin=admin)
    # There is no such account: nothing of the machine is changed here.
    with pytest.raises((HTTPError, KeyError, AttributeError)):
        await one.start()
    assert accounts.calls == [
        ("ensure_user", "jupyter-ann"),
        ("ensure_user_group", "jupyter-ann", "jupyterhub-users"),
        (f"{change}_user_group", "jupyter-ann", "jupyterhub-admins"),
        ("ensure_user_group", "jupyter-ann", "gpu"),
    ]


async def test_an_account_that_cannot_be_made_starts_nothing_and_says_so(
    tmp_path: Path, accounts: FakeAccounts
) -> None:
    accounts.fails = True
    one = spawner("bob", loaded(tmp_path, connected(tmp_path / "state")))
    with pytest.raises(HTTPError) as refused:
        await one.start()
    assert refused.value.status_code == 503
    assert "The account jupyter-bob could not be made" in str(
        getattr(refused.value, "jupyterhub_message", refused.value)
    )


async def test_a_long_name_is_not_given_an_account_that_another_name_may_be_cut_to(
    tmp_path: Path, accounts: FakeAccounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "someone-with-a-long-name"
    before = cut(f"jupyter-{name}")
    there = {before: pwd.getpwuid(0)}
    monkeypatch.setattr(pwd, "getpwnam", there.__getitem__)
    one = spawner(name, loaded(tmp_path, connected(tmp_path / "state")))
    with pytest.raises(HTTPError) as refused:
        await one.start()
    assert refused.value.status_code == 409
    said = str(getattr(refused.value, "jupyterhub_message", refused.value))
    assert f"usermod --login {one.account} --home /home/{one.account} --move-home {before}" in said
    assert accounts.calls == []

    # Once an admin has said whose it is, it is used.
    there[one.account] = there.pop(before)
    with pytest.raises((HTTPError, KeyError, AttributeError)):
        await one.start()
    assert ("ensure_user", one.account) in accounts.calls

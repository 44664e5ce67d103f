"""Servers as processes of this machine: whose, where, with which interpreter."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tornado.web import HTTPError

from gpucommons.gpu.client.agent_client import Prepared
from gpucommons.gpu.errors import AgentUnavailable, LimitNotInForce
from gpucommons.gpu.providers import Injection
from gpucommons.gpu.slices.slices import GpuSlice
from gpucommons.scheduler.models import SliceView
from gpucommons.spawner import kernel_trial, local
from gpucommons.spawner.local import GpuLocalSpawner

SHOW = "id -u; id -g; grep NoNewPrivs /proc/self/status | cut -f2"


def spawner(name: str, **traits: object) -> GpuLocalSpawner:
    return GpuLocalSpawner(user=SimpleNamespace(name=name), **traits)


def refused_with(error: HTTPError) -> str:
    return str(getattr(error, "message", None) or getattr(error, "jupyterhub_message", ""))


def test_a_server_of_a_real_account_runs_as_it_and_gains_no_privileges() -> None:
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    preexec = spawner(account.pw_name, shared_account=False).make_preexec_fn(account.pw_name)
    done = subprocess.run(
        ["/bin/sh", "-c", SHOW],
        preexec_fn=preexec,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(account.pw_uid), str(account.pw_gid), "1"]


@pytest.mark.parametrize("name", ["root", "daemon"])
def test_no_server_runs_as_an_account_of_the_system(name: str) -> None:
    with pytest.raises(HTTPError) as refused:
        spawner(name, shared_account=False).make_preexec_fn(name)
    assert refused.value.status_code == 403
    assert "account of the system" in refused_with(refused.value)


def test_a_user_without_an_account_is_told_whom_to_ask() -> None:
    with pytest.raises(HTTPError) as refused:
        spawner("nobody-at-all", shared_account=False).make_preexec_fn("nobody-at-all")
    assert "no account named nobody-at-all" in refused_with(refused.value)


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a\x00b", "%2e%2e", "ünïcode"])
def test_homes_of_a_shared_account_stay_below_their_folder(tmp_path: Path, name: str) -> None:
    home = spawner(name, home_dir_template=f"{tmp_path}/homes/{{username}}").home_dir
    assert home.parent == tmp_path / "homes"
    assert home.resolve().parent == (tmp_path / "homes").resolve()


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(HTTPError) as refused:
        _ = spawner(name).home_dir
    assert refused.value.status_code == 400


def test_a_shared_account_gets_a_private_home_and_starts_in_it(tmp_path: Path) -> None:
    one = spawner("ada", shared_account=True, home_dir_template=f"{tmp_path}/homes/{{username}}")
    done = subprocess.run(
        ["/bin/pwd"],
        preexec_fn=one.make_preexec_fn("ada"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()) == tmp_path / "homes" / "ada"
    assert (tmp_path / "homes" / "ada").stat().st_mode & 0o077 == 0
    env = one.user_env({})
    assert (env["USER"], env["HOME"]) == ("ada", str(tmp_path / "homes" / "ada"))


def test_the_server_is_that_of_the_hubs_own_interpreter() -> None:
    assert spawner("ada").cmd[:2] == [sys.executable, "-m"]


def test_a_shared_account_is_assumed_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert spawner("ada").shared_account
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not spawner("ada").shared_account


async def test_a_hub_without_criu_promises_no_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GPUCOMMONS_CRIU", str(tmp_path / "none"))
    trials = kernel_trial.KernelTrials(page_waits_s=60)
    monkeypatch.setattr(local, "TRIALS", trials)
    assert await spawner("ada", shared_account=True).may_keep_kernels() is False
    # What cannot be tried as its user is not known: nobody has this account.
    assert await spawner("ada", shared_account=False).may_keep_kernels() is None


async def test_where_an_admin_switched_it_off_no_kernels_are_promised() -> None:
    off = spawner("ada", environment={"GPUCOMMONS_HIBERNATE_KERNELS": "0"})
    assert await off.may_keep_kernels() is False


def test_a_server_is_told_what_the_form_calls_its_environment() -> None:
    made = spawner("ada")
    (own,) = made.environments
    assert made.environment_name() == own
    assert made.gpu_env({})["GPUCOMMONS_ENVIRONMENT"] == own
    torch = spawner("ada", environments={"Torch": "/opt/torch/bin/python3"})
    assert torch.environment_name() == "", "nothing was chosen, and it is no environment of the hub"
    torch.user_options = {"environment": "Torch"}
    assert torch.gpu_env({})["GPUCOMMONS_ENVIRONMENT"] == "Torch"


def test_a_server_that_hangs_at_its_end_gives_its_gpu_back_within_15_s(tmp_path: Path) -> None:
    one = spawner("ann", home_dir_template=str(tmp_path))
    assert one.interrupt_timeout + one.term_timeout < 15
    assert spawner("ann", interrupt_timeout=30).interrupt_timeout == 30


HELD = SliceView(
    slice_id="s-1",
    node="here",
    device_ids=["GPU-0"],
    device_indices=[0],
    gpu_kind="A100-40",
    milli_gpu=500,
    memory_mib=19866,
    isolation="kernel",
    simulated=False,
)


class ScriptedAgent:
    """In place of the agent's client."""

    error: Exception | None = None

    def __init__(self, path: Path) -> None:
        assert path == Path("/state/agent/control.sock")

    def prepare(self, gpu_slice: GpuSlice, *, uid: int | None) -> Prepared:
        if ScriptedAgent.error is not None:
            raise ScriptedAgent.error
        assert (gpu_slice.slice_id, uid) == ("s-1", None)
        given = Injection(prepend={"LD_LIBRARY_PATH": "/slice"}, cgroup="/group")
        return Prepared(socket=Path("/x"), injection=given, isolation="kernel")


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> type[ScriptedAgent]:
    monkeypatch.setattr("gpucommons.spawner.local.AgentClient", ScriptedAgent)
    monkeypatch.setattr(ScriptedAgent, "error", None)
    return ScriptedAgent


async def test_the_agent_makes_the_slice_before_the_server_starts(agent: object) -> None:
    made = await spawner("ann", shared_account=True, agent_dir="/state/agent").prepare_slice(HELD)
    assert made is not None
    assert made.cgroup == "/group"


async def test_a_limit_that_is_not_in_force_starts_no_server(agent: type[ScriptedAgent]) -> None:
    agent.error = LimitNotInForce("The driver reports no limit for slice s-1.")
    with pytest.raises(HTTPError) as refused:
        await spawner("ann", shared_account=True, agent_dir="/state/agent").prepare_slice(HELD)
    assert refused.value.status_code == 503
    text = refused_with(refused.value)
    assert "nothing was started" in text
    assert "The driver reports no limit" in text


async def test_without_an_agent_only_a_slice_without_any_limit_starts(
    agent: type[ScriptedAgent],
) -> None:
    agent.error = AgentUnavailable("nobody answers")
    local = spawner("ann", shared_account=True, agent_dir="/state/agent")
    with pytest.raises(HTTPError) as refused:
        await local.prepare_slice(HELD)
    assert "not in force" in refused_with(refused.value)
    simulated = HELD.model_copy(update={"isolation": "none", "simulated": True})
    assert await local.prepare_slice(simulated) is None


async def test_a_hub_that_knows_no_agent_starts_nothing_that_has_a_limit() -> None:
    local = spawner("ann", shared_account=True)
    with pytest.raises(HTTPError) as refused:
        await local.prepare_slice(HELD)
    assert "agent_dir" in refused_with(refused.value)
    unlimited = HELD.model_copy(update={"isolation": "none"})
    assert await local.prepare_slice(unlimited) is None


def test_a_server_enters_its_group_before_it_becomes_its_user(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").touch()
    local = spawner("ann", shared_account=True, home_dir_template=str(tmp_path / "{username}"))
    local._prepared = Injection(cgroup=str(group))
    nothing = [sys.executable, "-c", "pass"]
    subprocess.run(nothing, preexec_fn=local.make_preexec_fn("ann"), check=True)
    # 0: the process that writes, which was the child.
    assert (group / "cgroup.procs").read_text() == "0"
    local._prepared = Injection(cgroup=str(tmp_path / "nowhere"))
    with pytest.raises(subprocess.SubprocessError):
        subprocess.run(nothing, preexec_fn=local.make_preexec_fn("ann"), check=True)

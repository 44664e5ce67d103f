"""A scheduler of this machine: real sockets, real store, no agent and no hub."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from free_ports import free_port

from gpucommons.gpu.connections.listening import listen_tcp
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest, Misconfigured, NotAuthenticated, Unavailable
from gpucommons.scheduler.wiring.app import read_config
from gpucommons.scheduler.wiring.options import HubOptions, SchedulerSettings, read_settings
from gpucommons.scheduler.wiring.os_accounts import account_of, accounts, home_of
from gpucommons.scheduler.wiring.rest_api import secret_text
from gpucommons.scheduler.wiring.serving import serve


@pytest.fixture
def state() -> Iterator[Path]:
    """A short path: names of unix sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    yield folder
    shutil.rmtree(folder)


async def until_up(state: Path) -> None:
    async with AsyncSchedulerClient(f"unix:{state / 'api.sock'}") as client:
        for _ in range(200):
            try:
                await client.send(calls.whoami())
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return
    raise AssertionError("the scheduler did not come up")


async def test_the_operator_is_admin_at_the_socket_and_nobody_at_the_port(state: Path) -> None:
    stop = asyncio.Event()
    settings = SchedulerSettings(state=state, shared_account=True)
    serving = asyncio.create_task(serve(settings, stop))
    await until_up(state)
    assert (state / "api.sock").stat().st_mode & 0o777 == 0o600
    async with AsyncSchedulerClient(f"unix:{state / 'api.sock'}") as client:
        who = await client.send(calls.whoami())
        assert (who.admin, who.shared_account) == (True, True)
    with pytest.raises(Unavailable, match="scheduler"):
        await serve(settings, stop)
    stop.set()
    assert await asyncio.wait_for(serving, 10) == 0
    serving = asyncio.create_task(serve(settings, stop := asyncio.Event()))
    await until_up(state)
    stop.set()
    assert await asyncio.wait_for(serving, 10) == 0


async def test_a_port_that_is_taken_is_said(state: Path) -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        await serve(SchedulerSettings(state=state, api_port=port), asyncio.Event())
    server.close()
    await server.wait_closed()


# tornado leaves the socket that could not be bound to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_pages_that_cannot_listen_end_the_scheduler_with_the_reason(state: Path) -> None:
    taken = listen_tcp(0)
    hub = HubOptions(api_url="http://127.0.0.1:1/hub/api", token="t")
    settings = SchedulerSettings(state=state, hub=hub, pages_port=taken.getsockname()[1])
    with pytest.raises(OSError, match="in use"):
        await asyncio.wait_for(serve(settings, asyncio.Event()), 20)
    taken.close()
    gc.collect()


async def test_the_port_takes_tokens_only(state: Path) -> None:
    stop = asyncio.Event()
    port = free_port()
    serving = asyncio.create_task(serve(SchedulerSettings(state=state, api_port=port), stop))
    await until_up(state)
    async with AsyncSchedulerClient(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(NotAuthenticated):
            await client.send(calls.whoami())
    stop.set()
    await asyncio.wait_for(serving, 10)


def test_settings_come_from_the_command_line_and_the_hubs_environment() -> None:
    environ = {"JUPYTERHUB_API_URL": "http://hub/api", "JUPYTERHUB_API_TOKEN": "geheim"}
    settings = read_settings(
        ["--state", "/x", "--idle-after-s", "12", "--warn-after-s", "8"], environ
    )
    assert settings.database == "sqlite:////x/scheduler.db"
    assert settings.agent == Path("/x/agent/control.sock")
    assert (settings.idle_after_s, settings.warn_after_s) == (12, 8)
    assert settings.hub is not None
    assert "geheim" not in repr(settings)
    assert read_settings(["--state", "/x"], {}).hub is None


@pytest.mark.parametrize(
    "arguments",
    [[], ["--state", "/x", "--idle-after-s", "0"], ["--state", "/x", "--warn-after-s", "9999"]],
)
def test_bad_settings_end_with_a_usage_message(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings(arguments, {})
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", "surprise: 1", "teams: [{name: 'A B'}]"])
def test_a_bad_configuration_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest, match=r"config\.yaml is no configuration"):
        read_config(path)


def test_homes_and_accounts_stay_where_they_belong(tmp_path: Path) -> None:
    settings = SchedulerSettings(
        state=tmp_path, shared_account=True, home_template=f"{tmp_path}/{{username}}"
    )
    assert home_of(settings, "ann") == tmp_path / "ann"
    for name in ("", ".", "..", "../x", "a/b"):
        with pytest.raises(Misconfigured):
            home_of(settings, name)
    own = SchedulerSettings(state=tmp_path)
    assert home_of(own, "root") == Path("~root").expanduser()
    with pytest.raises(Misconfigured, match="no account"):
        home_of(own, "no-such-user")
    assert accounts(own, euid=1000) is None
    assert accounts(settings, euid=0) is None
    own_accounts = accounts(own, euid=0)
    assert own_accounts is not None
    with pytest.raises(Misconfigured, match="no account"):
        own_accounts("no-such-user")
    with pytest.raises(Misconfigured, match="of the system"):
        account_of("root")
    with pytest.raises(Misconfigured, match="no account"):
        account_of("no-such-user")


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "metrics-token"
    first = secret_text(path)
    assert secret_text(path) == first
    assert len(first) > 30
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_uid == os.geteuid()

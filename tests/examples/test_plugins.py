"""What other packages bring: the example works as its page says, and what is broken hurts nobody."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from gangs import a_gang

from gpucommons.gpu import plugins
from gpucommons.gpu.linux.processes import LinuxProcesses
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.node.node_traits import Wishes, survey
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.scheduler import launchers, models
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import Misconfigured, Unavailable
from gpucommons.scheduler.launchers.launcher import Asked, Launcher
from gpucommons.scheduler.wiring.options import SchedulerSettings, read_settings
from gpucommons.scheduler.wiring.plugins import add_launchers
from gpucommons.scheduler.wiring.serving import serve

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins"
CONFIG = """
pools: [{name: far, executor: bare, notice_s: 0, grace_s: 20}, {name: lame, executor: broken}]
teams: [{name: vision, members: [ann], quotas: {far: {}, lame: {}}}]
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed, as its page says."""
    folder = tmp_path_factory.mktemp("packages")
    sources = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("sources") / "plugins")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run(
        [*pip, "--no-index", "--no-build-isolation", "--quiet", "--target", folder, sources],
        check=True, timeout=120,
    )  # fmt: skip
    return folder


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(packages))
    yield
    launchers.add(())


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package: each of its plugins fails in its own way."""
    (tmp_path / "lame.py").write_text(
        "WORD = 'no plugin'\n\ndef leaves():\n    raise SystemExit(3)\n"
    )
    (tmp_path / "lamer.py").write_text("import not_there\n")
    about = tmp_path / "lame-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lame\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(
        "[gpucommons.launchers]\nword = lame:WORD\ngone = lamer:X\ntorchrun = lame:WORD\n"
        "[gpucommons.executors]\nbroken = lamer:X\n"
        "[gpucommons.providers]\nword = lame:WORD\ngone = lamer:X\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    launchers.add(())


@pytest.fixture
def state() -> Iterator[Path]:
    """A short path: names of unix sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    yield folder
    shutil.rmtree(folder)


@asynccontextmanager
async def scheduler(state: Path) -> AsyncIterator[AsyncSchedulerClient]:
    config = state / "config.yaml"
    config.write_text(CONFIG)
    executors = {"bare": None, "broken": None}
    settings = SchedulerSettings(
        state=state, config=config, executors=executors, shared_account=True
    )
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(settings, stop))
    try:
        async with AsyncSchedulerClient(f"unix:{state / 'api.sock'}") as client:
            for _ in range(400):
                with suppress(Unavailable):
                    if (await client.send(calls.pools())).pools:  # its configuration is in force
                        break
                await asyncio.sleep(0.05)
            yield client
    finally:
        stop.set()
        await asyncio.wait_for(serving, 30)


async def until(client: AsyncSchedulerClient, ref: str, *states: str) -> models.JobView:
    for _ in range(1200):
        view = await client.send(calls.job(ref))
        if view.state in states:
            return view
        await asyncio.sleep(0.05)
    raise AssertionError(view)


def a_request(script: str, pool: str = "far", **changes: object) -> models.JobRequest:
    role = {"count": 2, "cpu_milli": 500, "memory_mib": 100, "command": ["sh", "-c", script]}
    asked = {"name": "a", "team": "vision", "pools": [pool], "roles": [role]}
    return models.JobRequest.model_validate({**asked, "launcher": "hostfile", **changes})


async def lines_of(client: AsyncSchedulerClient, ref: str, rank: int) -> list[str]:
    return (await client.send(calls.log(ref, rank=rank))).lines


@pytest.mark.usefixtures("installed", "broken")
async def test_a_job_of_anothers_launcher_runs_on_anothers_executor_over_a_restart(
    state: Path,
) -> None:
    goes_on = state / "goes-on"
    script = f"""echo "I am $HOST_NUMBER of $HOSTS"; until [ -e {goes_on} ]; do sleep 0.05; done"""
    async with scheduler(state) as client:
        job = await client.send(calls.submit(a_request(script), key="k"))
        await until(client, job.id, "running")
        with pytest.raises(Misconfigured, match="lame: it has no nodes"):
            await client.send(calls.submit(a_request("true", "lame"), key="l"))
    async with scheduler(state) as client:
        assert (await client.send(calls.job(job.id))).state == "running"
        goes_on.touch()
        done = await until(client, job.id, "succeeded")
        assert [attempt.number for attempt in done.attempts] == [1]
        expected = "of 127.0.0.1:20000,127.0.0.1:20001"
        assert await lines_of(client, job.id, 0) == [f"I am 0 {expected}"]
        assert await lines_of(client, job.id, 1) == [f"I am 1 {expected}"]


@pytest.mark.usefixtures("installed", "broken")
async def test_anothers_executor_stops_and_fails_as_ours(state: Path) -> None:
    async with scheduler(state) as client:
        fails = await client.send(calls.submit(a_request("exit 3"), key="k"))
        assert (await until(client, fails.id, "failed")).attempts[-1].exit_code == 3
        long = await client.send(calls.submit(a_request("sleep 600"), key="l"))
        await until(client, long.id, "running")
        await client.send(calls.cancel(long.id))
        await until(client, long.id, "cancelled")


@pytest.mark.usefixtures("broken")
def test_a_broken_launcher_is_left_out_with_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    add_launchers()
    assert set(launchers.LAUNCHERS) == set(launchers.BUILT_IN)
    said = "\n".join(record.message for record in caplog.records)
    assert "The launcher word is left out: it is no Launcher of that name." in said
    assert (
        "The plugin gone (gpucommons.launchers, of lame 0.1) is left out: ModuleNotFoundError: No module"
        " named 'not_there'" in said
    )


@pytest.mark.usefixtures("installed", "broken")
def test_providers_of_others_come_first_and_broken_ones_not_at_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ground = survey(
        SimulatedGpus(simulated_devices(2), LinuxProcesses()), SliceFolders(tmp_path), Wishes()
    )
    names = [provider.name for provider in ground.providers]
    assert (names[0], "exclusive" in names, "word" in names) == ("labels", True, False)
    assert (
        "The plugin word (gpucommons.providers, of lame 0.1) is left out: TypeError" in caplog.text
    )


def test_a_launcher_that_is_gone_or_fails_starts_nobody() -> None:
    def fails(_gang: object) -> tuple[launchers.Start, ...]:
        raise KeyError("hosts")

    launchers.add([Launcher(name="fails", starts=fails, refusal=fails)])  # type: ignore[arg-type]
    launchers.add([Launcher(name="fails", starts=fails), Launcher(name="few", starts=lambda _: ())])
    with pytest.raises(
        Misconfigured, match=r"The launcher fails, which another .* KeyError: 'hosts'"
    ):
        launchers.starts("fails", a_gang())
    with pytest.raises(Misconfigured, match="0 commands for 2 workers"):
        launchers.starts("few", a_gang())
    launchers.add(())
    with pytest.raises(Misconfigured, match="The launcher few is not installed here any more"):
        launchers.starts("few", a_gang())
    why = launchers.refusal("few", Asked(roles={"worker": 2}, command=("python",)))
    assert why is not None
    assert why.startswith("There is no launcher few here. Those there are: auto, plain, torchrun")


def test_what_is_not_installed_is_said() -> None:
    with pytest.raises(plugins.BrokenPlugin, match="No package that is installed here adds slurmy"):
        plugins.load(plugins.EXECUTORS, "slurmy")


def test_an_executor_is_named_with_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--state", "/x", "--executor", "bare", "--executor", "far=/etc/far.yaml"]
    assert read_settings(given, {}).executors == {"bare": None, "far": Path("/etc/far.yaml")}
    with pytest.raises(SystemExit):
        read_settings(["--state", "/x", "--executor", "=x"], {})
    assert "names no executor: write NAME" in capsys.readouterr().err
